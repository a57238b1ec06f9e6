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

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::UnboundedSender;
use tracing::warn;
use volhost_kernel::{Entry, KernelError};

use super::operation::Workshop;
use super::standing::{NodePlace, VolumePlace};
use super::sweep::Found;

/// The least time between two looks. A busy node changes its mounts hundreds of times a second, and a look at 10,000 takes tens of milliseconds.
const PAUSE: Duration = Duration::from_secs(1);

/// Reports vanished mounts until the engine ends. `changes` is what [`volhost_kernel::Kernel::mount_changes`] gave.
///
/// # Errors
/// When the runtime cannot wait for the mount table.
pub(super) async fn watch(
    changes: OwnedFd,
    workshop: Weak<Workshop>,
    answers: UnboundedSender<Found>,
) -> io::Result<()> {
    let changes = listen(changes)?;
    loop {
        tokio::select! {
            ready = changes.ready(Interest::PRIORITY) => ready?.clear_ready(),
            () = answers.closed() => return Ok(()),
        }
        let Some(workshop) = workshop.upgrade() else { return Ok(()) };
        // What was unmounted without an operation leaves its helper to nobody else. On a thread of its own: one may take its time.
        let helpers = workshop.helpers.clone();
        tokio::task::spawn_blocking(move || helpers.settle_all());
        match tokio::task::spawn_blocking(move || workshop.vanished()).await {
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

/// What should stand as a mount and does not.
#[derive(Debug, Default)]
pub struct Vanished {
    /// In pods' folders.
    pub of_pods: Vec<VolumePlace>,
    /// Of the node's own.
    pub of_node: Vec<NodePlace>,
}

impl Vanished {
    fn is_empty(&self) -> bool {
        self.of_pods.is_empty() && self.of_node.is_empty()
    }
}

impl Workshop {
    /// The volumes that should stand as mounts and do not. Nothing that is mounted is entered.
    ///
    /// # Errors
    /// When the mount table cannot be read.
    pub fn vanished(self: &Arc<Self>) -> Result<Vanished, KernelError> {
        let (of_pods, of_node) = (self.standing.all(), self.standing.all_on_node());
        if of_pods.is_empty() && of_node.is_empty() {
            return Ok(Vanished::default());
        }
        let there: HashSet<PathBuf> =
            self.kernel.mounts_below(&self.root)?.into_iter().map(|mount| mount.point).collect();
        // An operation may have taken it away, or set it up, since the table was read.
        let of_pods = of_pods.into_iter().filter(|place| !there.contains(&place.path()));
        let of_pods = of_pods.filter(|place| !self.is_mounted(&place.path()) && self.standing.has(place)).collect();
        let of_node = of_node.into_iter().filter(|place| !there.contains(&place.path()));
        let of_node =
            of_node.filter(|place| !self.is_mounted(&place.path()) && self.standing.has_on_node(place)).collect();
        Ok(Vanished { of_pods, of_node })
    }

    fn is_mounted(&self, path: &Path) -> bool {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return false };
        let Ok(Some(folder)) = self.open_if_there(folder) else { return false };
        matches!(self.kernel.entry(&folder, name), Ok(Entry::Mount(_)))
    }
}
