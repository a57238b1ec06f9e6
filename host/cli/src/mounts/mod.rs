//! `volhost mounts`: what a container runtime has to mount.

mod format;
mod kube;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use volhost_api::pb;
use volhost_model::duration::HumanDuration;

use super::client::{ANSWER_TIME, Client, within};
use super::error::CliError;
use super::names;
use super::output::Output;
use super::wait::{PodKind, explain};
use format::{ContainerDevice, ContainerMount, ContainerVolumes, Runtime};

/// `mounts`.
#[derive(Debug, Args)]
pub(super) struct MountsArguments {
    /// Whose mounts: a pod's
    #[arg(hide_possible_values = true, value_name = "pod")]
    pub(super) kind: PodKind,
    /// Which: NS/NAME, or NAME in the namespace `default`
    pub(super) name: String,
    /// The container, if the pod has several
    #[arg(short, long, value_name = "CONTAINER")]
    pub(super) container: Option<String>,
    /// For which runtime
    #[arg(short, long, value_name = "RUNTIME", default_value = "podman")]
    pub(super) output: MountsFormat,
    /// With -o kube: the file with the pod's manifest, as it was applied; `-` reads standard input
    #[arg(short, long, value_name = "FILE", required_if_eq("output", "kube"))]
    pub(super) file: Option<PathBuf>,
    /// How long to wait until the volumes are mounted
    #[arg(long, value_name = "DURATION", default_value = "2m3s")]
    pub(super) timeout: HumanDuration,
}

/// For which runtime mounts are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum MountsFormat {
    /// Options of `podman run`
    Podman,
    /// Options of `docker run`
    Docker,
    /// Options of `nerdctl run`
    Nerdctl,
    /// The mounts and devices of an OCI runtime's config.json
    Oci,
    /// The mounts and devices of a container's configuration for crictl
    Crictl,
    /// The pod of FILE for `podman kube play`, each volume a hostPath
    Kube,
}

impl MountsFormat {
    /// The runtime that starts one container; none for a whole pod.
    const fn runtime(self) -> Option<Runtime> {
        match self {
            Self::Podman => Some(Runtime::Podman),
            Self::Docker => Some(Runtime::Docker),
            Self::Nerdctl => Some(Runtime::Nerdctl),
            Self::Oci => Some(Runtime::Oci),
            Self::Crictl => Some(Runtime::Crictl),
            Self::Kube => None,
        }
    }
}

/// Waits until the pod's volumes are mounted, and prints one container's mounts and devices, or the
/// whole pod.
///
/// # Errors
/// [`CliError::Failed`] if the volumes do not get mounted in time, and if the format cannot say what
/// the pod asks for; [`CliError::Usage`] if the container is not named and the pod has several.
pub(super) async fn run(arguments: &MountsArguments, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    let pod = names::pod(&arguments.name, None)?;
    let runtime = arguments.output.runtime();
    check_options(arguments, runtime)?;
    let manifest = match &arguments.file {
        Some(file) => Some(kube::PodManifest::read(file, &pod)?),
        None => None,
    };
    let timeout = arguments.timeout.0;
    let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1);
    let mut client = Client::connect(socket).await?;
    let request = pb::WaitRequest { pod: Some(pod.clone()), timeout_ms };
    // The daemon enforces the timeout; ours only notices if it does not.
    let limit = timeout.saturating_add(ANSWER_TIME);
    let waited = within(limit, socket, client.manager.wait_for_attach_and_mount(request)).await?;
    if let Some(failure) = waited.failure {
        return Err(CliError::Failed(explain(&failure, "mounted", timeout)?));
    }
    let request = pb::PodRequest { pod: Some(pod) };
    let volumes = within(ANSWER_TIME, socket, client.manager.get_mounted_volumes_for_pod(request)).await?.volumes;
    match (runtime, manifest) {
        (Some(runtime), _) => {
            let container = choose(&volumes, arguments.container.as_deref())?;
            output.line(&format::print(&of_container(&volumes, container.as_deref()), runtime)?)
        }
        (None, Some(manifest)) => output.line(&manifest.with_host_paths(&volumes)?),
        (None, None) => Err(CliError::Usage("-o kube needs the pod's manifest: add -f FILE".to_owned())),
    }
}

