//! A pod's manifest for a program that starts pods and knows no volumes but the host's folders, such
//! as `podman kube play`: each volume is a hostPath of what volhost has mounted. A secret's content
//! is not read.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use serde_json::{Map, Value, json};
use volhost_api::pb;

use super::device_node;
use crate::error::CliError;
use crate::manifest_file::{documents, read, shown};
use crate::structured::pretty_json;

/// The lists of containers of a pod.
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// The manifest of one pod.
#[derive(Debug)]
pub(super) struct PodManifest {
    /// The file, for messages.
    file: String,
    pod: Value,
}

impl PodManifest {
    /// Reads the manifest of this pod from a file, which may have other objects.
    ///
    /// # Errors
    /// [`CliError::File`], [`CliError::Failed`] if the pod is not in it.
    pub(super) fn read(file: &Path, pod: &pb::PodSelector) -> Result<Self, CliError> {
        let found = documents(file, &read(file)?)?.into_iter().map(|(_, document)| document).find(|document| {
            let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let namespace = Some(text("/metadata/namespace")).filter(|name| !name.is_empty()).unwrap_or("default");
            text("/kind") == "Pod" && text("/metadata/name") == pod.name && namespace == pod.namespace
        });
        let file = shown(file);
        match found {
            Some(pod) => Ok(Self { file, pod }),
            None => Err(CliError::Failed(format!("{file}: there is no Pod {}/{} in it", pod.namespace, pod.name))),
        }
    }

    /// Returns the manifest with the volumes as the host has them.
    ///
    /// # Errors
    /// [`CliError::Failed`] if the pod that volhost has is another, or has what no hostPath can say.
    pub(super) fn with_host_paths(mut self, volumes: &[pb::MountedVolume]) -> Result<String, CliError> {
        let mut paths = HostPaths::new(&self.pod);
        for list in CONTAINERS {
            let containers = self.pod.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
                rewrite(container, volumes, &mut paths).map_err(|why| {
                    let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
                    CliError::Failed(format!("{}: container {name}: {why}", self.file))
                })?;
            }
        }
        if let Some(spec) = self.pod.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("volumes".to_owned(), Value::Array(paths.volumes));
        }
        pretty_json(&self.pod)
    }
}

/// The hostPath volumes of the new manifest.
struct HostPaths {
    /// The names of the old manifest's volumes.
    taken: BTreeSet<String>,
    volumes: Vec<Value>,
}

impl HostPaths {
    fn new(pod: &Value) -> Self {
        let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array);
        let names = volumes.into_iter().flatten().filter_map(|volume| volume.get("name")?.as_str());
        Self { taken: names.map(str::to_owned).collect(), volumes: Vec::new() }
    }

    /// The name of the volume of this path: the one it had, or a new one for a part of a volume.
    fn name_of(&mut self, path: &str, whole: Option<&str>) -> Result<String, String> {
        let known = self.volumes.iter().find(|volume| volume.pointer("/hostPath/path").is_some_and(|p| p == path));
        let known = known.and_then(|volume| volume.get("name")?.as_str());
        if let Some(known) = known.filter(|known| whole.is_none_or(|name| name == *known)) {
            return Ok(known.to_owned());
        }
        let name = match whole {
            Some(name) => name.to_owned(),
            None => self.new_name(),
        };
        let kind = kind_of(path)?;
        self.volumes.push(json!({ "name": name, "hostPath": { "path": path, "type": kind } }));
        self.taken.insert(name.clone());
        Ok(name)
    }

    fn new_name(&self) -> String {
        let mut names = (0_usize..).map(|number| format!("part-{number}"));
        names.find(|name| !self.taken.contains(name)).unwrap_or_default()
    }
}

