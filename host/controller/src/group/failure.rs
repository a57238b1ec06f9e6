//! Why a group or its content is not as it is to be yet. The texts are in statuses and events.

use thiserror::Error;
use tonic::Status;

use crate::driver::{CallOutcome, outcome, said};
use crate::secrets::SecretError;
use crate::snapshots::Unreadable;

/// Why a group or its content is not as it is to be yet.
#[derive(Debug, Error)]
pub(super) enum GroupError {
    /// It has a part that cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// Two sources, or none.
    #[error("exactly one of spec.source.selector and spec.source.volumeGroupSnapshotContentName has to be given")]
    Sources,
    /// The class is not known.
    #[error("the VolumeGroupSnapshotClass {0:?} is not found")]
    NoClass(String),
    /// No class is named, and not one is the default.
    #[error(
        "the group names no class, and {0} VolumeGroupSnapshotClasses of the driver are the default; name one in \
         spec.volumeGroupSnapshotClassName"
    )]
    NoDefaultClass(usize),
    /// A parameter of the class.
    #[error("the class has the unknown parameter {0:?} with the reserved prefix csi.storage.k8s.io/")]
    Parameter(String),
    /// The selector has none.
    #[error("no claim in the namespace has the labels of spec.source.selector")]
    NoClaim,
    /// A claim cannot be a part of the group.
    #[error("the claim {claim:?} {reason}")]
    Claim {
        /// The claim.
        claim: String,
        /// Why.
        reason: String,
    },
    /// It has been taken, and what shows it is gone.
    #[error("the VolumeGroupSnapshotContent of the group is missing")]
    NoContent,
    /// The content is for another group.
    #[error("the VolumeGroupSnapshotContent {0} is bound to another group")]
    OtherGroup(String),
    /// Nothing can be done with a content.
    #[error("{0}")]
    Invalid(&'static str),
    /// A volume is being made of one of its snapshots.
    #[error("the snapshot {0} of the group is being restored")]
    Restored(String),
    /// A Secret.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The driver.
    #[error("{}", said(.call, .source))]
    Call {
        /// The call.
        call: &'static str,
        /// Its answer.
        #[source]
        source: Box<Status>,
    },
    /// The driver's answer has no group, or another one.
    #[error("the driver answers {call} {reason}")]
    Answer {
        /// The call.
        call: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The API server.
    #[error("cannot write to the API server: {0}")]
    Write(#[source] Box<kube::Error>),
}

impl GroupError {
    /// The driver's answer to this call.
    pub(super) fn call(call: &'static str) -> impl Fn(Status) -> Self {
        move |source| Self::Call { call, source: Box::new(source) }
    }

    /// Whether the driver has said that it has not done it, and will not.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Call { source, .. } if outcome(source) != CallOutcome::Unknown)
    }

    /// The reason of the event, if there is to be one. Another program wrote meanwhile: the next
    /// attempt is made with what it wrote.
    pub(super) fn reason(&self) -> Option<&'static str> {
        Some(match self {
            Self::Unreadable(_) | Self::Sources | Self::Invalid(_) => "GroupSnapshotValidationError",
            Self::NoClass(_) => "GetGroupSnapshotClassFailed",
            Self::NoDefaultClass(_) => "SetDefaultGroupSnapshotClassFailed",
            Self::NoContent => "GroupSnapshotContentMissing",
            Self::OtherGroup(_) => "GroupSnapshotContentMisbound",
            Self::Restored(_) => "GroupSnapshotDeletePending",
            Self::Write(error) if matches!(&**error, kube::Error::Api(status) if status.code == 409) => return None,
            Self::Write(_) => "GroupSnapshotUpdateFailed",
            Self::Call { call: "DeleteVolumeGroupSnapshot", .. } => "GroupSnapshotDeleteError",
            _ => "GroupSnapshotCreationFailed",
        })
    }

    /// Whether the group cannot be used because of it, which its status says then.
    pub(super) fn is_in_status(&self) -> bool {
        !matches!(self, Self::Restored(_) | Self::Write(_) | Self::Call { call: "DeleteVolumeGroupSnapshot", .. })
    }
}

impl From<kube::Error> for GroupError {
    fn from(source: kube::Error) -> Self {
        Self::Write(Box::new(source))
    }
}
