//! For external drivers, which mount in the host's stead: they know paths, not handles.

use std::ffi::OsStr;
use std::path::PathBuf;

use crate::block_devices::BlockDevice;
use crate::error::Result;
use crate::handle::Directory;
use crate::mount_snapshot::MountSnapshot;
use crate::types::MountInfo;

/// Primitives around a program that mounts by itself.
///
/// # Guarantees
/// As [`crate::Kernel`]. None of them follows a symbolic link or asks a server.
pub trait DriverMounts {
    /// The folder's path as this process sees it now.
    ///
    /// # Errors
    /// `Failed`; `NotFound` if the folder was removed.
    fn absolute_path(&self, directory: &Directory) -> Result<PathBuf>;

    /// The mounts that this process sees now. One system call, however many there are, where the
    /// kernel counts mounts (Linux 6.13); else it reads the mount table.
    ///
    /// # Errors
    /// `Failed`.
    fn mounts_now(&self) -> Result<MountSnapshot>;

    /// The mounts that this process sees and that are none of these, in the order of their ids,
    /// each with its absolute mount point.
    ///
    /// # Errors
    /// `Failed`.
    fn mounts_besides(&self, known: &MountSnapshot) -> Result<Vec<MountInfo>>;

    /// The block device whose node is at a name, bound there or made there; none if nothing is
    /// there.
    ///
    /// # Errors
    /// `SymbolicLink`, `WrongType` if it is something else; `Failed`.
    fn device_at(&self, directory: &Directory, name: &OsStr) -> Result<Option<BlockDevice>>;

    /// Removes what is at a name unless it has data: every mount, then an empty folder, an empty
    /// file, a device's node. Nothing there: done.
    ///
    /// # Errors
    /// `NotEmpty` if it has data; `WrongType` for a symbolic link, a socket, a pipe; `Failed`
    /// (`Busy`) if something uses a mount of it.
    fn clear_place(&self, directory: &Directory, name: &OsStr) -> Result<()>;
}
