//! The pods that are created, and where their volumes appear.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use volhost_tests::cluster::IMAGE;

use crate::side::Side;
use crate::world::{CONFIG_MAP, CSI_DRIVER, NO_RUNTIME, World};

/// A pod that was created.
#[derive(Debug)]
pub(crate) struct CreatedPod {
    pub(crate) name: String,
    /// Its folder in the node's root folder, as this program sees it.
    pub(crate) folder: PathBuf,
    /// What is there when its volumes are mounted.
    pub(crate) signs: Vec<Sign>,
}

/// A sign of a mounted volume.
#[derive(Debug)]
pub(crate) enum Sign {
    /// The root of a mount is here.
    Mount(PathBuf),
    /// A file is here.
    File(PathBuf),
}

impl CreatedPod {
    /// The pod of this name and uid, whose volumes are those of its manifest.
    pub(crate) fn new(root: &Path, side: Side, name: &str, created: &Value) -> Self {
        let uid = created["metadata"]["uid"].as_str().expect("a pod has a uid");
        let folder = root.join("pods").join(uid);
        let volumes = created["spec"]["volumes"].as_array().expect("a pod has volumes");
        let signs = volumes.iter().filter_map(|volume| sign(&folder.join("volumes"), side, volume)).collect();
        Self { name: name.to_owned(), folder, signs }
    }
}

/// The sign of one volume; none for a hostPath of the kubelet, of which a pod's folder shows nothing:
/// the runtime binds it.
fn sign(volumes: &Path, side: Side, volume: &Value) -> Option<Sign> {
    let name = volume["name"].as_str().expect("a volume has a name");
    let at = |plugin: &str| volumes.join(plugin).join(name);
    if volume["emptyDir"].is_object() {
        return Some(Sign::Mount(at("kubernetes.io~empty-dir")));
    }
    if volume["configMap"].is_object() {
        return Some(Sign::File(at("kubernetes.io~configmap").join("text")));
    }
    if volume["csi"].is_object() {
        return Some(Sign::Mount(at("kubernetes.io~csi").join("mount")));
    }
    (side == Side::Volhost).then(|| Sign::Mount(at("kubernetes.io~host-path")))
}

/// A pod whose start is timed: an emptyDir in memory, a ConfigMap and a hostPath; with `csi-serve`
/// one volume of its driver. No container of it is started.
pub(crate) fn timed(world: &World, side: Side, name: &str) -> Value {
    let volumes = match side {
        Side::CsiServe => json!([{
            "name": "data", "csi": { "driver": CSI_DRIVER, "volumeAttributes": { "path": world.disk(side) } }
        }]),
        Side::Kubelet | Side::Volhost => Value::Array((0..3).map(|number| local_volume(world, side, number)).collect()),
    };
    let mut pod = pod(side, name, volumes);
    pod["spec"]["runtimeClassName"] = NO_RUNTIME.into();
    pod
}

/// A pod of this many local volumes, whose container runs where the node runs containers.
pub(crate) fn wide(world: &World, side: Side, name: &str, volumes: usize) -> Value {
    pod(side, name, Value::Array((0..volumes).map(|number| local_volume(world, side, number)).collect()))
}

/// Volumes of three kinds, in turn.
fn local_volume(world: &World, side: Side, number: usize) -> Value {
    let name = format!("v{number}");
    match number % 3 {
        0 => json!({ "name": name, "emptyDir": { "medium": "Memory" } }),
        1 => json!({ "name": name, "configMap": { "name": CONFIG_MAP } }),
        _ => json!({ "name": name, "hostPath": { "path": world.disk(side), "type": "Directory" } }),
    }
}

fn pod(side: Side, name: &str, volumes: Value) -> Value {
    let names = volumes.as_array().into_iter().flatten().filter_map(|volume| volume["name"].as_str());
    let mounts: Vec<Value> = names.map(|name| json!({ "name": name, "mountPath": format!("/{name}") })).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name },
        "spec": {
            "nodeName": World::node_name(side),
            "hostNetwork": true,
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 1,
            // A node without a kubelet reports no heartbeat.
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{
                "name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sleep", "inf"],
                "volumeMounts": mounts
            }],
            "volumes": volumes
        }
    })
}
