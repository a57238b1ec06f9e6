//! The failures of a portal, and which one counts.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use thiserror::Error;
use volhost_model::iscsi::{IscsiError, LogicalUnit};
use volhost_scsi::ScsiError;

/// A step at one portal failed.
#[derive(Debug, Error)]
pub(crate) enum PortalError {
    /// It takes no connection.
    #[error("no target answers: {0}")]
    Unreachable(#[source] io::Error),
    /// open-iscsi is not installed.
    #[error("iscsiadm is not on this node; install open-iscsi (iscsi-initiator-utils)")]
    NoProgram,
    /// Its daemon does not run.
    #[error("iscsid does not run on this node; start it (`systemctl start iscsid`): {0}")]
    NoDaemon(String),
    /// The program could not be run.
    #[error("{0} cannot be run: {1}")]
    Run(&'static str, #[source] io::Error),
    /// The program did not end.
    #[error("iscsiadm did not {0} within {1} s, and was killed")]
    Deadline(&'static str, u64),
    /// The target wants other credentials.
    #[error(
        "the target refuses the login of this node: wrong or missing CHAP credentials, or none of its ACLs has the initiator ({0})"
    )]
    Refused(String),
    /// The portal lists its targets, and this is none of them.
    #[error("the portal has no such target; it has {0}")]
    NoTarget(String),
    /// The target lacks the unit.
    #[error("the target has no LUN {0} for this node")]
    NoUnit(u32),
    /// The program failed in another way.
    #[error("iscsiadm cannot {step}: {words}")]
    Failed {
        /// The step.
        step: &'static str,
        /// Its exit code and messages.
        words: String,
    },
    /// A session exists, and its connection does not.
    #[error("its session is {0} and waits for the target")]
    Recovering(String),
    /// open-iscsi did not keep the portal.
    #[error("open-iscsi has kept no record of the portal in {0}")]
    NoRecord(String),
    /// A file of open-iscsi.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// The kernel's table is not as documented.
    #[error("{}: it has no {what}", path.display())]
    Sysfs {
        /// The folder.
        path: PathBuf,
        /// What it lacks.
        what: &'static str,
    },
    /// A step on the unit.
    #[error(transparent)]
    Unit(#[from] ScsiError),
}

impl PortalError {
    /// Makes the error of a file.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }

    /// How much it says: what a person has to repair counts more than what may pass.
    fn weight(&self) -> u8 {
        match self {
            Self::NoProgram | Self::NoDaemon(_) => 4,
            Self::Refused(_) => 3,
            Self::Unit(ScsiError::InUse(_)) => 2,
            Self::NoTarget(_) | Self::NoUnit(_) => 1,
            _ => 0,
        }
    }
}

/// The error of a unit from those of its portals.
pub(crate) fn combined(unit: &LogicalUnit, failures: &[(SocketAddr, PortalError)]) -> IscsiError {
    let each: Vec<String> = failures.iter().map(|(portal, error)| format!("portal {portal}: {error}")).collect();
    let text = format!("{unit}: {}", each.join("; "));
    let first = failures.iter().map(|(_, error)| error).max_by_key(|error| error.weight());
    match first {
        Some(PortalError::NoProgram | PortalError::NoDaemon(_)) => IscsiError::NotReady(text),
        Some(PortalError::Refused(_)) => IscsiError::Refused(text),
        Some(PortalError::Unit(ScsiError::InUse(_))) => IscsiError::Busy(text),
        Some(PortalError::NoTarget(_) | PortalError::NoUnit(_)) => IscsiError::NotFound(text),
        _ => IscsiError::Retryable(text),
    }
}

/// The error of a unit from that of the multipath map over its paths.
pub(crate) fn of_map(unit: &LogicalUnit, error: &PortalError) -> IscsiError {
    let text = format!("{unit}: {error}");
    match error {
        PortalError::Unit(ScsiError::NoMultipath) => IscsiError::NotReady(text),
        PortalError::Unit(ScsiError::InUse(_)) => IscsiError::Busy(text),
        _ => IscsiError::Retryable(text),
    }
}
