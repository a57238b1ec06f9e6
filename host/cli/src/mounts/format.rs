//! The mounts of a container in the words of each runtime.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use serde_json::{Value, json};

use crate::error::CliError;
use crate::structured::pretty_json;

/// A runtime that starts one container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runtime {
    /// `podman run`.
    Podman,
    /// `docker run`.
    Docker,
    /// `nerdctl run`.
    Nerdctl,
    /// A runtime of the OCI specification.
    Oci,
    /// `crictl create`.
    Crictl,
}

/// One mount of a container.
#[derive(Debug)]
pub(super) struct ContainerMount {
    /// Absolute path on the host.
    pub(super) source: String,
    /// Absolute path in the container.
    pub(super) target: String,
    pub(super) read_only: bool,
    /// Mounts inside it are read-only too.
    pub(super) recursive_read_only: bool,
    /// In Kubernetes' words: `None`, `HostToContainer` or `Bidirectional`.
    pub(super) propagation: String,
}

/// One device of a container.
#[derive(Debug)]
pub(super) struct ContainerDevice {
    /// Absolute path of the device's node on the host.
    pub(super) source: String,
    /// Absolute path in the container.
    pub(super) target: String,
    pub(super) read_only: bool,
}

/// What a container has of its pod's volumes.
#[derive(Debug, Default)]
pub(super) struct ContainerVolumes {
    pub(super) mounts: Vec<ContainerMount>,
    pub(super) devices: Vec<ContainerDevice>,
}

/// Returns the text for the runtime: arguments on one line, or JSON.
///
/// # Errors
/// [`CliError::Failed`] where the runtime has no words for a mount or device.
pub(super) fn print(volumes: &ContainerVolumes, runtime: Runtime) -> Result<String, CliError> {
    let ContainerVolumes { mounts, devices } = volumes;
    match runtime {
        Runtime::Podman | Runtime::Docker | Runtime::Nerdctl => {
            let mounts = mounts.iter().map(|mount| argument(mount, runtime));
            let arguments: Result<Vec<String>, CliError> = mounts.chain(devices.iter().map(device_argument)).collect();
            Ok(arguments?.join(" "))
        }
        Runtime::Oci => pretty_json(&oci(mounts, devices)?),
        Runtime::Crictl => {
            let mounts: Vec<Value> = mounts.iter().map(cri).collect();
            let devices: Vec<Value> = devices.iter().map(cri_device).collect();
            pretty_json(&json!({ "mounts": mounts, "devices": devices }))
        }
    }
}

/// The kernel's name of the propagation.
fn propagation(mount: &ContainerMount) -> &'static str {
    match mount.propagation.as_str() {
        "Bidirectional" => "rshared",
        "HostToContainer" => "rslave",
        _ => "rprivate",
    }
}

/// Refuses a path that cannot be part of one word of an option.
fn check_word(path: &str, separators: &[char]) -> Result<(), CliError> {
    match path.chars().find(|letter| letter.is_whitespace() || *letter == '"' || separators.contains(letter)) {
        None => Ok(()),
        Some(letter) => Err(CliError::Failed(format!(
            "the path {path:?} has {letter:?}, which an argument on a command line cannot have; use -o oci"
        ))),
    }
}

/// `--mount=...`: one word, so that a shell can put it into a command.
fn argument(mount: &ContainerMount, runtime: Runtime) -> Result<String, CliError> {
    for path in [&mount.source, &mount.target] {
        check_word(path, &[','])?;
    }
    let mut text = format!("--mount=type=bind,source={},target={}", mount.source, mount.target);
    if mount.read_only {
        text.push_str(",readonly");
    }
    text.push_str(",bind-propagation=");
    text.push_str(propagation(mount));
    if mount.recursive_read_only {
        if runtime != Runtime::Docker {
            return Err(CliError::Failed(format!(
                "{}: this runtime has no option for recursiveReadOnly; use -o docker (25 or later), oci or crictl",
                mount.target
            )));
        }
        text.push_str(",bind-recursive=readonly");
    }
    Ok(text)
}

/// `--device=...`.
fn device_argument(device: &ContainerDevice) -> Result<String, CliError> {
    for path in [&device.source, &device.target] {
        check_word(path, &[':'])?;
    }
    Ok(format!("--device={}:{}:{}", device.source, device.target, permissions(device)))
}

/// What a container may do with a device, in the letters of the kernel's device cgroup.
const fn permissions(device: &ContainerDevice) -> &'static str {
    if device.read_only { "r" } else { "rwm" }
}

/// The part of a `config.json` of the OCI runtime specification (config.md, config-linux.md).
fn oci(mounts: &[ContainerMount], devices: &[ContainerDevice]) -> Result<Value, CliError> {
    let mut config = json!({ "mounts": mounts.iter().map(oci_mount).collect::<Vec<_>>() });
    if !devices.is_empty() {
        let (nodes, rules): (Vec<Value>, Vec<Value>) =
            devices.iter().map(oci_device).collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let linux = json!({ "devices": nodes, "resources": { "devices": rules } });
        if let Some(config) = config.as_object_mut() {
            config.insert("linux".to_owned(), linux);
        }
    }
    Ok(config)
}

/// A device and the rule that allows it. The specification knows it by its number.
fn oci_device(device: &ContainerDevice) -> Result<(Value, Value), CliError> {
    let node =
        fs::metadata(&device.source).map_err(|source| CliError::File { path: device.source.clone().into(), source })?;
    if !node.file_type().is_block_device() {
        return Err(CliError::Failed(format!("{} is no block device", device.source)));
    }
    let (major, minor) = (nix::sys::stat::major(node.rdev()), nix::sys::stat::minor(node.rdev()));
    let made = json!({ "path": device.target, "type": "b", "major": major, "minor": minor });
    let access = permissions(device);
    let rule = json!({ "allow": true, "type": "b", "major": major, "minor": minor, "access": access });
    Ok((made, rule))
}

