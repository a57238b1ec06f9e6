//! Block devices, as handles, and the state of an attached volume.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! /// Checks a device before it is formatted.
//! fn check(device: &BlockDevice) -> Result<()> {
//!     if device.is_read_only()? || device.is_in_use()? {
//!         return Err(Error::busy(format!("{} ({} bytes) is read-only or in use", device.path(), device.size()?)));
//!     }
//!     Ok(())
//! }
//!
//! /// Opens the device of an attached volume.
//! fn device_of(attached: &Attachment) -> Result<BlockDevice> {
//!     log::debug(format_args!("attached as {}, {:?}, at {:?}", attached.attached_as(), attached.metadata(), attached.device_path()));
//!     attached.open()
//! }
//!
//! /// Logs a device that is lent for one call: only its path is known.
//! fn note(device: &LentDevice) {
//!     log::debug(device.path());
//! }
//! # let host = volhost_plugin_sdk::testing::TestHost::new();
//! # host.disk_device("/dev/sdb", 1 << 30).grant_devices("/dev/sdb");
//! # check(&block_devices::open("/dev/sdb")?)?;
//! # Ok::<(), Error>(())
//! ```

use std::fmt;

use crate::backend;
use crate::error::Result;

/// A block device that the host holds open. [`crate::loop_devices`] and [`Attachment::open`] give
/// some.
pub struct BlockDevice(pub(crate) backend::BlockDevice);

impl BlockDevice {
    pub(crate) fn new(handle: backend::BlockDevice) -> Self {
        Self(handle)
    }

    /// Its path on the host, such as `/dev/loop3`: for messages, and to distinguish devices. It
    /// opens nothing.
    #[must_use]
    pub fn path(&self) -> String {
        self.0.path()
    }

    /// Its size in bytes.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn size(&self) -> Result<u64> {
        self.0.size().map_err(backend::error_in)
    }

    /// Whether the device refuses writes.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn is_read_only(&self) -> Result<bool> {
        self.0.read_only().map_err(backend::error_in)
    }

    /// Whether the device is opened exclusively on the node: by a mounted file system, swap, RAID,
    /// LVM.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn is_in_use(&self) -> Result<bool> {
        self.0.in_use().map_err(backend::error_in)
    }
}

impl fmt::Debug for BlockDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockDevice({})", self.path())
    }
}

/// A block device lent for one call.
pub struct LentDevice<'call>(&'call backend::BlockDevice);

impl<'call> LentDevice<'call> {
    pub(crate) fn new(handle: &'call backend::BlockDevice) -> Self {
        Self(handle)
    }

    /// As [`BlockDevice::path`].
    #[must_use]
    pub fn path(&self) -> String {
        self.0.path()
    }
}

impl fmt::Debug for LentDevice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LentDevice({})", self.path())
    }
}

/// An attached volume, as far as the host knows it.
pub struct Attachment<'call>(&'call backend::Attachment);

impl<'call> Attachment<'call> {
    pub(crate) fn new(handle: &'call backend::Attachment) -> Self {
        Self(handle)
    }

    /// The answer of [`Attacher::attach`](crate::Attacher::attach), or what the controller that
    /// attached it reported.
    #[must_use]
    pub fn attached_as(&self) -> String {
        self.0.attached_as()
    }

    /// The controller's attachment metadata (`status.attachmentMetadata` of a VolumeAttachment),
    /// sorted by key; empty when the host attached the volume.
    #[must_use]
    pub fn metadata(&self) -> Vec<(String, String)> {
        self.0.metadata()
    }

    /// The device's path, once [`Attacher::wait_for_attach`](crate::Attacher::wait_for_attach) has
    /// found it.
    #[must_use]
    pub fn device_path(&self) -> Option<String> {
        self.0.device_path()
    }

    /// Opens that device.
    ///
    /// # Errors
    /// [`Precondition`](crate::Error::Precondition) when there is none,
    /// [`NotFound`](crate::Error::NotFound) when it has gone.
    pub fn open(&self) -> Result<BlockDevice> {
        self.0.open().map(BlockDevice::new).map_err(backend::error_in)
    }
}

impl fmt::Debug for Attachment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Attachment({})", self.attached_as())
    }
}
