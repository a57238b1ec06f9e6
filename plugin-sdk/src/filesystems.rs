//! File systems on block devices: `ext2`, `ext3`, `ext4`, `xfs`, `btrfs`.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! # let host = volhost_plugin_sdk::testing::TestHost::new();
//! # host.disk_device("/dev/sdb", 1 << 30).grant_devices("/dev/sdb");
//! # let target = host.target("data");
//! # let target = target.handle();
//! let device = block_devices::open("/dev/sdb")?;
//! // What has data is never formatted.
//! if filesystems::probe(&device)?.is_none() {
//!     filesystems::format(&device, "ext4", &[])?;
//! }
//! target.attach(filesystems::mount(&device, "ext4", &[("noatime", None)], false)?)?;
//! // Later, when the device has grown:
//! let bytes = filesystems::grow(&device, &target)?;
//! # assert_eq!(bytes, 1 << 30);
//! # Ok::<(), Error>(())
//! ```

use crate::backend::{self, FsOption};
use crate::devices::BlockDevice;
use crate::error::Result;
use crate::mounts::{DetachedMount, MountTarget};

/// What the device holds: a file-system type, `partitions`, another word for what is neither, or none when it is blank.
///
/// # Errors
/// A device that cannot be read is an error, never blank.
pub fn probe(device: &BlockDevice) -> Result<Option<String>> {
    backend::filesystems::probe(&device.0).map_err(backend::error_in)
}

/// Makes a file system on a blank device. What has data is never formatted.
///
/// # Errors
/// [`Conflict`](crate::Error::Conflict) if it holds anything, [`Unsupported`](crate::Error::Unsupported) for another type; else in
/// mkfs's words.
pub fn format(device: &BlockDevice, fs_type: &str, options: &[&str]) -> Result<()> {
    let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
    backend::filesystems::format(&device.0, fs_type, &options).map_err(backend::error_in)
}

/// Mounts the device's file system, unseen until attached. With `read_only` nothing is written to the device; else it is checked first.
/// `options` are the file system's own; per-mount options are set on the result.
///
/// # Errors
/// [`Corrupt`](crate::Error::Corrupt) if the check cannot repair it, [`Conflict`](crate::Error::Conflict) if it holds another type.
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

/// Grows the file system that is mounted at the target to the size of its device, and returns its new size in bytes.
///
/// # Errors
/// As the file system's own tool says.
pub fn grow(device: &BlockDevice, target: &MountTarget<'_>) -> Result<u64> {
    backend::filesystems::grow(&device.0, target.0).map_err(backend::error_in)
}