/// The type of a hostPath.
fn kind_of(path: &str) -> Result<&'static str, String> {
    let kind = fs::metadata(path).map_err(|error| format!("{path}: {error}"))?.file_type();
    match kind {
        kind if kind.is_dir() => Ok("Directory"),
        kind if kind.is_file() => Ok("File"),
        kind if kind.is_socket() => Ok("Socket"),
        kind if kind.is_block_device() => Ok("BlockDevice"),
        kind if kind.is_char_device() => Ok("CharDevice"),
        _ => Err(format!("{path} is neither a folder, a file, a socket nor a device")),
    }
}

/// Points a container's mounts and devices to hostPath volumes.
fn rewrite(
    container: &mut Map<String, Value>,
    volumes: &[pb::MountedVolume],
    paths: &mut HostPaths,
) -> Result<(), String> {
    let name = container.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut mounts = entries(container, "volumeMounts");
    for (index, mount) in mounts.iter_mut().enumerate() {
        let used = text(mount, "name");
        let path = text(mount, "mountPath");
        let is_it = |found: &&pb::ContainerMount| {
            found.container == name && usize::try_from(found.index) == Ok(index) && found.mount_path == path
        };
        let (volume, found) = volumes
            .iter()
            .filter(|volume| volume.outer_name == used)
            .find_map(|volume| volume.container_mounts.iter().find(is_it).map(|found| (volume, found)))
            .ok_or_else(|| other_pod(&format!("volume {used:?} at {path}")))?;
        if found.recursive_read_only {
            return Err(format!("volume {used:?} at {path}: podman kube play has no word for recursiveReadOnly"));
        }
        let whole = found.sub_path.is_none().then_some(used.as_str());
        mount.insert("name".to_owned(), Value::String(paths.name_of(&found.path, whole)?));
        mount.insert("readOnly".to_owned(), Value::Bool(found.read_only || volume.read_only));
        for resolved in ["subPath", "subPathExpr", "recursiveReadOnly"] {
            mount.remove(resolved);
        }
    }
    for (index, device) in entries(container, "volumeDevices").into_iter().enumerate() {
        let used = text(&device, "name");
        let path = text(&device, "devicePath");
        let is_it = |found: &&pb::ContainerDevice| {
            found.container == name && usize::try_from(found.index) == Ok(index) && found.device_path == path
        };
        let volume = volumes
            .iter()
            .find(|volume| volume.outer_name == used && volume.container_devices.iter().any(|one| is_it(&one)))
            .ok_or_else(|| other_pod(&format!("device {used:?} at {path}")))?;
        if volume.read_only {
            return Err(format!("device {used:?} at {path}: podman kube play has no word for a read-only device"));
        }
        let volume = paths.name_of(&device_node(&volume.path), Some(&used))?;
        let mount = json!({ "name": volume, "mountPath": path });
        mounts.extend(mount.as_object().cloned());
    }
    if !mounts.is_empty() {
        container.insert("volumeMounts".to_owned(), mounts.into_iter().map(Value::Object).collect());
    }
    Ok(())
}

/// Takes a list of objects out of a container.
fn entries(container: &mut Map<String, Value>, field: &str) -> Vec<Map<String, Value>> {
    let Some(Value::Array(list)) = container.remove(field) else { return Vec::new() };
    let objects = list.into_iter().filter_map(|entry| match entry {
        Value::Object(entry) => Some(entry),
        _ => None,
    });
    objects.collect()
}

