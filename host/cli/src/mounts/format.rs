//! The mounts of a container in the words of each runtime.

use serde_json::{Value, json};

use super::MountsFormat;
use crate::error::CliError;
use crate::structured::pretty_json;

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

/// Returns the text for the runtime: arguments on one line, or JSON.
///
/// # Errors
/// [`CliError::Failed`] where the runtime has no words for a mount.
pub(super) fn print(mounts: &[ContainerMount], format: MountsFormat) -> Result<String, CliError> {
    match format {
        MountsFormat::Podman | MountsFormat::Docker | MountsFormat::Nerdctl => {
            let arguments: Result<Vec<String>, CliError> = mounts.iter().map(|mount| argument(mount, format)).collect();
            Ok(arguments?.join(" "))
        }
        MountsFormat::Oci => pretty_json(&mounts.iter().map(oci).collect::<Vec<_>>()),
        MountsFormat::Crictl => pretty_json(&json!({ "mounts": mounts.iter().map(cri).collect::<Vec<_>>() })),
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

/// `--mount=...`: one word, so that a shell can put it into a command.
fn argument(mount: &ContainerMount, format: MountsFormat) -> Result<String, CliError> {
    for path in [&mount.source, &mount.target] {
        if let Some(letter) = path.chars().find(|letter| letter.is_whitespace() || matches!(letter, ',' | '"')) {
            return Err(CliError::Failed(format!(
                "the path {path:?} has {letter:?}, which an argument on a command line cannot have; use -o oci"
            )));
        }
    }
    let mut text = format!("--mount=type=bind,source={},target={}", mount.source, mount.target);
    if mount.read_only {
        text.push_str(",readonly");
    }
    text.push_str(",bind-propagation=");
    text.push_str(propagation(mount));
    if mount.recursive_read_only {
        if format != MountsFormat::Docker {
            return Err(CliError::Failed(format!(
                "{}: this runtime has no option for recursiveReadOnly; use -o docker (25 or later), oci or crictl",
                mount.target
            )));
        }
        text.push_str(",bind-recursive=readonly");
    }
    Ok(text)
}

/// A mount of the OCI runtime specification (config.md, Mounts).
fn oci(mount: &ContainerMount) -> Value {
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

#[cfg(test)]
mod tests {
    use super::*;

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
            print(&[mount(), slave], MountsFormat::Podman).unwrap(),
            "--mount=type=bind,source=/v/data,target=/data,bind-propagation=rprivate --mount=type=bind,source=/v/data,target=/data,readonly,bind-propagation=rslave"
        );
        let shared = ContainerMount { propagation: "Bidirectional".into(), ..mount() };
        let oci: Value = serde_json::from_str(&print(&[shared], MountsFormat::Oci).unwrap()).unwrap();
        assert_eq!(oci[0]["options"], json!(["rbind", "rshared", "rw"]));
        assert_eq!((&oci[0]["source"], &oci[0]["destination"]), (&json!("/v/data"), &json!("/data")));
        let deep = ContainerMount { read_only: true, recursive_read_only: true, ..mount() };
        let cri: Value = serde_json::from_str(&print(&[deep], MountsFormat::Crictl).unwrap()).unwrap();
        assert_eq!(cri["mounts"][0]["recursive_read_only"], true);
        assert_eq!(cri["mounts"][0]["propagation"], 0);
        assert_eq!(print(&[], MountsFormat::Docker).unwrap(), "");
    }

    #[test]
    fn what_a_runtime_cannot_be_given_is_refused_with_the_way_out() {
        for path in ["/a b", "/a,readonly=false", "/a\"b", "/a\nb"] {
            let hostile = ContainerMount { target: path.into(), ..mount() };
            let refused = print(&[hostile], MountsFormat::Docker).unwrap_err().to_string();
            assert!(refused.ends_with("use -o oci"), "{refused}");
        }
        let deep = || ContainerMount { read_only: true, recursive_read_only: true, ..mount() };
        assert!(print(&[deep()], MountsFormat::Podman).unwrap_err().to_string().contains("recursiveReadOnly"));
        assert!(print(&[deep()], MountsFormat::Docker).unwrap().ends_with("bind-recursive=readonly"));
        let oci: Value = serde_json::from_str(&print(&[deep()], MountsFormat::Oci).unwrap()).unwrap();
        assert_eq!(oci[0]["options"][2], "rro");
    }
}
