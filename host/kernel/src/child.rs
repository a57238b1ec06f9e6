//! Makes child processes that have no descriptor of ours, not even for a moment.
//!
//! Between its making and its `exec` a child of a process usually has a copy of every descriptor,
//! and a copy keeps a mount busy that was just closed. Here the copies are closed before the
//! program begins, [`spawn`] returns after that, and a caller whose mount or device is busy asks
//! again while no child is being made.

use std::sync::{PoisonError, RwLock};

use rustix::io::Errno;
use rustix::process::Pid;

pub use crate::linux::{PollTarget, wait_ready};
pub use crate::new_child::NewChild;

/// Locked shared while a child is made, exclusively by a caller that must know that none is being
/// made.
static BEING_MADE: RwLock<()> = RwLock::new(());

/// Makes a child process. Blocks until the kernel has loaded its program.
///
/// # Guarantees
/// The child has no descriptor of this process but those given here, from before its program
/// begins.
///
/// # Errors
/// The kernel's: `NOENT` where there is no such program.
pub fn spawn(child: &NewChild<'_>) -> Result<Pid, Errno> {
    let _making = BEING_MADE.read().unwrap_or_else(PoisonError::into_inner);
    crate::linux::spawn(child)
}

/// Asks the kernel for something that must have no other user. If it is busy, asks once more while
/// this process makes no child.
///
/// # Errors
/// The call's own.
pub(crate) fn unless_a_child_is_made<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    match call() {
        Err(Errno::BUSY) => {
            let _none = BEING_MADE.write().unwrap_or_else(PoisonError::into_inner);
            call()
        }
        answer => answer,
    }
}
