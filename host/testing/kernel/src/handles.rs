//! The in-memory kernel's handles: sockets that are bound to nothing and name nothing on Linux.
//! What a handle is of, this kernel knows by the socket's cookie, a number that no other socket of
//! the machine has or will have.
//!
//! Handles have no destructor of this kernel's own, so [`OpenHandle::is_open`] asks whether the
//! process still has the descriptor.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use volhost_kernel::implement::text;
use volhost_kernel::{Errno, KernelError, Result, Step};

use super::state::{At, MountKey};

/// What the handles of one machine are of, by their cookies. Handles that were closed stay listed:
/// their cookies never come again.
#[derive(Debug, Default)]
pub(super) struct Handles {
    places: Mutex<HashMap<u64, At>>,
    mounts: Mutex<HashMap<u64, MountKey>>,
}

impl Handles {
    /// A new handle of a place.
    pub(super) fn add_place(&self, at: At, shown: &Path) -> Result<OwnedFd> {
        let fd = socket().map_err(|errno| KernelError::failed(Step::CloneHandle, text(shown), errno))?;
        self.places.lock().unwrap_or_else(PoisonError::into_inner).insert(cookie(&fd, shown)?, at);
        Ok(fd)
    }

    /// A new handle of a mount.
    pub(super) fn add_mount(&self, mount: MountKey, shown: &Path) -> Result<OwnedFd> {
        let fd = socket().map_err(|errno| KernelError::failed(Step::CloneHandle, text(shown), errno))?;
        self.mounts.lock().unwrap_or_else(PoisonError::into_inner).insert(cookie(&fd, shown)?, mount);
        Ok(fd)
    }

    /// The place that a handle is of; refuses one of another kernel or machine.
    pub(super) fn place(&self, handle: impl AsFd, shown: &Path) -> Result<At> {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.get(&cookie(handle, shown)?).copied().ok_or_else(|| foreign(shown))
    }

    /// The mount that a handle is of; refuses one of another kernel or machine.
    pub(super) fn mount(&self, handle: impl AsFd, shown: &Path) -> Result<MountKey> {
        let mounts = self.mounts.lock().unwrap_or_else(PoisonError::into_inner);
        mounts.get(&cookie(handle, shown)?).copied().ok_or_else(|| foreign(shown))
    }
}

/// A handle whose close changes the machine, as it looks from outside.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenHandle {
    fd: RawFd,
    inode: u64,
}

impl OpenHandle {
    /// Remembers an open handle.
    pub(super) fn of(handle: &OwnedFd, shown: &Path) -> Result<Self> {
        let about =
            rustix::fs::fstat(handle).map_err(|errno| KernelError::failed(Step::CloneHandle, text(shown), errno))?;
        Ok(Self { fd: handle.as_raw_fd(), inode: about.st_ino })
    }

    /// Returns whether this process still has the handle open. Copies in children that were not yet
    /// executed do not count.
    pub(super) fn is_open(self) -> bool {
        std::fs::metadata(format!("/proc/self/fd/{}", self.fd)).is_ok_and(|about| about.ino() == self.inode)
    }
}

/// A new handle that is of nothing yet, for what only has to be closed.
pub(super) fn socket() -> std::result::Result<OwnedFd, Errno> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
}

fn cookie(handle: impl AsFd, shown: &Path) -> Result<u64> {
    rustix::net::sockopt::socket_cookie(handle).map_err(|_| foreign(shown))
}

fn foreign(shown: &Path) -> KernelError {
    let detail = "the handle belongs to another kernel".to_owned();
    KernelError::Failed { step: Step::Inspect, path: text(shown), errno: Errno::BADF, detail }
}
