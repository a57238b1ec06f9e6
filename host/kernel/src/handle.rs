//! Handles: open file descriptors that the host uses instead of paths, each with a label for
//! messages.
//!
//! A handle is a descriptor and nothing else, so [`crate::LinuxKernel`] uses it without a check,
//! and this crate knows of no other implementation of [`crate::Kernel`]. Another implementation,
//! such as the in-memory kernel of the tests, makes descriptors of its own that name nothing on
//! Linux (unconnected sockets), and finds its objects by their identity. A handle that reaches the
//! wrong kernel therefore fails: Linux answers `ENOTDIR` or `EINVAL` for a socket, and the
//! in-memory kernel does not know a descriptor that it did not make.
//!
//! Weighed and left: an enum of implementations, and an opaque `Box<dyn Any>`. Both put a check
//! that only a defect can fail into every call, and the second an allocation. Associated types
//! would make the runtime and everything above it generic.
//!
//! Only implementations of [`crate::Kernel`] call the `from_fd` constructors and use the
//! descriptors.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// An open folder (`O_PATH`): whatever happens to its name, the handle stays on this very
/// folder. It keeps the mount it lies on busy, so do not keep one of a mounted volume. A clone
/// shares the descriptor, and asks the kernel for nothing.
#[derive(Clone)]
pub struct Directory {
    pub(crate) fd: Arc<OwnedFd>,
    pub(crate) label: PathBuf,
    /// Whether its file system limits projects, once that was asked.
    pub(crate) limits_projects: Arc<OnceLock<bool>>,
}

impl Directory {
    /// The handle of an implementation of [`crate::Kernel`].
    #[must_use]
    pub fn from_fd(fd: OwnedFd, label: PathBuf) -> Self {
        Self { fd: Arc::new(fd), label, limits_projects: Arc::default() }
    }

    /// How messages name it: relative to the root folder, or the operator's own path. Not for
    /// opening anything.
    #[must_use]
    pub fn label(&self) -> &Path {
        &self.label
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Directory").field(&self.label).finish()
    }
}

/// The kind of a [`MountSource`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourceKind {
    /// A folder.
    Directory,
    /// A regular file.
    File,
    /// A unix socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// A named pipe.
    Fifo,
}

impl SourceKind {
    /// The word for it in `wit/mounts.wit`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::File => "file",
            Self::Socket => "socket",
            Self::CharDevice => "char-device",
            Self::BlockDevice => "block-device",
            Self::Fifo => "fifo",
        }
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An open object that can be bind-mounted.
pub struct MountSource {
    pub(crate) fd: OwnedFd,
    pub(crate) label: PathBuf,
    pub(crate) kind: SourceKind,
}

impl MountSource {
    /// The handle of an implementation of [`crate::Kernel`].
    #[must_use]
    pub const fn from_fd(fd: OwnedFd, label: PathBuf, kind: SourceKind) -> Self {
        Self { fd, label, kind }
    }

    /// Returns what it is.
    #[must_use]
    pub const fn kind(&self) -> SourceKind {
        self.kind
    }

    /// How messages name it.
    #[must_use]
    pub fn label(&self) -> &Path {
        &self.label
    }
}

impl AsFd for MountSource {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl fmt::Debug for MountSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MountSource").field("kind", &self.kind).field("label", &self.label).finish()
    }
}

/// A detached mount: no process can see it yet. Dropped without being attached, it is gone.
pub struct DetachedMount {
    pub(crate) fd: OwnedFd,
    pub(crate) label: PathBuf,
}

impl DetachedMount {
    /// The handle of an implementation of [`crate::Kernel`], which discards the mount when the
    /// descriptor is closed.
    #[must_use]
    pub const fn from_fd(fd: OwnedFd, label: PathBuf) -> Self {
        Self { fd, label }
    }

    /// How messages name it: its source, or its file-system type.
    #[must_use]
    pub fn label(&self) -> &Path {
        &self.label
    }
}

impl AsFd for DetachedMount {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl fmt::Debug for DetachedMount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DetachedMount").field(&self.label).finish()
    }
}

/// A file that is open to be appended to. Removing its name does not close it: what is appended then
/// is lost.
pub struct AppendFile {
    pub(crate) fd: OwnedFd,
    pub(crate) label: PathBuf,
    pub(crate) bytes: u64,
}

impl AppendFile {
    /// The handle of an implementation of [`crate::Kernel`].
    #[must_use]
    pub const fn from_fd(fd: OwnedFd, label: PathBuf, bytes: u64) -> Self {
        Self { fd, label, bytes }
    }

    /// Returns its size in bytes when it was opened.
    #[must_use]
    pub const fn bytes_at_first(&self) -> u64 {
        self.bytes
    }

    /// How messages name it.
    #[must_use]
    pub fn label(&self) -> &Path {
        &self.label
    }
}

impl AsFd for AppendFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl fmt::Debug for AppendFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AppendFile").field(&self.label).finish()
    }
}

/// The exclusive use of a root folder; dropping it, or the death of the process, gives it back.
pub struct RootLock {
    /// Its close gives the lock back.
    pub(crate) _fd: OwnedFd,
}

impl RootLock {
    /// The handle of an implementation of [`crate::Kernel`], which gives the lock back when the
    /// descriptor is closed.
    #[must_use]
    pub const fn from_fd(fd: OwnedFd) -> Self {
        Self { _fd: fd }
    }
}

impl fmt::Debug for RootLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RootLock").finish_non_exhaustive()
    }
}
