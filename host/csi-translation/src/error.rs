//! Why a volume or class cannot be translated.

use thiserror::Error;
use volhost_model::NameError;

/// Why a volume or class cannot be translated. The text begins with the field, relative to the
/// `spec` of a PersistentVolume, to a pod's volume, or to a StorageClass.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field}: {problem}")]
pub struct TranslationError {
    field: String,
    // On the heap: errors that contain this one stay small.
    #[source]
    problem: Box<TranslationProblem>,
}

impl TranslationError {
    pub(crate) fn new(field: impl Into<String>, problem: impl Into<TranslationProblem>) -> Self {
        Self { field: field.into(), problem: Box::new(problem.into()) }
    }
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum TranslationProblem {
    /// It is missing or empty.
    #[error("is missing; it is how the CSI driver finds the volume")]
    Missing,
    /// It has a character that would change the meaning of the volume's handle.
    #[error("{shown:?} has a character that no such name has ({rule})")]
    Character { shown: String, rule: &'static str },
    /// It is no name of a Kubernetes object.
    #[error(transparent)]
    Name(#[from] NameError),
    /// It is no id of an AWS volume.
    #[error("{0:?} is no AWS volume; write `vol-...`, or `aws://ZONE/vol-...`")]
    AwsVolume(String),
    /// The CSI driver serves managed disks alone.
    #[error("{0:?} is not served any more; the CSI driver serves Managed disks alone")]
    Unmanaged(String),
    /// It is no handle from which a name can be read.
    #[error("{shown:?} is no handle of driver {driver}")]
    Handle { shown: String, driver: &'static str },
    /// A partition that is no number.
    #[error("{0:?} is no partition's number")]
    Partition(String),
    /// A zone from which no region can be read.
    #[error("the zone {0:?} is not of the form LOCALE-REGION-ZONE")]
    Zone(String),
    /// Zones of several regions.
    #[error("the zones {0} are not of one region")]
    Regions(String),
    /// The secret's namespace is not known.
    #[error("is missing, and no claim is bound to the volume whose namespace would count")]
    SecretNamespace,
    /// Two parameters, or a parameter and a field, say where volumes may be.
    #[error("goes with neither {0}; say once where volumes may be")]
    Twice(&'static str),
    /// It is no source, class or driver of the table.
    #[error("is none of Kubernetes' migrated plugins")]
    NotMigrated,
}
