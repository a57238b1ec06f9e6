//! Logical units of iSCSI targets as block devices.
//!
//! A plugin that calls this needs the grant `iscsi-portals`; one that does not call it does not
//! request it.
//!
//! ```
//! use volhost_plugin_sdk::iscsi_sessions::LogicalUnit;
//! use volhost_plugin_sdk::objects::{Keyed, Secret};
//! use volhost_plugin_sdk::prelude::*;
//! # let host = volhost_plugin_sdk::testing::TestHost::new();
//! # host.iscsi_target("192.0.2.1", 3260, "iqn.2003-01.org.example:disk").iscsi_unit("iqn.2003-01.org.example:disk", 0, 1 << 30);
//! let unit = LogicalUnit::new("iqn.2003-01.org.example:disk", 0);
//! unit.add_portal("192.0.2.1", 3260)?;
//! unit.set_interface("default");
//! let device = unit.connect()?;
//! assert_eq!(device.size()?, 1 << 30);
//! // After the target has enlarged it:
//! let device = unit.rescan()?;
//! # let _ = device;
//! unit.disconnect()?;
//!
//! /// Sets what a secret has for both directions of CHAP.
//! fn authenticate(unit: &LogicalUnit, secret: &Secret) {
//!     let value = |key: &str| secret.content(key);
//!     if let (Some(name), Some(password)) = (value("name"), value("password")) {
//!         unit.authenticate(&name, &password);
//!     }
//!     if let (Some(name), Some(password)) = (value("target-name"), value("target-password")) {
//!         unit.authenticate_target(&name, &password);
//!     }
//!     // The target may know the node by another name than its own.
//!     unit.set_initiator("iqn.2003-01.org.example:node");
//! }
//! # let _ = authenticate;
//! # Ok::<(), Error>(())
//! ```

use std::fmt;

use crate::backend;
use crate::devices::BlockDevice;
use crate::error::Result;
use crate::files::Content;

/// A logical unit of a target, and the way to it. [`Secret::of_mount`](crate::objects::Secret) has
/// the names and passwords of CHAP.
pub struct LogicalUnit(backend::LogicalUnit);

impl LogicalUnit {
    /// The unit of this number, at most 255, of the target of this name.
    #[must_use]
    pub fn new(target: &str, lun: u32) -> Self {
        Self(backend::LogicalUnit::new(target, lun))
    }

    /// Adds a portal of the target, at most 16: an IP address, IPv6 without brackets, and a port.
    ///
    /// # Errors
    /// [`PermissionDenied`](crate::Error::PermissionDenied) for one that is not granted,
    /// [`InvalidArgument`](crate::Error::InvalidArgument) for a host name.
    pub fn add_portal(&self, address: &str, port: u16) -> Result<()> {
        self.0.portal(address, port).map_err(backend::error_in)
    }

    /// Sets the initiator interface, by open-iscsi's name; without this, `default`.
    pub fn set_interface(&self, name: &str) {
        self.0.initiator_interface(name);
    }

    /// Sets the initiator name to log in with; without this, the node's. Only with the interface
    /// `default`.
    pub fn set_initiator(&self, name: &str) {
        self.0.initiator_name(name);
    }

    /// Sets the CHAP name and password of this node.
    pub fn authenticate(&self, name: &Content, password: &Content) {
        self.0.authenticate(name.handle(), password.handle());
    }

    /// Sets the CHAP name and password that the target has to know, too.
    pub fn authenticate_target(&self, name: &Content, password: &Content) {
        self.0.authenticate_target(name.handle(), password.handle());
    }

    /// Logs in to each portal that answers, unless there is a session, and returns the unit's
    /// device. One portal that leads to the unit is enough. May be repeated.
    ///
    /// # Errors
    /// [`Retryable`](crate::Error::Retryable) when no portal answers,
    /// [`PermissionDenied`](crate::Error::PermissionDenied) when the target refuses the login,
    /// [`NotFound`](crate::Error::NotFound) when the portals lack the target, or the target the
    /// unit, [`Precondition`](crate::Error::Precondition) when the node has no initiator,
    /// [`InvalidArgument`](crate::Error::InvalidArgument) for a field that no initiator may get.
    pub fn connect(&self) -> Result<BlockDevice> {
        self.0.connect().map(BlockDevice::new).map_err(backend::error_in)
    }

    /// Asks the target for the unit's size, and returns the device.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when it is not connected.
    pub fn rescan(&self) -> Result<BlockDevice> {
        self.0.rescan().map(BlockDevice::new).map_err(backend::error_in)
    }

    /// Removes the unit's devices, and logs out of each session that has no other unit. Nothing to
    /// remove: done. Sessions that volhost did not make stay.
    ///
    /// # Errors
    /// [`Busy`](crate::Error::Busy) while a device is mounted or open exclusively.
    pub fn disconnect(&self) -> Result<()> {
        self.0.disconnect().map_err(backend::error_in)
    }
}

impl fmt::Debug for LogicalUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogicalUnit")
    }
}
