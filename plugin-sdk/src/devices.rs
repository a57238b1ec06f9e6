//! Block devices, as handles, and what is known of an attached volume.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! /// What a plugin looks at before it formats a device.
//! fn look(device: &BlockDevice) -> Result<()> {
//!     if device.is_read_only()? || device.is_in_use()? {
//!         return Err(Error::busy(format!("{} ({} bytes) is not ours alone", device.path(), device.size()?)));
//!     }
//!     Ok(())
//! }
//!
//! /// The device of an attached volume, by what its driver said of it.
//! fn device_of(attached: &Attachment) -> Result<BlockDevice> {
//!     log::debug(format_args!("attached as {}, {:?}, at {:?}", attached.attached_as(), attached.metadata(), attached.device_path()));
//!     attached.open()
//! }
//!
//! /// A device that is lent for one call: its path is all there is to it.
//! fn note(device: &LentDevice) {
//!     log::debug(device.path());
//! }
//! # let host = volhost_plugin_sdk::testing::TestHost::new();
//! # host.disk_device("/dev/sdb", 1 << 30).grant_devices("/dev/sdb");
//! # look(&block_devices::open("/dev/sdb")?)?;
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

    /// Its path on the host, such as `/dev/loop3`: for messages, and to tell one from another. It
    /// opens nothing.
    #[must_use]
    pub fn path(&self) -> String {
        self.0.path()
    }

    /// Its size in bytes.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn size(&self) -> Result<u64> {
        self.0.size().map_err(backend::error_in)
    }

    /// Whether writing to it is refused.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn is_read_only(&self) -> Result<bool> {
        self.0.read_only().map_err(backend::error_in)
    }

    /// Whether something on the node has it for itself: a mounted file system, swap, RAID, LVM.
    ///
    /// # Errors
    /// As the kernel says.
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

    /// What [`Attacher::attach`](crate::Attacher::attach) answered, or what the controller reported
    /// that attached it.
    #[must_use]
    pub fn attached_as(&self) -> String {
        self.0.attached_as()
    }

    /// What the controller's report says of the attachment beside that, sorted by key; empty when
    /// the host attached the volume.
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
    /// [`Precondition`](crate::Error::Precondition) when there is none, [`NotFound`](crate::Error::NotFound) when it has gone.
    pub fn open(&self) -> Result<BlockDevice> {
        self.0.open().map(BlockDevice::new).map_err(backend::error_in)
    }
}

impl fmt::Debug for Attachment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Attachment({})", self.attached_as())
    }
}
