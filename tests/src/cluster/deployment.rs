//! Manifests of `deploy` on the cluster's node, as an operator applies them.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use super::{Cluster, NODE};
use crate::artifacts::workspace;

/// What manifests call the kubelet's folder, and the folders of the host.
const KUBELET: &str = "/var/lib/kubelet";
const STATE: &str = "/var/lib/volhost-";
/// The images of Kubernetes' own tests.
const AGNHOST: &str = "localhost/agnhost:1";
const DEBIAN: &str = "localhost/debian:1";

impl Cluster {
    /// Loads a container image into containerd: a node usually has it from a registry.
    ///
    /// # Panics
    /// When it does not exist, or containerd refuses it.
    pub fn load_image(&self, archive: &Path) {
        // The command has another working folder.
        let archive = archive.canonicalize().expect("the archive of an image");
        self.ctr(&["images", "import", "--local", &archive.display().to_string()]);
    }

    /// Gives an image of the cluster another name.
    ///
    /// # Panics
    /// When containerd refuses it.
    pub fn name_image(&self, image: &str, name: &str) {
        self.ctr(&["images", "tag", "--force", image, name]);
    }

    /// Loads what the containers of Kubernetes' own tests run, under the names of these images.
    ///
    /// # Panics
    /// When it is not built, or containerd refuses it.
    pub fn load_images_of_tests<'a>(&self, names: impl Iterator<Item = &'a str>) {
        for archive in ["agnhost.tar", "debian.tar"] {
            self.load_image(&self.built.join(archive));
        }
        for name in names {
            // The only ones whose own command matters.
            let image = if name.contains("agnhost") || name.contains("pause") { AGNHOST } else { DEBIAN };
            self.name_image(image, name);
        }
    }

    /// Applies `deploy/csi` with the image in this archive, and waits until the driver and its
    /// controller run on the node.
    ///
    /// # Panics
    /// When they do not.
    pub fn deploy_csi(&self, image: &Path) {
        self.load_image(image);
        self.apply_objects(&self.objects_of("csi"));
        self.kubectl(&["label", "node", NODE, "volhost.io/loop=true"]);
        for what in ["daemonset/volhost-csi-node", "deployment/volhost-csi-controller"] {
            self.kubectl(&["-n", "volhost-csi", "rollout", "status", what, "--timeout=180s"]);
        }
    }

    /// Installs the custom resources of snapshots and of groups of them, unless they are there.
    ///
    /// # Panics
    /// When the API server refuses them.
    pub fn install_snapshots(&self) {
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let resources = self.manifests().join("crds").display().to_string();
        self.kubectl(&["apply", "-f", &resources]);
        self.kubectl(&["wait", "--for=condition=Established", "--timeout=180s", "-f", &resources]);
    }

    /// Applies these objects. Returns what kubectl says.
    ///
    /// # Panics
    /// When the API server refuses one.
    pub fn apply_objects(&self, objects: &[Value]) -> String {
        let manifest: String = objects.iter().map(|object| format!("---\n{object}\n")).collect();
        self.kubectl_with(&["apply", "-f", "-"], &manifest)
    }

    /// The objects of a folder of `deploy`, for this cluster: it has no network for pods, so they
    /// have the host's, and reach the API server at its own address; and its node's folders are
    /// below the test's own.
    ///
    /// # Panics
    /// When kubectl does not understand the folder.
    pub fn objects_of(&self, folder: &str) -> Vec<Value> {
        let folder = workspace().join("deploy").join(folder).display().to_string();
        let manifest = self.kubectl(&["kustomize", &folder]);
        let objects = self.kubectl_with(&["create", "--dry-run=client", "-o", "json", "-f", "-"], &manifest);
        let objects = serde_json::Deserializer::from_str(&objects).into_iter::<Value>();
        let mut objects: Vec<Value> = objects.map(|object| object.expect("kubectl prints JSON")).collect();
        objects.iter_mut().for_each(|object| self.adapt(object));
        objects
    }

    fn adapt(&self, object: &mut Value) {
        let Some(pod) = object.pointer_mut("/spec/template/spec").and_then(Value::as_object_mut) else { return };
        pod.insert("hostNetwork".to_owned(), json!(true));
        for container in pod.get_mut("containers").and_then(Value::as_array_mut).into_iter().flatten() {
            let mut variables = container["env"].as_array().cloned().unwrap_or_default();
            for (name, value) in [
                ("KUBERNETES_SERVICE_HOST", NODE.to_owned()),
                ("KUBERNETES_SERVICE_PORT", self.ports.apiserver.to_string()),
            ] {
                variables.push(json!({ "name": name, "value": value }));
            }
            container["env"] = Value::Array(variables);
        }
        for volume in pod.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(path) = volume.pointer_mut("/hostPath/path") else { continue };
            if let Some(rest) = path.as_str().and_then(|path| path.strip_prefix(STATE)) {
                *path = json!(format!("{}/{rest}", self.folder().display()));
            }
        }
        let text = object.to_string().replace(KUBELET, &self.kubelet().display().to_string());
        *object = serde_json::from_str(&text).expect("it was JSON");
    }
}
