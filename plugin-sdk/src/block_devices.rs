//! Block devices of the node, within what the operator granted.
//!
//! A plugin that calls this needs the grant `block-devices`; one that does not call it does not
//! request it.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! # let host = volhost_plugin_sdk::testing::TestHost::new();
//! # host.disk_device("/dev/sdb", 1 << 30).grant_devices("/dev/sdb");
//! let device = block_devices::open("/dev/sdb")?;
//! assert_eq!(device.size()?, 1 << 30);
//! # Ok::<(), Error>(())
//! ```

use crate::backend;
use crate::devices::BlockDevice;
use crate::error::Result;

/// Opens the device node at an absolute path, following symbolic links. The result must lie within
/// the grant.
///
/// # Errors
/// [`NotFound`](crate::Error::NotFound), [`Conflict`](crate::Error::Conflict) when it is not a
/// block device, [`PermissionDenied`](crate::Error::PermissionDenied) outside the grant; else the
/// kernel's error.
pub fn open(path: &str) -> Result<BlockDevice> {
    backend::block_devices::open(path).map(BlockDevice::new).map_err(backend::error_in)
}
