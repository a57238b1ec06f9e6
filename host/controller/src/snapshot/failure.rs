//! Why a snapshot or a content is not as it is to be yet. The texts are in statuses and events.

use thiserror::Error;
use tonic::Status;

use crate::driver::{CallOutcome, outcome, said};
use crate::secrets::SecretError;
use crate::snapshots::Unreadable;

/// Why a snapshot has no content, or another one than it is to have.
#[derive(Debug, Error)]
pub(crate) enum SnapshotError {
    /// It is no snapshot that can be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// Two sources, or none.
    #[error("Exactly one of PersistentVolumeClaimName and VolumeSnapshotContentName should be specified")]
    Sources,
    /// The class is not known.
    #[error("Failed to get snapshot class with error volumesnapshotclass.snapshot.storage.k8s.io {0:?} not found")]
    NoClass(String),
    /// No class is named, and not one is the default.
    #[error("Failed to set default snapshot class with error {}", match .found {
        0 => "cannot find default snapshot class".to_owned(),
        found => format!("{found} default snapshot classes were found"),
    })]
    NoDefaultClass {
        /// How many are.
        found: usize,
    },
    /// The claim cannot have a snapshot now.
    #[error("Failed to create snapshot content with error the claim {claim:?} {reason}")]
    Claim {
        /// The claim.
        claim: String,
        /// Why.
        reason: String,
    },
    /// A parameter of the class, or one that cannot be read.
    #[error("Failed to create snapshot content with error {0}")]
    Class(#[from] ClassError),
    /// It has been taken, and what shows it is gone.
    #[error("VolumeSnapshotContent is missing")]
    NoContent,
    /// The content is of the other kind.
    #[error("VolumeSnapshotContent {content} is {has} while expecting a {wanted} one")]
    Kind {
        /// The content.
        content: String,
        /// Which it is.
        has: &'static str,
        /// Which it is to be.
        wanted: &'static str,
    },
    /// The content is for another snapshot.
    #[error("VolumeSnapshotContent [{0}] is bound to a different snapshot")]
    OtherSnapshot(String),
    /// The content was for this one and is not any more.
    #[error("VolumeSnapshotContent is not bound to the VolumeSnapshot correctly")]
    Unbound,
    /// It is deleted once volumes are made of it.
    #[error("Snapshot is being used to restore a PVC")]
    Restored,
    /// The API server.
    #[error("cannot write to the API server: {0}")]
    Write(#[source] Box<kube::Error>),
}

impl SnapshotError {
    /// The reason of the event on the snapshot, if there is to be one.
    pub(super) fn reason(&self) -> Option<&'static str> {
        Some(match self {
            Self::Unreadable(_) | Self::Sources => "SnapshotValidationError",
            Self::NoClass(_) => "GetSnapshotClassFailed",
            Self::NoDefaultClass { .. } => "SetDefaultSnapshotClassFailed",
            Self::Claim { .. } | Self::Class(_) => "SnapshotContentCreationFailed",
            Self::NoContent => "SnapshotContentMissing",
            Self::Kind { .. } => "SnapshotContentMismatch",
            Self::OtherSnapshot(_) => "SnapshotContentMisbound",
            Self::Unbound => "SnapshotMisbound",
            Self::Restored => "SnapshotDeletePending",
            Self::Write(error) if is_conflict(error) => return None,
            Self::Write(_) => "SnapshotUpdateFailed",
        })
    }

    /// Whether the snapshot cannot be used because of it, which its status says then.
    pub(super) fn is_in_status(&self) -> bool {
        !matches!(self, Self::Restored | Self::Write(_))
    }
}

/// Whether another program wrote meanwhile. The next attempt is made with what it wrote.
pub(super) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

impl From<kube::Error> for SnapshotError {
    fn from(source: kube::Error) -> Self {
        Self::Write(Box::new(source))
    }
}

/// Why a class cannot be used.
#[derive(Debug, Error)]
pub(crate) enum ClassError {
    /// The class is gone.
    #[error("volumesnapshotclass.snapshot.storage.k8s.io {0:?} not found")]
    Gone(String),
    /// It has a part that cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// A parameter that this release does not know.
    #[error("found unknown parameter key {0:?} with reserved namespace csi.storage.k8s.io/")]
    Parameter(String),
    /// A Secret.
    #[error(transparent)]
    Secret(#[from] SecretError),
}

/// Why a content does not show the driver's snapshot, or is not gone yet.
#[derive(Debug, Error)]
pub(crate) enum ContentError {
    /// It is no content that can be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// Nothing can be done with it.
    #[error("{0}")]
    Invalid(&'static str),
    /// The class.
    #[error(transparent)]
    Class(#[from] ClassError),
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
    /// The driver's answer has no snapshot.
    #[error("the driver answers {0} without a snapshot")]
    NoSnapshot(&'static str),
    /// The API server.
    #[error("cannot write to the API server: {0}")]
    Write(#[source] Box<kube::Error>),
}

impl ContentError {
    /// The driver's answer to this call.
    pub(super) fn call(call: &'static str) -> impl Fn(Status) -> Self {
        move |source| Self::Call { call, source: Box::new(source) }
    }

    /// Whether the driver has said that it has not done it, and will not.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Call { source, .. } if outcome(source) != CallOutcome::Unknown)
    }
}

impl From<kube::Error> for ContentError {
    fn from(source: kube::Error) -> Self {
        Self::Write(Box::new(source))
    }
}
