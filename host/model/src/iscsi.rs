//! Logical units of iSCSI targets as block devices of this node. The node implements the calls.

use std::fmt::{self, Debug};
use std::net::SocketAddr;

use thiserror::Error;

use crate::objects::Bytes;
use crate::scsi::UnitDevice;

/// A logical unit of a target, and the way to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogicalUnit {
    /// The target's name, such as `iqn.2003-01.com.example:disk`.
    pub target: String,
    /// The number of the unit in the target.
    pub lun: u32,
    /// Where the target answers: at least one.
    pub portals: Vec<SocketAddr>,
    /// The initiator interface of open-iscsi (`default`, or one that binds sessions to hardware).
    pub interface: String,
    /// The initiator name to log in with; none is the node's.
    pub initiator: Option<String>,
}

impl fmt::Display for LogicalUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LUN {} of {}", self.lun, self.target)
    }
}

/// The most that a field of a unit may have.
const TARGET_BYTES: usize = 223;
const INTERFACE_BYTES: usize = 64;
/// The highest number of a unit, as in Kubernetes.
const LAST_LUN: u32 = 255;
/// How names of targets and initiators begin.
const NAME_TYPES: [&str; 3] = ["iqn.", "eui.", "naa."];
/// The interface that every node has.
pub const DEFAULT_INTERFACE: &str = "default";

/// A field of a unit that no initiator may get.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnitError {
    /// A name of a target or initiator.
    #[error(
        "the {0} must be an iSCSI name: `iqn.`, `eui.` or `naa.`, then letters, digits, `-`, `.`, `:` and `_`, without `..`, of 223 bytes at the most"
    )]
    Name(&'static str),
    /// The unit's number.
    #[error("a unit's number must be at most 255")]
    Lun,
    /// No portal.
    #[error("the target needs a portal")]
    NoPortal,
    /// The interface.
    #[error(
        "the initiator interface must begin with a letter or digit, with letters, digits, `-`, `.`, `:` and `_`, without `..`, of 64 bytes at the most"
    )]
    Interface,
    /// An initiator name for an interface that has its own.
    #[error(
        "an initiator name can be set for the interface `default` alone; give the interface {0} its name by `iface.initiatorname`"
    )]
    InitiatorOfInterface(String),
}

/// What is one word of a path, of an argument and of a record.
fn is_plain(text: &str, most: usize) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    text.len() <= most
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(plain)
        && !text.contains("..")
}

/// Returns whether this is the name of a target or initiator.
#[must_use]
pub fn is_iscsi_name(name: &str) -> bool {
    let rest = NAME_TYPES.iter().find_map(|begin| name.strip_prefix(begin));
    rest.is_some_and(|rest| !rest.is_empty()) && is_plain(name, TARGET_BYTES)
}

impl LogicalUnit {
    /// Checks every field: each becomes a part of a path and of an argument.
    ///
    /// # Errors
    /// [`UnitError`], for the first that is refused.
    pub fn check(&self) -> Result<(), UnitError> {
        if !is_iscsi_name(&self.target) {
            return Err(UnitError::Name("target"));
        }
        if self.lun > LAST_LUN {
            return Err(UnitError::Lun);
        }
        if self.portals.is_empty() {
            return Err(UnitError::NoPortal);
        }
        if !is_plain(&self.interface, INTERFACE_BYTES) {
            return Err(UnitError::Interface);
        }
        match &self.initiator {
            Some(initiator) if !is_iscsi_name(initiator) => Err(UnitError::Name("initiator name")),
            Some(_) if self.interface != DEFAULT_INTERFACE => {
                Err(UnitError::InitiatorOfInterface(self.interface.clone()))
            }
            _ => Ok(()),
        }
    }
}

/// User and password of one direction of CHAP.
#[derive(Clone, PartialEq, Eq)]
pub struct ChapUser {
    /// The user's name.
    pub name: Bytes,
    /// The password.
    pub password: Bytes,
}

impl Debug for ChapUser {
    /// Without what it says (rule R10).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChapUser")
    }
}

/// How a session authenticates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chap {
    /// This node to the target.
    pub node: ChapUser,
    /// The target to this node; none: it need not.
    pub target: Option<ChapUser>,
}

/// A step on a logical unit failed. The text is for the person who reads the pod's events, and
/// contains no secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum IscsiError {
    /// The portals do not have the target, or the target not the unit.
    #[error("{0}")]
    NotFound(String),
    /// The target refuses this node.
    #[error("{0}")]
    Refused(String),
    /// This node lacks what it takes.
    #[error("{0}")]
    NotReady(String),
    /// A value that open-iscsi cannot keep.
    #[error("{0}")]
    Invalid(String),
    /// The unit's device is used.
    #[error("{0}")]
    Busy(String),
    /// No portal answers, or another failure that may pass.
    #[error("{0}")]
    Retryable(String),
}

