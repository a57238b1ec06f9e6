//! File systems on block devices: `ext2`, `ext3`, `ext4`, `xfs`, `btrfs`.
//!
//! ```
//! use volhost_plugin_sdk::filesystems::FormatOptions;
//! use volhost_plugin_sdk::prelude::*;
//! # let host = volhost_plugin_sdk::testing::TestHost::new();
//! # host.disk_device("/dev/sdb", 1 << 30).grant_devices("/dev/sdb");
//! # let target = host.target("data");
//! # let target = target.handle();
//! let device = block_devices::open("/dev/sdb")?;
//! // A device with data is never formatted.
//! if filesystems::probe(&device)?.is_none() {
//!     filesystems::format(&device, "ext4", &FormatOptions::new().with_label("data"))?;
//! }
//! // It may have grown while no pod used it.
//! filesystems::grow_unmounted(&device, "ext4")?;
//! target.attach(filesystems::mount(&device, "ext4", &[("noatime", None)], false)?)?;
//! // Later, when the device has grown:
//! let bytes = filesystems::grow(&device, &target)?;
//! # assert_eq!(bytes, 1 << 30);
//! # Ok::<(), Error>(())
//! ```

use std::collections::BTreeMap;

use crate::backend::{self, FsOption};
use crate::devices::BlockDevice;
use crate::error::Result;
use crate::mounts::{DetachedMount, MountTarget};

/// Returns what the device contains: a file-system type, `partitions`, another word for anything
/// else, or none when it is blank: when it reads as zeros. Data that no tool recognises is not
/// blank, but what a format left that did not end is.
///
/// # Errors
/// A device that cannot be read is an error, never blank. `busy` while such a format may still run.
pub fn probe(device: &BlockDevice) -> Result<Option<String>> {
    backend::filesystems::probe(&device.0).map_err(backend::error_in)
}

/// How a file system is made. An empty one makes it as the type's mkfs does, with nothing reserved
/// for root. [`format()`] refuses a value that the type does not take.
///
/// ```
/// use volhost_plugin_sdk::filesystems::FormatOptions;
///
/// let options = FormatOptions::new()
///     .with_label("data")
///     .with_uuid("01234567-89ab-cdef-0123-456789abcdef")
///     .with_block_size(4096)
///     .with_inode_size(512)
///     .with_bytes_per_inode(8192)
///     .with_reserved_percent(1)
///     .with_feature("metadata_csum", true)
///     .with_room_kept();
/// # let _ = options;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FormatOptions {
    label: Option<String>,
    uuid: Option<String>,
    block_size: Option<u32>,
    inode_size: Option<u32>,
    bytes_per_inode: Option<u32>,
    reserved_percent: Option<u32>,
    features: BTreeMap<String, bool>,
    keep_room: bool,
}

impl FormatOptions {
    /// Options that set nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the label: at most 16 bytes for ext, 12 for XFS, 255 for btrfs.
    #[must_use]
    pub fn with_label(mut self, label: &str) -> Self {
        self.label = Some(label.to_owned());
        self
    }

    /// Sets the UUID: `8-4-4-4-12` hexadecimal digits.
    #[must_use]
    pub fn with_uuid(mut self, uuid: &str) -> Self {
        self.uuid = Some(uuid.to_owned());
        self
    }

    /// Sets the bytes of a block, a power of two; for btrfs, of a sector.
    #[must_use]
    pub fn with_block_size(mut self, bytes: u32) -> Self {
        self.block_size = Some(bytes);
        self
    }

    /// Sets the bytes of an inode, a power of two. For ext and XFS.
    #[must_use]
    pub fn with_inode_size(mut self, bytes: u32) -> Self {
        self.inode_size = Some(bytes);
        self
    }

    /// Makes one inode for so many bytes of the device. For ext.
    #[must_use]
    pub fn with_bytes_per_inode(mut self, bytes: u32) -> Self {
        self.bytes_per_inode = Some(bytes);
        self
    }

