//! Block devices: opening them, asking about them, and showing them to a pod.

use std::ffi::OsStr;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::handle::{Directory, MountSource};
use crate::types::DeviceNumber;

/// A block device by its node, open as a place (`O_PATH`): the handle keeps neither the device nor
/// its storage, only the mount that the node lies on. A device must be kept by other means while it
/// is used: [`BlockDevices::pin_device`], or a mount.
pub struct BlockDevice {
    pub(crate) fd: OwnedFd,
    pub(crate) path: PathBuf,
    pub(crate) number: DeviceNumber,
}

impl BlockDevice {
    /// The handle of an implementation of [`crate::Kernel`]. `path` is where the node is, links
    /// resolved.
    #[must_use]
    pub const fn from_fd(fd: OwnedFd, path: PathBuf, number: DeviceNumber) -> Self {
        Self { fd, path, number }
    }

    /// Where its node is, links resolved: `/dev/loop3`.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which device it is.
    #[must_use]
    pub const fn number(&self) -> DeviceNumber {
        self.number
    }
}

impl AsFd for BlockDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl fmt::Debug for BlockDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockDevice").field("path", &self.path).field("number", &self.number).finish()
    }
}

/// Primitives over block devices.
///
/// # Guarantees
/// As [`crate::Kernel`]. Nothing here writes to a device. A call that hands a device's path to
/// the caller made sure that the path names this very device.
pub trait BlockDevices {
    /// Opens the node at an absolute path, following symbolic links (`/dev/disk/by-id/...`).
    ///
    /// # Errors
    /// `InvalidPath` for a relative path; `WrongType` if it is no block device; `Failed`.
    fn open_block_device(&self, path: &Path) -> Result<BlockDevice>;

    /// The device whose node a granted path led to.
    ///
    /// # Errors
    /// `WrongType` if it is no block device; `Failed`.
    fn block_device_of(&self, source: &MountSource) -> Result<BlockDevice>;

    /// Its path, as [`BlockDevice::path`].
    fn device_path(&self, device: &BlockDevice) -> PathBuf {
        device.path().to_owned()
    }

    /// Its size in bytes; 0 for a loop device without a file.
    ///
    /// # Errors
    /// `Failed`; `NotFound` if no device answers to the node.
    fn device_size(&self, device: &BlockDevice) -> Result<u64>;

    /// Returns whether the device refuses writes.
    ///
    /// # Errors
    /// As [`BlockDevices::device_size`].
    fn device_read_only(&self, device: &BlockDevice) -> Result<bool>;

    /// Returns whether something has the device for itself: a mounted file system (in any
    /// namespace), swap, device mapper, a tool that formats or checks it. A program that merely
    /// reads or writes it is not seen.
    ///
    /// # Errors
    /// As [`BlockDevices::device_size`].
    fn device_in_use(&self, device: &BlockDevice) -> Result<bool>;

    /// Shows the device at a name: its node, bound onto a file that is made for it (0640). The same
    /// device there already: done. [`crate::Kernel::detach`] undoes it; [`crate::Kernel::entry`]
    /// calls it a mount.
    ///
    /// # Errors
    /// `DeviceError::Other` if another one is mapped there; `DeviceError::Mounted` if it is mounted
    /// as a file system; else as [`crate::Kernel::attach`].
    fn map_device(&self, device: &BlockDevice, directory: &Directory, name: &OsStr) -> Result<()>;

    /// Which device is mapped at a name; none if none is, whatever else is there.
    ///
    /// # Errors
    /// `Failed`.
    fn mapped_device(&self, directory: &Directory, name: &OsStr) -> Result<Option<DeviceNumber>>;

    /// Makes the name a symbolic link to the device's path, in place of an older link at once: a
    /// reader sees the old one or the new. [`crate::Kernel::remove_file`] undoes it.
    ///
    /// # Errors
    /// `WrongType` if something other than a link is there; `DeviceError::Gone`; `Failed`.
    fn link_device(&self, device: &BlockDevice, directory: &Directory, name: &OsStr) -> Result<()>;

    /// Where the link at a name leads, none if nothing is there.
    ///
    /// # Errors
    /// `WrongType` if something other than a link is there; `Failed`.
    fn linked_device(&self, directory: &Directory, name: &OsStr) -> Result<Option<PathBuf>>;

    /// Keeps the device that is mapped at a name from going away and its number from being used
    /// again: a read-only loop device over the mapped node, which outlives the host. Pinned
    /// already: that pin, which may be a kubelet's, a loop device over the mapping's path. Returns
    /// the pin. The mapping can't be detached before [`BlockDevices::unpin_device`], and what is on
    /// the device can't be mounted or formatted.
    ///
    /// # Errors
    /// `DeviceError::NotMapped` if no device is mapped there; `DeviceError::Mounted` if it is
    /// mounted as a file system; `Failed`.
    fn pin_device(&self, directory: &Directory, name: &OsStr) -> Result<BlockDevice>;

    /// Takes the pin away, and a kubelet's too. None there, or nothing mapped: done.
    ///
    /// # Errors
    /// `Failed` (`Busy`) if a process has the pin open.
    fn unpin_device(&self, directory: &Directory, name: &OsStr) -> Result<()>;
}
