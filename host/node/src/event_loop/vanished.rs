//! Mounts that disappear without an operation: another process unmounted them, or their own server
//! died.
//!
//! ```text
//!  the kernel's mount table changes ──> which of the expected mounts are missing? (thread) ──> the state machine
//!            ^                                                                         │
//!            └──────────── after a pause, so that a busy node looks once a second ─────┘
//! ```
//!
//! Until the volume is mounted again the folder below the mount is visible. It has mode 0, so that
//! only a process that may override modes writes there. Files in it prevent the volume from being
//! mounted over them, and an event of the pod says so.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::UnboundedSender;
use tracing::warn;

use super::reports::WorkerReport;
use volhost_volume_ops::volume_ops::VolumeOps;

/// The least time between two looks. A busy node changes its mounts hundreds of times a second.
const PAUSE: Duration = Duration::from_secs(1);

/// Starts to report vanished mounts, until the loop ends.
pub(crate) fn start(volume_ops: &Arc<VolumeOps>, reports: UnboundedSender<WorkerReport>) {
    let changes = match volume_ops.kernel().mount_changes() {
        Ok(Some(changes)) => changes,
        Ok(None) => return,
        Err(error) => return warn!(%error, "mounts that other processes unmount will not be noticed"),
    };
    let watching = watch(changes, Arc::downgrade(volume_ops), reports);
    tokio::spawn(async move {
        if let Err(error) = watching.await {
            warn!(%error, "mounts that other processes unmount are not noticed any more");
        }
    });
}

/// Reports vanished mounts until the loop ends. `changes` comes from
/// [`volhost_kernel::Kernel::mount_changes`].
///
/// # Errors
/// When the runtime cannot wait for the mount table.
async fn watch(
    changes: OwnedFd,
    volume_ops: Weak<VolumeOps>,
    reports: UnboundedSender<WorkerReport>,
) -> io::Result<()> {
    let changes = listen(changes)?;
    loop {
        tokio::select! {
            ready = changes.ready(Interest::PRIORITY) => ready?.clear_ready(),
            () = reports.closed() => return Ok(()),
        }
        let Some(volume_ops) = volume_ops.upgrade() else { return Ok(()) };
        // No operation stops the FUSE server of such a mount. On a thread of its own, because
        // stopping one can take seconds.
        let servers = volume_ops.fuse_servers().clone();
        tokio::task::spawn_blocking(move || servers.settle_all());
        match tokio::task::spawn_blocking(move || volume_ops.vanished()).await {
            Ok(Ok(gone)) if gone.is_empty() => {}
            Ok(Ok(gone)) => drop(reports.send(WorkerReport::Vanished(gone))),
            Ok(Err(error)) => warn!(%error, "the mount table cannot be searched for vanished mounts"),
            Err(error) => warn!(%error, "the search for vanished mounts ended early"),
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = reports.closed() => return Ok(()),
        }
    }
}

#[expect(
    deprecated,
    reason = "its successor is unsafe because of descriptors that change; an OwnedFd owns one for its whole life"
)]
fn listen(changes: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(changes, Interest::PRIORITY)
}