fn text(entry: &Map<String, Value>, field: &str) -> String {
    entry.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn other_pod(what: &str) -> String {
    format!("{what}: the pod that volhost has is another; apply the file, or name the one that was applied")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(text: &str) -> (tempfile::TempDir, PodManifest) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("web.yaml"), text).unwrap();
        let pod = pb::PodSelector { uid: String::new(), namespace: "default".into(), name: "web".into() };
        let read = PodManifest::read(&folder.path().join("web.yaml"), &pod).unwrap();
        (folder, read)
    }

    fn mount(index: u32, mount_path: &str, sub_path: Option<&str>, path: &str) -> pb::ContainerMount {
        pb::ContainerMount {
            container: "app".into(),
            index,
            mount_path: mount_path.into(),
            sub_path: sub_path.map(str::to_owned),
            path: path.into(),
            ..pb::ContainerMount::default()
        }
    }

    fn volume(name: &str, mounts: Vec<pb::ContainerMount>) -> pb::MountedVolume {
        pb::MountedVolume { outer_name: name.into(), container_mounts: mounts, ..pb::MountedVolume::default() }
    }

    const POD: &str = "kind: Secret\nmetadata: { name: login }\n---\nkind: Pod\nmetadata: { name: web }\nspec:\n  containers:\n  - name: app\n    volumeMounts:\n    - { name: data, mountPath: /data }\n    - { name: data, mountPath: /one, subPath: one }\n    - { name: data, mountPath: /again, subPath: one, readOnly: true }\n  volumes:\n  - { name: data, persistentVolumeClaim: { claimName: data } }\n  - { name: part-0, secret: { secretName: login } }\n";

    fn mounts(part: &str) -> Vec<pb::ContainerMount> {
        let read_only = pb::ContainerMount { read_only: true, ..mount(2, "/again", Some("one"), part) };
        vec![mount(0, "/data", None, "/"), mount(1, "/one", Some("one"), part), read_only]
    }

    #[test]
    fn each_volume_is_a_host_path_and_each_part_a_volume_of_its_own() {
        let (folder, pod) = manifest(POD);
        let file = folder.path().join("web.yaml").display().to_string();
        let text = pod.with_host_paths(&[volume("data", mounts(&file))]).unwrap();
        let pod: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            pod["spec"]["volumes"],
            json!([
                { "name": "data", "hostPath": { "path": "/", "type": "Directory" } },
                { "name": "part-1", "hostPath": { "path": file, "type": "File" } },
            ])
        );
        assert_eq!(
            pod["spec"]["containers"][0]["volumeMounts"],
            json!([
                { "name": "data", "mountPath": "/data", "readOnly": false },
                { "name": "part-1", "mountPath": "/one", "readOnly": false },
                { "name": "part-1", "mountPath": "/again", "readOnly": true },
            ])
        );
        assert_eq!(pod["metadata"]["name"], "web");
    }

    #[test]
    fn another_pod_than_the_daemon_has_is_refused() {
        for other in [Vec::new(), vec![mount(0, "/elsewhere", None, "/")], vec![mount(1, "/data", None, "/")]] {
            let (_folder, pod) = manifest(POD);
            let refused = pod.with_host_paths(&[volume("data", other)]).unwrap_err().to_string();
            assert!(refused.contains("container app: volume \"data\" at /data: the pod that volhost has is another"));
        }
        let (folder, _) = manifest(POD);
        let pod = pb::PodSelector { uid: String::new(), namespace: "shop".into(), name: "web".into() };
        let refused = PodManifest::read(&folder.path().join("web.yaml"), &pod).unwrap_err().to_string();
        assert!(refused.ends_with("there is no Pod shop/web in it"), "{refused}");
    }

    #[test]
    fn what_podman_has_no_word_for_is_refused() {
        let (_folder, pod) = manifest(POD);
        let deep = pb::ContainerMount { recursive_read_only: true, ..mount(0, "/data", None, "/") };
        let refused = pod.with_host_paths(&[volume("data", vec![deep])]).unwrap_err().to_string();
        assert!(refused.contains("no word for recursiveReadOnly"), "{refused}");
        let text = POD.replace("volumeMounts", "volumeDevices").replace("mountPath", "devicePath");
        let (_folder, pod) = manifest(&text);
        let device = pb::ContainerDevice { container: "app".into(), index: 0, device_path: "/data".into() };
        let read_only =
            pb::MountedVolume { read_only: true, container_devices: vec![device], ..volume("data", Vec::new()) };
        let refused = pod.with_host_paths(&[read_only]).unwrap_err().to_string();
        assert!(refused.contains("no word for a read-only device"), "{refused}");
    }
}
