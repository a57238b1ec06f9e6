//! Queries of callers: lists, a pod's mounts and volumes.
#![deny(clippy::disallowed_methods)]

use std::path::Path;
use std::sync::Arc;

use tokio::sync::oneshot;
use volhost_core::Core;
use volhost_model::names::PodUid;
use volhost_model::view::{ContainerMountView, OperationView};

use super::reply::reply;
use super::requests::{MountView, MountedVolume, RequestError, Snapshot};
use super::sources::Sources;
use super::world::World;
use volhost_volume_ops::layout;
use volhost_volume_ops::volume_ops::VolumeOps;

/// Lists the pods and volumes at this moment.
pub(super) fn snapshot(core: &Core) -> Snapshot {
    let mut pods = core.pods();
    pods.sort_by(|a, b| (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid)));
    Snapshot { pods, unused_volumes: core.unused_volumes() }
}

/// Lists the operations that run, each with its step, or wait for a retry.
pub(super) fn operations(world: &World) -> Vec<OperationView> {
    let mut operations = world.core().operations();
    for operation in operations.iter_mut().filter(|operation| operation.running) {
        operation.step = world.executor().step_of(operation.id).unwrap_or_default();
    }
    operations
}

/// Answers with the mounts of a pod as the kernel reports them. Reads them on a thread that may
/// block: a folder with many mounts takes milliseconds.
pub(super) fn mounts(
    uid: PodUid,
    volume_ops: Arc<VolumeOps>,
    answer: oneshot::Sender<Result<Vec<MountView>, RequestError>>,
) {
    tokio::task::spawn_blocking(move || {
        let of_pod = Path::new(layout::PODS).join(uid.as_str());
        let mounts = volume_ops.mounts_of_pod(&uid).unwrap_or_default();
        let views = mounts.into_iter().map(|mount| MountView {
            point: of_pod.join(&mount.point).display().to_string(),
            fs_type: mount.fs_type,
            source: mount.source.to_string_lossy().into_owned(),
            root: mount.root.display().to_string(),
            options: mount.options.join(","),
        });
        reply(answer, Ok(views.collect()));
    });
}

/// Lists the mounted volumes of a pod; with `possibly`, also those that may be mounted. `root` is
/// the root folder on the host.
pub(super) fn mounted_volumes(
    core: &Core,
    sources: &Sources,
    uid: &PodUid,
    possibly: bool,
    root: &Path,
) -> Vec<MountedVolume> {
    let pod = sources.store().pod_with_uid(uid.as_str()).and_then(|key| sources.store().pod(key));
    let devices = |name: &str| {
        let uses = pod.iter().flat_map(|pod| &pod.uses).filter(|used| used.volume.as_str() == name);
        uses.filter_map(|used| used.device.clone()).collect()
    };
    let volumes = if possibly { core.possibly_mounted_volumes_of(uid) } else { core.mounted_volumes_of(uid) };
    let absolute = |mut mount: ContainerMountView| {
        if !mount.path.is_empty() {
            mount.path = root.join(&mount.path).display().to_string();
        }
        mount
    };
    let views = volumes.into_iter().map(|volume| MountedVolume {
        container_mounts: volume.container_mounts.into_iter().map(absolute).collect(),
        container_devices: devices(&volume.name),
        path: root.join(&volume.path).display().to_string(),
        outer_name: volume.name,
        unique_name: volume.unique_name,
        spec_name: volume.spec_name,
        read_only: volume.read_only,
    });
    views.collect()
}
