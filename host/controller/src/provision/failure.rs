//! Why a claim has no volume yet.

use thiserror::Error;
use tonic::Status;
use volhost_csi_translation::TranslationError;

use super::attributes::AttributesError;
use super::source::SourceError;
use super::topology::TopologyError;
use crate::access::AccessModeError;
use crate::driver::said;
use crate::journal::JournalError;
use crate::secrets::SecretError;

/// Why a claim has no volume yet. The text is the event on the claim.
#[derive(Debug, Error)]
pub(crate) enum ProvisionError {
    /// The class is not known.
    #[error("storageclass.storage.k8s.io {0:?} not found")]
    NoClass(String),
    /// The class of a former in-tree plugin that its driver cannot serve.
    #[error("the storageclass cannot be served by its CSI driver: {0}")]
    Class(#[source] TranslationError),
    /// The driver has no such call.
    #[error("the CSI driver does not support {0}")]
    Incapable(&'static str),
    /// CSI has no selectors.
    #[error("claim Selector is not supported")]
    Selector,
    /// A size that is no size.
    #[error("the claim asks for no size that can be read")]
    Size,
    /// Two file system types.
    #[error("fstype specified in parameters with both \"fstype\" and \"csi.storage.k8s.io/fstype\" keys")]
    FsTypes,
    /// A parameter that this release does not know.
    #[error("found unknown parameter key {0:?} with reserved namespace csi.storage.k8s.io/")]
    Parameter(String),
    /// Access modes that CSI lacks.
    #[error(transparent)]
    Access(#[from] AccessModeError),
    /// A Secret.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The volume's source.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The VolumeAttributesClass.
    #[error(transparent)]
    Attributes(#[from] AttributesError),
    /// The node.
    #[error("error generating accessibility requirements: {0}")]
    Topology(#[from] TopologyError),
    /// The journal.
    #[error("the creation cannot be recorded: {0}")]
    Journal(#[from] JournalError),
    /// The driver.
    #[error("failed to provision volume with StorageClass {class:?}: {}", said("CreateVolume", .source))]
    Call {
        /// The class.
        class: String,
        /// Its answer.
        #[source]
        source: Box<Status>,
    },
    /// The driver's answer has no volume.
    #[error("the driver answers CreateVolume without a volume")]
    NoVolume,
    /// It made another volume than it was asked for.
    #[error("{reason}{}", cleanup.as_ref().map(|status| format!("; it is not deleted yet: {}", said("DeleteVolume", status))).unwrap_or_default())]
    Wrong {
        /// What is wrong.
        reason: String,
        /// Why it is still there.
        cleanup: Option<Box<Status>>,
    },
    /// The API server.
    #[error("cannot write the PersistentVolume: {0}")]
    Write(#[source] kube::Error),
}