    /// Reserves this share of the file system for root, in per cent, 50 at most. For ext.
    #[must_use]
    pub fn with_reserved_percent(mut self, percent: u32) -> Self {
        self.reserved_percent = Some(percent);
        self
    }

    /// Turns a feature on or off, by its name in the type's mkfs. The contract lists those that may
    /// be named.
    #[must_use]
    pub fn with_feature(mut self, name: &str, enabled: bool) -> Self {
        self.features.insert(name.to_owned(), enabled);
        self
    }

    /// Does not discard the device's blocks, which would release the space that is reserved below
    /// it.
    #[must_use]
    pub fn with_room_kept(mut self) -> Self {
        self.keep_room = true;
        self
    }

    fn handle(&self) -> backend::FormatOptions {
        let handle = backend::FormatOptions::new();
        self.label.iter().for_each(|label| handle.label(label));
        self.uuid.iter().for_each(|uuid| handle.uuid(uuid));
        self.block_size.iter().for_each(|bytes| handle.block_size(*bytes));
        self.inode_size.iter().for_each(|bytes| handle.inode_size(*bytes));
        self.bytes_per_inode.iter().for_each(|bytes| handle.bytes_per_inode(*bytes));
        self.reserved_percent.iter().for_each(|percent| handle.reserved_percent(*percent));
        self.features.iter().for_each(|(name, enabled)| handle.feature(name, *enabled));
        if self.keep_room {
            handle.keep_room();
        }
        handle
    }
}

/// Makes a file system on a blank device. A device with data is never formatted.
///
/// # Errors
/// [`Conflict`](crate::Error::Conflict) if the device contains anything,
/// [`Busy`](crate::Error::Busy) while a pod has it as a device, and as [`probe`],
/// [`InvalidArgument`](crate::Error::InvalidArgument) for an option that the type does not take,
/// [`Unsupported`](crate::Error::Unsupported) for another type; else with mkfs's own message.
pub fn format(device: &BlockDevice, fs_type: &str, options: &FormatOptions) -> Result<()> {
    backend::filesystems::format(&device.0, fs_type, &options.handle()).map_err(backend::error_in)
}

/// Mounts the device's file system, as a detached mount. With `read_only` nothing is written to the
/// device; else it is checked first, and repaired where that is safe. `options` are the file
/// system's own; per-mount options are set on the result.
///
/// # Errors
/// [`Corrupt`](crate::Error::Corrupt) if the check cannot repair it,
/// [`Conflict`](crate::Error::Conflict) if the device contains another type.
pub fn mount(
    device: &BlockDevice,
    fs_type: &str,
    options: &[(&str, Option<&str>)],
    read_only: bool,
) -> Result<DetachedMount> {
    let options: Vec<FsOption> = options
        .iter()
        .map(|(key, value)| FsOption { key: (*key).to_owned(), value: value.map(str::to_owned) })
        .collect();
    backend::filesystems::mount(&device.0, fs_type, &options, read_only)
        .map(DetachedMount::new)
        .map_err(backend::error_in)
}

/// Grows an ext file system that is not mounted to the size of its device, and returns its new size
/// in bytes. Large enough already: done. None if the type grows only while it is mounted: call
/// [`grow`] after [`mount`].
///
/// # Errors
/// [`Corrupt`](crate::Error::Corrupt) if the check that comes first finds damage that it cannot
/// repair, [`Conflict`](crate::Error::Conflict) if the device contains another type,
/// [`Busy`](crate::Error::Busy) while it is mounted or a pod has it as a device.
pub fn grow_unmounted(device: &BlockDevice, fs_type: &str) -> Result<Option<u64>> {
    backend::filesystems::grow_unmounted(&device.0, fs_type).map_err(backend::error_in)
}

/// Grows the file system that is mounted at the target to the size of its device, and returns its
/// new size in bytes.
///
/// # Errors
/// The error of the file system's own tool.
pub fn grow(device: &BlockDevice, target: &MountTarget<'_>) -> Result<u64> {
    backend::filesystems::grow(&device.0, target.0).map_err(backend::error_in)
}