/// A mount of the OCI runtime specification.
fn oci_mount(mount: &ContainerMount) -> Value {
    let access = match (mount.recursive_read_only, mount.read_only) {
        (true, _) => "rro",
        (false, true) => "ro",
        (false, false) => "rw",
    };
    json!({
        "destination": mount.target,
        "type": "bind",
        "source": mount.source,
        "options": ["rbind", propagation(mount), access],
    })
}

/// A `Mount` of the CRI (api.proto), as crictl reads a container's configuration.
fn cri(mount: &ContainerMount) -> Value {
    let propagation = match mount.propagation.as_str() {
        "Bidirectional" => 2,
        "HostToContainer" => 1,
        _ => 0,
    };
    json!({
        "host_path": mount.source,
        "container_path": mount.target,
        "readonly": mount.read_only,
        "recursive_read_only": mount.recursive_read_only,
        "propagation": propagation,
    })
}

/// A `Device` of the CRI.
fn cri_device(device: &ContainerDevice) -> Value {
    json!({
        "host_path": device.source,
        "container_path": device.target,
        "permissions": permissions(device),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(mounts: Vec<ContainerMount>, runtime: Runtime) -> Result<String, CliError> {
        super::print(&ContainerVolumes { mounts, devices: Vec::new() }, runtime)
    }

    fn mount() -> ContainerMount {
        ContainerMount {
            source: "/v/data".into(),
            target: "/data".into(),
            read_only: false,
            recursive_read_only: false,
            propagation: "None".into(),
        }
    }

    #[test]
    fn each_runtime_gets_its_words() {
        let slave = ContainerMount { read_only: true, propagation: "HostToContainer".into(), ..mount() };
        assert_eq!(
            print(vec![mount(), slave], Runtime::Podman).unwrap(),
            "--mount=type=bind,source=/v/data,target=/data,bind-propagation=rprivate --mount=type=bind,source=/v/data,target=/data,readonly,bind-propagation=rslave"
        );
        let shared = ContainerMount { propagation: "Bidirectional".into(), ..mount() };
        let oci: Value = serde_json::from_str(&print(vec![shared], Runtime::Oci).unwrap()).unwrap();
        assert_eq!(oci["mounts"][0]["options"], json!(["rbind", "rshared", "rw"]));
        assert_eq!(
            (&oci["mounts"][0]["source"], &oci["mounts"][0]["destination"]),
            (&json!("/v/data"), &json!("/data"))
        );
        let deep = ContainerMount { read_only: true, recursive_read_only: true, ..mount() };
        let cri: Value = serde_json::from_str(&print(vec![deep], Runtime::Crictl).unwrap()).unwrap();
        assert_eq!(cri["mounts"][0]["recursive_read_only"], true);
        assert_eq!(cri["mounts"][0]["propagation"], 0);
        assert_eq!(print(vec![], Runtime::Docker).unwrap(), "");
    }

    #[test]
    fn what_a_runtime_cannot_be_given_is_refused_with_the_way_out() {
        for path in ["/a b", "/a,readonly=false", "/a\"b", "/a\nb"] {
            let hostile = ContainerMount { target: path.into(), ..mount() };
            let refused = print(vec![hostile], Runtime::Docker).unwrap_err().to_string();
            assert!(refused.ends_with("use -o oci"), "{refused}");
        }
        let deep = || ContainerMount { read_only: true, recursive_read_only: true, ..mount() };
        assert!(print(vec![deep()], Runtime::Podman).unwrap_err().to_string().contains("recursiveReadOnly"));
        assert!(print(vec![deep()], Runtime::Docker).unwrap().ends_with("bind-recursive=readonly"));
        let oci: Value = serde_json::from_str(&print(vec![deep()], Runtime::Oci).unwrap()).unwrap();
        assert_eq!(oci["mounts"][0]["options"][2], "rro");
    }

    #[test]
    fn devices_are_printed_for_each_runtime() {
        let device = |read_only| ContainerDevice { source: "/v/disk".into(), target: "/dev/raw".into(), read_only };
        let volumes = |devices| ContainerVolumes { mounts: Vec::new(), devices };
        let print = |devices, runtime| super::print(&volumes(devices), runtime);
        for runtime in [Runtime::Podman, Runtime::Docker, Runtime::Nerdctl] {
            let text = print(vec![device(false), device(true)], runtime).unwrap();
            assert_eq!(text, "--device=/v/disk:/dev/raw:rwm --device=/v/disk:/dev/raw:r");
        }
        let cri: Value = serde_json::from_str(&print(vec![device(true)], Runtime::Crictl).unwrap()).unwrap();
        assert_eq!(
            cri["devices"][0],
            json!({"host_path": "/v/disk", "container_path": "/dev/raw", "permissions": "r"})
        );
        let hostile = ContainerDevice { target: "/dev/raw:rwm".into(), ..device(true) };
        assert!(print(vec![hostile], Runtime::Podman).unwrap_err().to_string().ends_with("use -o oci"));
        let none = ContainerDevice { source: "/dev/null".into(), ..device(true) };
        let refused = print(vec![none], Runtime::Oci).unwrap_err().to_string();
        assert!(refused.contains("/dev/null is no block device"), "{refused}");
    }
}
