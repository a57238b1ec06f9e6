//! Logical units of Fibre Channel targets as block devices.
//!
//! A plugin that calls one of these needs the grant `fc-targets`; one that calls none does not
//! request it.
//!
//! ```
//! use volhost_plugin_sdk::fc_devices::FcUnit;
//! use volhost_plugin_sdk::prelude::*;
//! # let host = volhost_plugin_sdk::testing::TestHost::new();
//! # host.fc_unit("50060e801049cfd1", 3, 1 << 30);
//! let unit = FcUnit::at_ports(["50060e801049cfd1", "50060e801049cfd2"], 3);
//! let device = unit.connect()?;
//! assert_eq!(device.size()?, 1 << 30);
//! // After the target has enlarged it:
//! let device = unit.rescan()?;
//! # let _ = device;
//! unit.disconnect()?;
//! # let named = FcUnit::named(["3600508b400105e210000900000490000"]);
//! # assert!(named.connect().is_err());
//! # Ok::<(), Error>(())
//! ```

use crate::backend;
use crate::devices::BlockDevice;
use crate::error::Result;

/// A logical unit, and how it is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FcUnit {
    names: Vec<String>,
    lun: Option<u32>,
}

impl FcUnit {
    /// The unit of this number, at most 255, at the ports of these names (WWNs): 16 hexadecimal
    /// digits, with or without `0x`. At most 16 ports, each another path.
    #[must_use]
    pub fn at_ports<S: Into<String>>(ports: impl IntoIterator<Item = S>, lun: u32) -> Self {
        Self { names: ports.into_iter().map(Into::into).collect(), lun: Some(lun) }
    }

    /// The unit that gives itself one of these names (WWIDs), as udev writes them behind `scsi-` in
    /// `/dev/disk/by-id`. At most 16.
    #[must_use]
    pub fn named<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self { names: names.into_iter().map(Into::into).collect(), lun: None }
    }

    /// Returns the unit's device, which the node's adapters look for if a path to it is missing: a
    /// multipath map over its paths, or the device of one. May be repeated.
    ///
    /// # Errors
    /// [`Retryable`](crate::Error::Retryable) when no adapter sees the port,
    /// [`NotFound`](crate::Error::NotFound) when the target does not show the unit,
    /// [`Precondition`](crate::Error::Precondition) when the node has no adapter,
    /// [`PermissionDenied`](crate::Error::PermissionDenied) for a name that is not granted,
    /// [`InvalidArgument`](crate::Error::InvalidArgument) for a name or number that no unit has.
    pub fn connect(&self) -> Result<BlockDevice> {
        backend::fc_devices::connect(&self.names, self.lun).map(BlockDevice::new).map_err(backend::error_in)
    }

    /// Asks the target for the unit's size, and returns the device.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when the node does not have the unit.
    pub fn rescan(&self) -> Result<BlockDevice> {
        backend::fc_devices::rescan(&self.names, self.lun).map(BlockDevice::new).map_err(backend::error_in)
    }

    /// Removes the unit's devices from the node, after what was written to them is flushed. Nothing
    /// to remove: done.
    ///
    /// # Errors
    /// [`Busy`](crate::Error::Busy) while a device is mounted or open exclusively.
    pub fn disconnect(&self) -> Result<()> {
        backend::fc_devices::disconnect(&self.names, self.lun).map_err(backend::error_in)
    }
}
