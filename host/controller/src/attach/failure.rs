//! Why a volume is not attached or detached yet.

use thiserror::Error;
use tonic::Status;
use volhost_csi_translation::TranslationError;

use crate::access::AccessModeError;
use crate::driver::said;
use crate::secrets::SecretError;

/// Why a volume is not attached or detached yet. The text is in the attachment's status, from where
/// Kubernetes takes it into events of the pod.
#[derive(Debug, Error)]
pub(crate) enum AttachError {
    /// It says nothing of its volume.
    #[error("the attachment names no PersistentVolume and describes no volume")]
    NoName,
    /// The volume of a former in-tree source that the driver cannot serve.
    #[error("persistentvolume {0:?} cannot be served by its CSI driver: spec.{1}")]
    Untranslatable(String, #[source] TranslationError),
    /// It may not be in the cache yet.
    #[error("persistentvolume {0:?} not found")]
    NoVolume(String),
    /// The volume was replaced by another of its name.
    #[error("persistentvolume {0:?} is not of this driver")]
    OtherDriver(String),
    /// The driver does not run there.
    #[error("the driver has not registered on node {0:?}")]
    NoNode(String),
    /// Access modes that CSI lacks.
    #[error(transparent)]
    Access(#[from] AccessModeError),
    /// A Secret.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The driver.
    #[error("{}", said("ControllerPublishVolume", .source))]
    Attach {
        /// Its answer.
        #[source]
        source: Box<Status>,
    },
    /// The driver.
    #[error("{}", said("ControllerUnpublishVolume", .source))]
    Detach {
        /// Its answer.
        #[source]
        source: Box<Status>,
    },
    /// The API server.
    #[error("cannot write to the API server: {0}")]
    Write(#[source] kube::Error),
}

impl AttachError {
    /// The code of the driver's answer, which the scheduler reads: a node that is full gets no more
    /// pods with volumes.
    pub(crate) fn code(&self) -> Option<i32> {
        match self {
            Self::Attach { source } | Self::Detach { source } => Some(source.code().into()),
            _ => None,
        }
    }
}
