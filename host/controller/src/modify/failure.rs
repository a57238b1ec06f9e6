//! Why a volume is not modified yet.

use thiserror::Error;
use tonic::{Code, Status};

use crate::driver::said;
use crate::provision::AttributesError;

/// Why a volume is not modified yet. The text is in an event on the claim.
#[derive(Debug, Error)]
pub(crate) enum ModifyError {
    /// The class.
    #[error(transparent)]
    Class(#[from] AttributesError),
    /// The driver.
    #[error("{}", said("ControllerModifyVolume", .source))]
    Call {
        /// Its answer.
        #[source]
        source: Box<Status>,
    },
    /// The API server.
    #[error("cannot write to the API server: {0}")]
    Write(#[source] kube::Error),
}

impl ModifyError {
    /// The claim's `modifyVolumeStatus`.
    pub(super) fn status(&self) -> &'static str {
        match self {
            // Its driver never changes.
            Self::Class(AttributesError::OtherDriver { .. }) => "Infeasible",
            Self::Class(AttributesError::NoClass(_)) => "Pending",
            Self::Call { source } if matches!(source.code(), Code::InvalidArgument | Code::OutOfRange) => "Infeasible",
            Self::Call { .. } | Self::Write(_) => "InProgress",
        }
    }
}
