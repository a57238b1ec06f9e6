//! Logical units of Fibre Channel targets as block devices of this node. The node implements the
//! calls.

use std::fmt::{self, Debug};

use thiserror::Error;

use crate::scsi::UnitDevice;

/// The most names of a unit.
const MOST_NAMES: usize = 16;
/// The longest name that a unit gives itself, in bytes: longer ones are no file names.
const NAME_BYTES: usize = 200;
/// The digits of a port's name.
const PORT_DIGITS: usize = 16;
/// The highest number of a unit, as in Kubernetes.
const LAST_LUN: u32 = 255;

/// A logical unit, and how it is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FcUnit {
    /// By the ports of its target, and its number there.
    AtPorts {
        /// The ports' names (WWPNs): 16 hexadecimal digits in lower case, each once, sorted.
        ports: Vec<String>,
        /// The unit's number.
        lun: u32,
    },
    /// By a name that the unit gives itself (WWID), as udev writes it behind `scsi-` in
    /// `/dev/disk/by-id`. Each once, sorted.
    Named(Vec<String>),
}

/// A name or number that no unit has.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FcUnitError {
    /// No name, or too many.
    #[error("a unit is found by 1 to {MOST_NAMES} names")]
    Names,
    /// A port's name.
    #[error("the name of a port must have {PORT_DIGITS} hexadecimal digits, with or without `0x`")]
    Port,
    /// A unit's name.
    #[error(
        "the name of a unit must begin with a letter or digit, with letters, digits, `-`, `.`, `:`, `_`, `+` and `=`, of {NAME_BYTES} bytes at the most"
    )]
    Name,
    /// The unit's number.
    #[error("a unit's number must be at most {LAST_LUN}")]
    Lun,
}

/// Returns a port's name in the form that sysfs has, without `0x`; none if it is no such name.
#[must_use]
pub fn port_name(text: &str) -> Option<String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    let right = digits.len() == PORT_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    right.then(|| digits.to_ascii_lowercase())
}

/// Returns a unit's name as udev writes it, each blank as `_`; none if it is no such name.
#[must_use]
pub fn unit_name(text: &str) -> Option<String> {
    let name = text.replace(' ', "_");
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:+=".contains(c);
    let right = name.len() <= NAME_BYTES
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(plain)
        && !name.contains("..");
    right.then_some(name)
}

impl FcUnit {
    /// Checks the names and the number: with a number the names are those of ports, without one the
    /// unit's own.
    ///
    /// # Errors
    /// [`FcUnitError`], for the first that is refused.
    pub fn new(names: &[String], lun: Option<u32>) -> Result<Self, FcUnitError> {
        if names.is_empty() || names.len() > MOST_NAMES {
            return Err(FcUnitError::Names);
        }
        let checked = |check: fn(&str) -> Option<String>, wrong: FcUnitError| {
            let mut checked: Vec<String> = names.iter().map(|name| check(name)).collect::<Option<_>>().ok_or(wrong)?;
            checked.sort();
            checked.dedup();
            Ok(checked)
        };
        match lun {
            Some(lun) if lun > LAST_LUN => Err(FcUnitError::Lun),
            Some(lun) => Ok(Self::AtPorts { ports: checked(port_name, FcUnitError::Port)?, lun }),
            None => Ok(Self::Named(checked(unit_name, FcUnitError::Name)?)),
        }
    }

    /// Returns the names.
    #[must_use]
    pub fn names(&self) -> &[String] {
        match self {
            Self::AtPorts { ports, .. } => ports,
            Self::Named(names) => names,
        }
    }
}

impl fmt::Display for FcUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtPorts { ports, lun } => write!(f, "LUN {lun} of FC port {}", ports.join(", ")),
            Self::Named(names) => write!(f, "FC unit {}", names.join(", ")),
        }
    }
}

