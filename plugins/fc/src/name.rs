//! What leads to a unit, which is also the volume's name.

use core::fmt;

use volhost_plugin_sdk::fc_devices::FcUnit;
use volhost_plugin_sdk::prelude::*;

/// How the name of a unit begins that is found by its own name.
const NAMED: &str = "wwid";
/// How the name of a unit begins that is found by ports.
const AT_PORTS: &str = "wwn";

/// A unit. Its text is `wwn PORT,PORT LUN` or `wwid NAME,NAME`: no name has a blank or a comma. The
/// names are sorted, each once: the order in which a volume has them does not make another unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UnitName {
    /// By its target's ports and its number there.
    AtPorts(Vec<String>, u32),
    /// By a name that it gives itself.
    Named(Vec<String>),
}

impl fmt::Display for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtPorts(ports, lun) => write!(f, "{AT_PORTS} {} {lun}", ports.join(",")),
            Self::Named(names) => write!(f, "{NAMED} {}", names.join(",")),
        }
    }
}

impl UnitName {
    /// A unit at these ports.
    pub(crate) fn at_ports(ports: Vec<String>, lun: u32) -> Self {
        Self::AtPorts(each_once(ports), lun)
    }

    /// A unit with one of these names.
    pub(crate) fn named(names: Vec<String>) -> Self {
        Self::Named(each_once(names))
    }

    /// Reads the volume's name.
    ///
    /// # Errors
    /// `invalid-argument` for a name that this plugin did not give.
    pub(crate) fn parse(name: &str) -> Result<Self> {
        let wrong = || Error::invalid_argument(format!("{} is no name of an fc volume", quoted(name)));
        let words: Vec<&str> = name.split(' ').collect();
        let list = |names: &str| names.split(',').map(str::to_owned).collect();
        match words.as_slice() {
            [AT_PORTS, ports, lun] => Ok(Self::AtPorts(list(ports), lun.parse().map_err(|_| wrong())?)),
            [NAMED, names] => Ok(Self::Named(list(names))),
            _ => Err(wrong()),
        }
    }

    fn unit(&self) -> FcUnit {
        match self {
            Self::AtPorts(ports, lun) => FcUnit::at_ports(ports.clone(), *lun),
            Self::Named(names) => FcUnit::named(names.clone()),
        }
    }

    pub(crate) fn connect(&self) -> Result<BlockDevice> {
        self.unit().connect().context("fc")
    }

    pub(crate) fn rescan(&self) -> Result<BlockDevice> {
        self.unit().rescan().context("fc")
    }

    pub(crate) fn disconnect(&self) -> Result<()> {
        self.unit().disconnect()
    }

    /// Disconnects the unit again after a failure. A failure that leaves it connected is uncertain.
    pub(crate) fn undone(&self, error: Error) -> Error {
        match self.disconnect() {
            // The one that uses it undoes it.
            Ok(()) | Err(Error::Busy(_)) => error,
            Err(kept) => Error::uncertain(format!("{error}; and {self} stays connected: {kept}")),
        }
    }
}

fn each_once(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names.dedup();
    names
}
