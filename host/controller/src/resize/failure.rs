//! Why a volume is not grown yet.

use thiserror::Error;
use tonic::{Code, Status};
use volhost_csi_translation::TranslationError;

use crate::access::AccessModeError;
use crate::driver::said;
use crate::secrets::SecretError;

/// Why a volume is not grown yet. The text is in an event on the claim.
#[derive(Debug, Error)]
pub(crate) enum ResizeError {
    /// No CSI driver can be asked for so much.
    #[error("{0} bytes are more than CSI can ask for")]
    Size(u64),
    /// The volume of a former in-tree source that the driver cannot serve.
    #[error("spec.{0}")]
    Untranslatable(#[from] TranslationError),
    /// Access modes that CSI lacks.
    #[error(transparent)]
    Access(#[from] AccessModeError),
    /// A Secret.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The driver.
    #[error("{}", said("ControllerExpandVolume", .source))]
    Call {
        /// Its answer.
        #[source]
        source: Box<Status>,
    },
    /// The driver says that it grew the volume, and did not.
    #[error("the driver answers ControllerExpandVolume with {has} bytes; {wanted} were asked for")]
    Short {
        /// What the volume has.
        has: u64,
        /// What was asked for.
        wanted: u64,
    },
    /// The API server.
    #[error("cannot write to the API server: {0}")]
    Write(#[source] kube::Error),
}

impl ResizeError {
    /// Whether no later attempt for this size can succeed: the claim may ask for less then.
    pub(crate) fn is_infeasible(&self) -> bool {
        match self {
            Self::Size(_) => true,
            Self::Call { source } => {
                matches!(source.code(), Code::InvalidArgument | Code::OutOfRange | Code::NotFound)
            }
            _ => false,
        }
    }
}