/// A step on a unit failed. The text is for the person who reads the pod's events.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FcError {
    /// The target does not have the unit.
    #[error("{0}")]
    NotFound(String),
    /// This node lacks what it takes.
    #[error("{0}")]
    NotReady(String),
    /// The unit's device is used.
    #[error("{0}")]
    Busy(String),
    /// No port of the target is seen, or another failure that may pass.
    #[error("{0}")]
    Retryable(String),
}

/// The Fibre Channel host adapters of the node. Called from threads that run calls, many at once.
pub trait FcDevices: Send + Sync + Debug {
    /// Looks for the unit if the node does not have it, and returns its device. Every call may come
    /// again.
    ///
    /// # Errors
    /// [`FcError`]; when no path leads to the unit.
    fn connect(&self, unit: &FcUnit) -> Result<UnitDevice, FcError>;

    /// Asks the target for the unit's size, on each path, and returns the unit's device.
    ///
    /// # Errors
    /// [`FcError::NotFound`] when the node does not have the unit.
    fn rescan(&self, unit: &FcUnit) -> Result<UnitDevice, FcError>;

    /// Removes the unit's devices from the node, each path's and the multipath map over them. What
    /// does not exist is removed already.
    ///
    /// # Errors
    /// [`FcError::Busy`] while the device is mounted or open exclusively.
    fn disconnect(&self, unit: &FcUnit) -> Result<(), FcError>;

    /// Returns the units that the node has, by each path, in words: for comparing two moments.
    ///
    /// # Errors
    /// [`FcError::Retryable`] when the kernel's table cannot be read.
    fn connected(&self) -> Result<Vec<String>, FcError>;
}

/// No adapters: where the host uses none.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoAdapters;

impl NoAdapters {
    fn none<T>() -> Result<T, FcError> {
        Err(FcError::NotReady("this host uses no Fibre Channel adapters".to_owned()))
    }
}

impl FcDevices for NoAdapters {
    fn connect(&self, _: &FcUnit) -> Result<UnitDevice, FcError> {
        Self::none()
    }

    fn rescan(&self, _: &FcUnit) -> Result<UnitDevice, FcError> {
        Self::none()
    }

    fn disconnect(&self, _: &FcUnit) -> Result<(), FcError> {
        Self::none()
    }

    fn connected(&self) -> Result<Vec<String>, FcError> {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(names: &[&str], lun: Option<u32>) -> Result<FcUnit, FcUnitError> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        FcUnit::new(&names, lun)
    }

    #[test]
    fn a_port_is_the_same_however_its_name_is_written() {
        let ports = ["0x50060E801049CFD1", "50060e801049cfd1", "50060e801049cfd0"];
        let unit = new(&ports, Some(255)).unwrap();
        assert_eq!(unit.names(), ["50060e801049cfd0", "50060e801049cfd1"]);
        for bad in ["", "0x", "50060e801049cfd", "50060e801049cfd12", "50060e801049cfdg", "../../etc/passwd", "*"] {
            assert_eq!(new(&[bad], Some(0)), Err(FcUnitError::Port), "{bad:?}");
        }
        assert_eq!(new(&ports, Some(256)), Err(FcUnitError::Lun));
        assert_eq!(new(&[], Some(0)), Err(FcUnitError::Names));
        assert_eq!(new(&["50060e801049cfd1"; 17], Some(0)), Err(FcUnitError::Names));
    }

    #[test]
    fn a_units_name_is_one_file_name() {
        let unit = new(&["3600508b400105e210000900000490000", "ACME IDENT-1"], None).unwrap();
        assert_eq!(unit.names(), ["3600508b400105e210000900000490000", "ACME_IDENT-1"]);
        let long = "3".repeat(201);
        for bad in ["", "..", "a/b", "../a", "a..b", " a", "-a", "a\nb", "a*", "\u{e9}", &long] {
            assert_eq!(new(&[bad], None), Err(FcUnitError::Name), "{bad:?}");
        }
    }
}
