//! What leads to a unit, which is also the volume's name.

use core::fmt;
use core::net::SocketAddr;

use volhost_plugin_sdk::iscsi_sessions::LogicalUnit;
use volhost_plugin_sdk::prelude::*;

/// Stands in a name for the node's initiator name.
const NO_INITIATOR: &str = "-";

/// A unit, and the way to it. Its text is `TARGET LUN PORTAL,PORTAL INTERFACE INITIATOR`: none of
/// them has a blank, and no portal a comma.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Connection {
    pub(crate) target: String,
    pub(crate) lun: u32,
    /// Each once, the one of `targetPortal` first.
    pub(crate) portals: Vec<SocketAddr>,
    pub(crate) interface: String,
    pub(crate) initiator: Option<String>,
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let portals: Vec<String> = self.portals.iter().map(ToString::to_string).collect();
        let initiator = self.initiator.as_deref().unwrap_or(NO_INITIATOR);
        write!(f, "{} {} {} {} {initiator}", self.target, self.lun, portals.join(","), self.interface)
    }
}

impl Connection {
    /// Reads the volume's name.
    ///
    /// # Errors
    /// `invalid-argument` for a name that this plugin did not give.
    pub(crate) fn named(name: &str) -> Result<Self> {
        let wrong = || Error::invalid_argument(format!("{} is no name of an iscsi volume", quoted(name)));
        let words: Vec<&str> = name.split(' ').collect();
        let [target, lun, portals, interface, initiator] = words.as_slice() else { return Err(wrong()) };
        let portals: core::result::Result<Vec<SocketAddr>, _> = portals.split(',').map(str::parse).collect();
        Ok(Self {
            target: (*target).to_owned(),
            lun: lun.parse().map_err(|_| wrong())?,
            portals: portals.map_err(|_| wrong())?,
            interface: (*interface).to_owned(),
            initiator: (*initiator != NO_INITIATOR).then(|| (*initiator).to_owned()),
        })
    }

    /// The unit for the host's calls.
    pub(crate) fn unit(&self) -> Result<LogicalUnit> {
        let unit = LogicalUnit::new(&self.target, self.lun);
        for portal in &self.portals {
            unit.add_portal(&portal.ip().to_string(), portal.port()).context("iscsi")?;
        }
        unit.set_interface(&self.interface);
        if let Some(initiator) = &self.initiator {
            unit.set_initiator(initiator);
        }
        Ok(unit)
    }

    /// Disconnects the unit again after a failure. A failure that leaves it connected is uncertain.
    pub(crate) fn undone(&self, error: Error) -> Error {
        match self.unit().and_then(|unit| unit.disconnect()) {
            // The one that uses it undoes it.
            Ok(()) | Err(Error::Busy(_)) => error,
            Err(kept) => Error::uncertain(format!("{error}; and {self} stays connected: {kept}")),
        }
    }
}