/// Sessions with iSCSI targets. Called from threads that run calls, many at once.
pub trait IscsiSessions: Send + Sync + Debug {
    /// Makes sure that there are sessions with the portals that answer, and returns the unit's
    /// device. Every call may come again.
    ///
    /// # Errors
    /// [`IscsiError`]; when not one portal leads to the unit.
    fn connect(&self, unit: &LogicalUnit, chap: Option<&Chap>) -> Result<UnitDevice, IscsiError>;

    /// Asks the target for the unit's size, on each path, and returns the unit's device.
    ///
    /// # Errors
    /// [`IscsiError::NotFound`] when the unit is not connected.
    fn rescan(&self, unit: &LogicalUnit) -> Result<UnitDevice, IscsiError>;

    /// Removes the unit's devices, and ends each of its sessions that has no other unit. What does
    /// not exist is removed already.
    ///
    /// # Errors
    /// [`IscsiError::Busy`] while the device is mounted or open exclusively.
    fn disconnect(&self, unit: &LogicalUnit) -> Result<(), IscsiError>;

    /// Returns the sessions of the node and the units that they show, in words, one each: for
    /// comparing two moments.
    ///
    /// # Errors
    /// [`IscsiError::Retryable`] when the kernel's table cannot be read.
    fn connected(&self) -> Result<Vec<String>, IscsiError>;
}

/// No sessions: where the host makes none.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSessions;

impl NoSessions {
    fn none<T>() -> Result<T, IscsiError> {
        Err(IscsiError::NotReady("this host makes no iSCSI sessions".to_owned()))
    }
}

impl IscsiSessions for NoSessions {
    fn connect(&self, _: &LogicalUnit, _: Option<&Chap>) -> Result<UnitDevice, IscsiError> {
        Self::none()
    }

    fn rescan(&self, _: &LogicalUnit) -> Result<UnitDevice, IscsiError> {
        Self::none()
    }

    fn disconnect(&self, _: &LogicalUnit) -> Result<(), IscsiError> {
        Self::none()
    }

    fn connected(&self) -> Result<Vec<String>, IscsiError> {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit() -> LogicalUnit {
        LogicalUnit {
            target: "iqn.2003-01.org.example:disk_1".to_owned(),
            lun: 255,
            portals: vec![SocketAddr::from(([192, 0, 2, 1], 3260))],
            interface: DEFAULT_INTERFACE.to_owned(),
            initiator: None,
        }
    }

    #[test]
    fn what_would_be_another_path_argument_or_line_is_refused() {
        unit().check().unwrap();
        let long = format!("iqn.{}", "a".repeat(220));
        for bad in [
            "",
            "iqn.",
            "disk",
            "-iqn.a",
            "iqn./a",
            "iqn.a/../b",
            "iqn.a..b",
            "iqn.a\nb",
            "iqn.a b",
            "iqn.a,b",
            "iqn.a'",
            "iqn.a\"",
            &long,
        ] {
            let target = LogicalUnit { target: bad.to_owned(), ..unit() };
            assert_eq!(target.check(), Err(UnitError::Name("target")), "{bad:?}");
            let initiator = LogicalUnit { initiator: Some(bad.to_owned()), ..unit() };
            assert_eq!(initiator.check(), Err(UnitError::Name("initiator name")), "{bad:?}");
        }
        for bad in ["", "-I", "..", "a/b", ".a", "a\nb", "a b", &"a".repeat(65)] {
            let interface = LogicalUnit { interface: bad.to_owned(), ..unit() };
            assert_eq!(interface.check(), Err(UnitError::Interface), "{bad:?}");
        }
        assert_eq!(LogicalUnit { lun: 256, ..unit() }.check(), Err(UnitError::Lun));
        assert_eq!(LogicalUnit { portals: Vec::new(), ..unit() }.check(), Err(UnitError::NoPortal));
        let initiator = Some("iqn.a:b".to_owned());
        let named = LogicalUnit { interface: "bnx2i".to_owned(), initiator: initiator.clone(), ..unit() };
        assert!(matches!(named.check(), Err(UnitError::InitiatorOfInterface(_))));
        LogicalUnit { initiator, ..unit() }.check().unwrap();
    }

    #[test]
    fn nothing_shows_a_password() {
        let user = ChapUser { name: b"node".as_slice().into(), password: b"hunter2".as_slice().into() };
        let text = format!("{:?}", Chap { node: user.clone(), target: Some(user) });
        assert!(!text.contains("hunter2") && !text.contains("104"), "{text}");
    }
}