/// Refuses options that mean nothing for the output.
fn check_options(arguments: &MountsArguments, runtime: Option<Runtime>) -> Result<(), CliError> {
    let refused = match (runtime, &arguments.file, &arguments.container) {
        (Some(_), Some(_), _) => "-f goes with -o kube alone",
        (None, _, Some(_)) => "-o kube prints every container of the pod; leave out -c",
        _ => return Ok(()),
    };
    Err(CliError::Usage(refused.to_owned()))
}

/// Returns the container whose mounts are meant; none where no container has any.
fn choose(volumes: &[pb::MountedVolume], named: Option<&str>) -> Result<Option<String>, CliError> {
    let of_mounts = volumes.iter().flat_map(|volume| &volume.container_mounts).map(|mount| mount.container.as_str());
    let of_devices =
        volumes.iter().flat_map(|volume| &volume.container_devices).map(|device| device.container.as_str());
    let mut containers: Vec<&str> = of_mounts.chain(of_devices).collect();
    containers.sort_unstable();
    containers.dedup();
    match (named, containers.as_slice()) {
        // One without mounts is not known by name.
        (Some(named), _) => Ok(Some(named.to_owned())),
        (None, []) => Ok(None),
        (None, [one]) => Ok(Some((*one).to_owned())),
        (None, several) => {
            Err(CliError::Usage(format!("the pod has several containers: name one with -c: {}", several.join(", "))))
        }
    }
}

/// The container's devices, and its mounts, those of outer folders first.
fn of_container(volumes: &[pb::MountedVolume], container: Option<&str>) -> ContainerVolumes {
    let devices = volumes
        .iter()
        .flat_map(|volume| volume.container_devices.iter().map(move |device| (volume, device)))
        .filter(|(_, device)| Some(device.container.as_str()) == container)
        .map(|(volume, device)| ContainerDevice {
            source: device_node(&volume.path),
            target: device.device_path.clone(),
            read_only: volume.read_only,
        })
        .collect();
    let mut mounts: Vec<ContainerMount> = volumes
        .iter()
        .flat_map(|volume| volume.container_mounts.iter().map(move |mount| (volume, mount)))
        .filter(|(_, mount)| Some(mount.container.as_str()) == container)
        .map(|(volume, mount)| ContainerMount {
            source: mount.path.clone(),
            target: mount.mount_path.clone(),
            read_only: mount.read_only || volume.read_only,
            recursive_read_only: mount.recursive_read_only,
            propagation: mount.propagation.clone(),
        })
        .collect();
    mounts.sort_by_cached_key(|mount| (Path::new(&mount.target).components().count(), mount.target.clone()));
    ContainerVolumes { mounts, devices }
}

/// The node of a mapped device. The pod's folder has a link to it, and not every runtime follows
/// one.
fn device_node(link: &str) -> String {
    fs::canonicalize(link).map_or_else(|_| link.to_owned(), |node| node.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(mounts: &[(&str, &str)]) -> pb::MountedVolume {
        let mounts = mounts.iter().map(|(container, path)| pb::ContainerMount {
            container: (*container).to_owned(),
            mount_path: (*path).to_owned(),
            ..pb::ContainerMount::default()
        });
        pb::MountedVolume { container_mounts: mounts.collect(), ..pb::MountedVolume::default() }
    }

    #[test]
    fn a_container_is_named_where_there_are_several() {
        let pod = [volume(&[("web", "/data"), ("log", "/in")]), volume(&[("web", "/data/cache")])];
        let refused = choose(&pod, None).unwrap_err();
        assert_eq!(refused.to_string(), "the pod has several containers: name one with -c: log, web");
        assert_eq!(choose(&pod, Some("log")).unwrap().as_deref(), Some("log"));
        assert_eq!(choose(&pod[1..], None).unwrap().as_deref(), Some("web"));
        assert_eq!(choose(&[volume(&[])], None).unwrap(), None);
    }

    #[test]
    fn outer_folders_are_mounted_before_those_inside() {
        let pod = [volume(&[("web", "/data/deep/er")]), volume(&[("web", "/data")]), volume(&[("web", "/b/a")])];
        let targets: Vec<String> =
            of_container(&pod, Some("web")).mounts.into_iter().map(|mount| mount.target).collect();
        assert_eq!(targets, ["/data", "/b/a", "/data/deep/er"]);
        assert!(of_container(&pod, Some("log")).mounts.is_empty());
    }
}
