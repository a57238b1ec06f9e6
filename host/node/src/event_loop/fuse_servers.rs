//! FUSE servers that end while volumes still need them: their dead mounts are unmounted, so that
//! they can be mounted again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::mpsc;
use tracing::{debug, warn};
use volhost_fuse_servers::{EndedServer, FuseServerProcesses};
use volhost_kernel::{Detach, Directory, Kernel, KernelError};
use volhost_model::view::EventKind;

use volhost_volume_ops::events::NewEvent;

use super::reports::WorkerReport;

/// Unmounts the mounts of FUSE servers that end, and reports an event for each. No mount is
/// entered, and only mounts whose source names the server are unmounted. The search for vanished
/// mounts then finds them missing.
pub(crate) fn unmount_when_ended(
    servers: &FuseServerProcesses,
    kernel: Arc<dyn Kernel>,
    root: Arc<Directory>,
    reports: mpsc::UnboundedSender<WorkerReport>,
) {
    servers.on_end(move |ended| match unmount_dead(kernel.as_ref(), &root, &ended.id) {
        Ok(places) if places.is_empty() => debug!(server = ended.id, "{}", ended.why),
        Ok(places) => {
            for place in places {
                // The loop ends only with the process.
                let _ = reports.send(WorkerReport::Event(event(&ended, &place)));
            }
        }
        Err(error) => {
            warn!(%error, server = ended.id, "the mounts of a FUSE server that has ended cannot be unmounted: {}", ended.why)
        }
    });
}

/// Unmounts every mount of this FUSE server, and returns their places.
fn unmount_dead(kernel: &dyn Kernel, root: &Directory, id: &str) -> Result<Vec<PathBuf>, KernelError> {
    let mut dead: Vec<PathBuf> = kernel
        .mounts_below(root)?
        .into_iter()
        .filter(|mount| mount.source == id && mount.fs_type.starts_with("fuse."))
        .map(|mount| mount.point)
        .collect();
    // A mount on top of another one first.
    dead.sort_by_key(|point| std::cmp::Reverse(point.components().count()));
    for point in &dead {
        let (Some(parent), Some(name)) = (point.parent(), point.file_name()) else { continue };
        let parent = kernel.walk(root, parent)?;
        kernel.detach(&parent, name, Detach::Lazy)?;
    }
    Ok(dead)
}

fn event(ended: &EndedServer, place: &Path) -> NewEvent {
    let mut parts = place.components().map(|part| part.as_os_str().to_string_lossy());
    let object = match (parts.next().as_deref(), parts.next()) {
        (Some(volhost_volume_ops::layout::PODS), Some(uid)) => format!("pod {uid}"),
        _ => format!("volume {}", place.display()),
    };
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let message =
        format!("the FUSE server of volume \"{name}\" has ended, and the volume is mounted again: {}", ended.why);
    NewEvent { kind: EventKind::Warning, reason: "FuseServerEnded".to_owned(), object, message }
}
