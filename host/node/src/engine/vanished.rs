//! Mounts that go away without the host: unmounted by a person or a program, or by their own server when it died.
//!
//! ```text
//!  the kernel's mount table changes ──> which of the mounts that should stand are missing? (thread) ──> the state machine
//!            ^                                                                         │
//!            └──────────── after a pause, so that a busy node looks once a second ─────┘
//! ```
//!
//! Until the volume is set up again the folder below the mount shows. It has mode 0, so that only a process that may override modes writes
//! there; what it wrote keeps the volume from being mounted over it, and the pod is told.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Weak;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::UnboundedSender;
use tracing::warn;

use super::sweep::Found;
use volhost_volume_ops::volume_ops::VolumeOps;

/// The least time between two looks. A busy node changes its mounts hundreds of times a second, and a look at 10,000 takes tens of milliseconds.
const PAUSE: Duration = Duration::from_secs(1);

/// Reports vanished mounts until the engine ends. `changes` is what [`volhost_kernel::Kernel::mount_changes`] gave.
///
/// # Errors
/// When the runtime cannot wait for the mount table.
pub(super) async fn watch(
    changes: OwnedFd,
    volume_ops: Weak<VolumeOps>,
    answers: UnboundedSender<Found>,
) -> io::Result<()> {
    let changes = listen(changes)?;
    loop {
        tokio::select! {
            ready = changes.ready(Interest::PRIORITY) => ready?.clear_ready(),
            () = answers.closed() => return Ok(()),
        }
        let Some(volume_ops) = volume_ops.upgrade() else { return Ok(()) };
        // No operation ends the FUSE server of a mount that another process has unmounted. On a thread of its own: a server may take
        // long to end.
        let servers = volume_ops.fuse_servers().clone();
        tokio::task::spawn_blocking(move || servers.settle_all());
        match tokio::task::spawn_blocking(move || volume_ops.vanished()).await {
            Ok(Ok(gone)) if gone.is_empty() => {}
            Ok(Ok(gone)) => drop(answers.send(Found::Vanished(gone))),
            Ok(Err(error)) => warn!(%error, "the mount table cannot be looked through for mounts that have vanished"),
            Err(error) => warn!(%error, "the look for vanished mounts ended early"),
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = answers.closed() => return Ok(()),
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
