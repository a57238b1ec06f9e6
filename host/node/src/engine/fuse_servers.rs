//! FUSE servers that end while volumes still need them: their dead mounts are unmounted, so that the volumes can be mounted again.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;
use tracing::{debug, warn};
use volhost_fuse_servers::{EndedServer, FuseServerProcesses};
use volhost_kernel::{Detach, Directory, Kernel, KernelError};
use volhost_model::view::EventKind;

use volhost_volume_ops::events::NewEvent;

use super::executor::FromOperation;

/// Unmounts the file systems of FUSE servers that end, and sends `events` about it. No mount is entered, and only mounts of the
/// ended server are unmounted: the search for vanished mounts finds them missing.
pub fn unmount_when_ended(
    servers: &FuseServerProcesses,
    kernel: Arc<dyn Kernel>,
    root: Arc<Directory>,
    events: mpsc::UnboundedSender<FromOperation>,
) {
    servers.on_end(move |ended| match unmount_all(kernel.as_ref(), &root, &ended.id) {
        Ok(places) if places.is_empty() => debug!(server = ended.id, "{}", ended.why),
        Ok(places) => {
            for place in places {
                // It fails only while the process ends.
                let _ = events.send(event(&ended, &place));
            }
        }
        Err(error) => {
            warn!(%error, server = ended.id, "the mounts of an ended FUSE server cannot be unmounted: {}", ended.why)
        }
    });
}

/// Unmounts every file system of this server, and returns where they were mounted.
fn unmount_all(kernel: &dyn Kernel, root: &Directory, id: &str) -> Result<Vec<PathBuf>, KernelError> {
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

fn event(ended: &EndedServer, place: &std::path::Path) -> FromOperation {
    let mut parts = place.components().map(|part| part.as_os_str().to_string_lossy());
    let object = match (parts.next().as_deref(), parts.next()) {
        (Some(volhost_volume_ops::layout::PODS), Some(uid)) => format!("pod {uid}"),
        _ => format!("volume {}", place.display()),
    };
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let message =
        format!("the FUSE server of volume \"{name}\" has ended, and the volume is mounted again: {}", ended.why);
    FromOperation::Event(NewEvent { kind: EventKind::Warning, reason: "FuseServerEnded".to_owned(), object, message })
}
