//! Block devices of the node, within what the operator granted.
//!
//! A plugin that calls this needs the grant `block-devices`; one that does not, does not ask for
//! it.
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

/// Opens the device whose node stands at an absolute path, following symbolic links. What they lead
/// to must lie within the grant.
///
/// # Errors
/// [`NotFound`](crate::Error::NotFound), [`Conflict`](crate::Error::Conflict) when it is no block device,
/// [`PermissionDenied`](crate::Error::PermissionDenied) outside the grant; else as the kernel says.
pub fn open(path: &str) -> Result<BlockDevice> {
    backend::block_devices::open(path).map(BlockDevice::new).map_err(backend::error_in)
}
