//! Handles: what the host holds instead of paths. Each is an open file descriptor, or a place in the twin; which of the two
//! is hidden, so that everything above this crate runs on either.

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::twin;

/// A folder, held open (`O_PATH`): whatever happens to its name, the handle stays on this very folder.
/// It keeps the mount it lies on busy, so do not keep one of a mounted volume.
pub struct Directory {
    pub(crate) handle: DirectoryHandle,
    pub(crate) label: PathBuf,
}

pub(crate) enum DirectoryHandle {
    Fd(OwnedFd),
    Twin(twin::Place),
}

/// The node of a [`crate::BlockDevice`].
pub(crate) enum DeviceHandle {
    Fd(OwnedFd),
    Twin(twin::DeviceNode),
}

impl Directory {
    /// How messages name it: relative to the root folder, or the operator's own path. Not for opening anything.
    #[must_use]
    pub fn label(&self) -> &Path {
        &self.label
    }
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Directory").field(&self.label).finish()
    }
}

/// What a [`MountSource`] is.
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

/// Something that can be bind-mounted, held open.
pub struct MountSource {
    pub(crate) handle: DirectoryHandle,
    pub(crate) label: PathBuf,
    pub(crate) kind: SourceKind,
}

impl MountSource {
    /// What it is.
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

impl fmt::Debug for MountSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MountSource").field("kind", &self.kind).field("label", &self.label).finish()
    }
}

/// A mount that nobody can see yet. Dropped without being attached, it is gone.
pub struct DetachedMount {
    pub(crate) handle: DetachedHandle,
    pub(crate) label: PathBuf,
}

pub(crate) enum DetachedHandle {
    Fd(OwnedFd),
    Twin(twin::Detached),
}

impl DetachedMount {
    /// How messages name it: its source, or its file-system type.
    #[must_use]
    pub fn label(&self) -> &Path {
        &self.label
    }
}

impl fmt::Debug for DetachedMount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DetachedMount").field(&self.label).finish()
    }
}

/// The exclusive use of a root folder; dropping it, or the death of the process, gives it back.
pub struct RootLock {
    pub(crate) _handle: LockHandle,
}

#[expect(dead_code, reason = "held for their drop, which releases the lock")]
pub(crate) enum LockHandle {
    Fd(OwnedFd),
    Twin(twin::LockGuard),
}

impl fmt::Debug for RootLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RootLock").finish_non_exhaustive()
    }
}
