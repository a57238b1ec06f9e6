//! Forced unmount, the last resort for a volume whose storage does not answer: a lazy unmount, even
//! of a mount in use. Only a person asks for it.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use volhost_core::Event;
use volhost_model::names::{PluginName, SpecName, UniqueVolumeName};
use volhost_model::view::{EventKind, VolumeState, VolumeView};

use super::lookup::known_pod;
use super::reply::reply;
use super::reports::{ForcedMount, WorkerReport};
use super::requests::{ForceTarget, PodSelector, RequestError};
use super::sources::Sources;
use super::world::World;
use volhost_metrics::Operations;
use volhost_volume_ops::expected_mounts::{NodePlace, VolumePlace};
use volhost_volume_ops::forced::Forced;
use volhost_volume_ops::layout;
use volhost_volume_ops::volume_ops::VolumeOps;

/// Returns the mount that a caller wants to detach.
///
/// # Errors
/// [`RequestError::UnknownPod`]; [`RequestError::Invalid`] when there is no such mount, or a pod wants it.
pub(super) fn find(world: &World, sources: &Sources, target: &ForceTarget) -> Result<ForcedMount, RequestError> {
    match target {
        ForceTarget::OfPod(pod, volume) => mount_of_pod(world, sources, pod, volume),
        ForceTarget::OfNode(volume) => staging_mount(world, volume),
    }
}

/// Detaches the mount on a thread that may block, and answers when it is done.
pub(super) fn detach(
    mount: ForcedMount,
    end_server: bool,
    answer: oneshot::Sender<Result<Forced, RequestError>>,
    volume_ops: Arc<VolumeOps>,
    reports: mpsc::UnboundedSender<WorkerReport>,
    operations: Arc<Operations>,
) {
    tokio::task::spawn_blocking(move || {
        let done = match &mount {
            ForcedMount::OfPod { place, .. } => volume_ops.force_unmount(place, end_server),
            ForcedMount::Staging { place, .. } => volume_ops.force_unmount_of_node(place, end_server),
        };
        operations.forced(done.is_ok());
        if let Ok(forced) = &done {
            // The loop ends only with the process.
            let _ = reports.send(WorkerReport::Forced(mount, *forced));
        }
        reply(answer, done.map_err(|error| RequestError::Failed(error.to_string())));
    });
}

/// Emits an event for a detached mount, and lets the state machine find out what is left.
pub(super) fn detached(world: &mut World, mount: ForcedMount, forced: Forced) {
    let server = if forced.server_ended { ", and the connection to its server was ended" } else { "" };
    let (what, object, event) = match mount {
        ForcedMount::OfPod { place, volume, pod } => {
            let what = format!("volume \"{}\"", place.spec_name);
            (what, format!("pod {pod}"), Event::Vanished { pod: place.pod, volume })
        }
        ForcedMount::Staging { place: NodePlace { volume, .. }, spec_name } => {
            let what = format!("the staging mount of volume \"{spec_name}\"");
            (what, format!("volume {volume}"), Event::DeviceVanished { volume })
        }
    };
    let message = format!("{what} was detached by force{server}; data that was not written back may be lost");
    world.emit(EventKind::Warning, "ForcedUnmount", &object, &message);
    world.dispatch(event);
}

fn mount_of_pod(world: &World, sources: &Sources, pod: &PodSelector, name: &str) -> Result<ForcedMount, RequestError> {
    let uid = known_pod(world, sources, pod)?;
    let view = world.core().pod(&uid);
    let volumes = view.into_iter().flat_map(|pod| pod.volumes);
    let Some(view) = volumes.into_iter().find(|view| view.name == name || view.spec_name == name) else {
        return Err(RequestError::Invalid(format!("the pod has no volume {name:?}; `volhost get volumes` lists them")));
    };
    if view.state == VolumeState::Mounted {
        return Err(RequestError::Invalid(format!(
            "volume {name:?} is mounted, and its pod wants it; remove the pod first, then this forces what cannot be unmounted"
        )));
    }
    if view.path.is_empty() || view.path.contains(layout::VOLUME_DEVICES) {
        return Err(RequestError::Invalid(format!("volume {name:?} is not mounted in the pod's folder")));
    }
    Ok(ForcedMount::OfPod {
        place: VolumePlace {
            pod: uid,
            plugin: PluginName::new(&view.plugin).map_err(|error| invalid(&error))?,
            spec_name: SpecName::new(view.spec_name.as_str()).map_err(|error| invalid(&error))?,
        },
        volume: UniqueVolumeName::new(view.unique_name.as_str()).map_err(|error| invalid(&error))?,
        pod: view.pod,
    })
}

/// Returns the staging mount of a volume that no pod has mounted, or wants.
fn staging_mount(world: &World, name: &str) -> Result<ForcedMount, RequestError> {
    let named = |view: &VolumeView| view.unique_name == name || view.spec_name == name;
    let mut unused = world.core().unused_volumes().into_iter().filter(named);
    let (Some(view), None) = (unused.next(), unused.next()) else {
        return Err(RequestError::Invalid(format!(
            "no volume, or more than one, is named {name:?} and only left on the node; `volhost get volumes -o wide` shows the unique names of those that are Unused. While pods have or want a volume, remove them first"
        )));
    };
    let plugin = PluginName::new(&view.plugin).map_err(|error| invalid(&error))?;
    let volume = UniqueVolumeName::new(view.unique_name.as_str()).map_err(|error| invalid(&error))?;
    Ok(ForcedMount::Staging { place: NodePlace { plugin, volume }, spec_name: view.spec_name })
}

fn invalid(error: &dyn std::fmt::Display) -> RequestError {
    RequestError::Invalid(error.to_string())
}
