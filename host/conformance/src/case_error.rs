//! What can be wrong with a case file, and with the storage that it sets up.

use std::io;
use std::path::PathBuf;

use thiserror::Error;
use volhost_kernel::KernelError;
use volhost_model::NameError;
use volhost_model::mount_options::MountOptionError;
use volhost_model::quantity::QuantityError;

/// Why a case file, or a field of it, cannot be used.
#[derive(Debug, Error)]
pub enum CaseError {
    /// A quantity is malformed.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// A name is malformed.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A mount option is malformed.
    #[error(transparent)]
    MountOption(#[from] MountOptionError),
    /// The grants are malformed.
    #[error("grants: {0}")]
    Grants(#[source] serde_json::Error),
    /// The settings are malformed.
    #[error("settings: {0}")]
    Settings(#[source] serde_json::Error),
    /// The folder for images cannot be made.
    #[error("a folder for images cannot be made: {0}")]
    Images(#[source] io::Error),
    /// A source has no fields.
    #[error("{0} is no map of fields")]
    NotAMap(String),
    /// A volume has no source.
    #[error("names no source, such as `emptyDir: {{}}`")]
    NoSource,
    /// A volume has several sources.
    #[error("has more than one source: {0}, {1}")]
    SeveralSources(String, String),
    /// The volume is described twice.
    #[error("there is a persistentVolume too; a volume is one of them")]
    TwoVolumes,
    /// A file is of no kind, or of several.
    #[error("is one of `folder`, `file` and `run`")]
    FileKind,
    /// A node's name is empty or taken.
    #[error("is no other node's name")]
    NodeName,
    /// A modification changes nothing.
    #[error("names no parameter")]
    NoParameter,
    /// A program does not name the volume, by this placeholder.
    #[error("names no volume; its handle replaces {0}")]
    NoHandle(&'static str),
    /// A parameter has a refused value.
    #[error("{0} is to have that value by `to`")]
    SameValue(String),
    /// The kernel failed in the scratch file system.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A file could not be made.
    #[error("making {} of the case file: {source}", path.display())]
    Make {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A program has no name.
    #[error("`run` of the case file is empty")]
    EmptyCommand,
    /// A program does not exist.
    #[error("there is no {0} on this machine")]
    NoProgram(String),
    /// A program could not be run.
    #[error("{command} of the case file in {}: {source}", scratch.display())]
    Run {
        /// The command.
        command: String,
        /// The scratch file system.
        scratch: PathBuf,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A program failed.
    #[error("{command} of the case file in {}: {output}", scratch.display())]
    Program {
        /// The command.
        command: String,
        /// The scratch file system.
        scratch: PathBuf,
        /// What it printed.
        output: String,
    },
}

/// A field of a case file that cannot be used.
#[derive(Debug)]
pub(crate) struct CaseFieldError {
    pub(crate) field: String,
    pub(crate) reason: CaseError,
}

impl CaseFieldError {
    pub(crate) fn new(field: impl Into<String>, reason: impl Into<CaseError>) -> Self {
        Self { field: field.into(), reason: reason.into() }
    }
}
