//! The plain values that go in and out of a kernel: entries, mounts, options.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// Identifies a mount. Where the kernel has unique ids (Linux 6.8) it is never used again for
/// another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MountId(pub u64);

/// The object at a name in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Entry {
    /// Nothing.
    Absent,
    /// A folder.
    Folder,
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// A socket, device or named pipe.
    Other,
    /// A mount; what its root is has not been asked.
    Mount(MountId),
}

/// A mount, as the kernel reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountInfo {
    /// Its id.
    pub id: MountId,
    /// The id of the mount it is mounted on.
    pub parent: MountId,
    /// Its mount point, relative to the folder that was asked about.
    pub point: PathBuf,
    /// The number of its file system, major and minor: every mount of one file system has the same.
    pub device: (u32, u32),
    /// The file-system type: `tmpfs`, `ext4`, `fuse.sshfs`.
    pub fs_type: String,
    /// The source as the file system reports it: a device, `tmpfs`, `server:/export`. Not always a
    /// path.
    pub source: OsString,
    /// Which folder or file of the file system is mounted; `/` for the whole.
    pub root: PathBuf,
    /// Per-mount options (`ro`, `nosuid`, `relatime` ...) first, then those of the file system
    /// (`size=1024k`).
    pub options: Vec<String>,
    /// Writing through this mount is refused: the mount is read-only, or its file system is.
    pub read_only: bool,
}

/// Whether mounts below the root folder travel to other mount namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Propagation {
    /// They stay here.
    Private,
    /// They appear in every namespace that follows this one; containers that were started earlier
    /// see new mounts.
    Shared,
}

/// How to unmount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Detach {
    /// Only if nothing uses it; otherwise the error is `Busy`, and nothing is lost.
    Normal,
    /// Lazily: it disappears at once, and the kernel releases it with its last user. For storage
    /// that does not answer.
    Lazy,
}

/// The crashes that a written file survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Durability {
    /// The end of the process. No write waits for a disk.
    Process,
    /// The sudden end of the machine: file and folder are synchronised before the call returns.
    Machine,
}

/// An option of a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsOption {
    /// Its name.
    pub key: String,
    /// Its value; none for a flag.
    pub value: Option<String>,
}

impl FsOption {
    /// `key=value`.
    pub fn new(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { key: key.into(), value: Some(value.into()) }
    }

    /// A flag.
    pub fn flag(key: impl Into<String>) -> Self {
        Self { key: key.into(), value: None }
    }
}

/// Which device it is: the kernel's own name for it. A number is used again after its device is
/// gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceNumber {
    /// The driver.
    pub major: u32,
    /// The device of that driver.
    pub minor: u32,
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// The types of images that are mounted from a file.
pub(crate) const IMAGE_TYPES: [&str; 3] = ["erofs", "squashfs", "ext4"];
