//! Why a call failed, and the gRPC code by which the CO decides what to do.
//!
//! The kubelet takes `Canceled`, `DeadlineExceeded`, `ResourceExhausted`, `Aborted` and
//! `Unavailable` for "it may have happened": it repeats the call or undoes it. Every other code
//! says that the volume is as it was before.

use thiserror::Error;
use tonic::{Code, Status};
use volhost_kernel::{ErrorKind, KernelError};
use volhost_model::FailureClass;
use volhost_runtime::{CallError, ErrorCase};

/// The result of a call.
pub(crate) type Result<T> = std::result::Result<T, Refusal>;

/// Why a call failed.
#[derive(Debug, Error)]
pub(crate) enum Refusal {
    /// A field of the request.
    #[error("{field}: {why}")]
    Field {
        /// Its name in csi.proto.
        field: &'static str,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// What the request names does not exist.
    #[error("{0}")]
    NotFound(String),
    /// It exists, and not as the request asks for.
    #[error("{0}")]
    Conflict(String),
    /// Something else must happen first.
    #[error("{0}")]
    Precondition(String),
    /// No volume can be of that size.
    #[error("{0}")]
    OutOfRange(String),
    /// No place is left.
    #[error("{0}")]
    Exhausted(String),
    /// A list goes on from nowhere.
    #[error("starting_token: {0}")]
    Token(String),
    /// Another call for the same thing has not ended.
    #[error("another call for {0} has not ended; repeat this one when it has")]
    Pending(String),
    /// The driver does not have this call.
    #[error("{0}")]
    Unimplemented(String),
    /// The plugin failed.
    #[error("{step} {subject}: plugin {plugin}: {}", .source.message())]
    Plugin {
        /// What was to be done.
        step: &'static str,
        /// To which volume.
        subject: String,
        /// By which plugin.
        plugin: String,
        /// Why not.
        #[source]
        source: Box<CallError>,
    },
    /// The kernel failed.
    #[error("{step} {subject}: {source}")]
    Kernel {
        /// What was to be done.
        step: &'static str,
        /// To which volume, or where.
        subject: String,
        /// Its words.
        #[source]
        source: Box<KernelError>,
    },
    /// The thread of the call ended without an answer.
    #[error("the call ended without an answer: {0}")]
    Lost(String),
}

impl Refusal {
    /// Creates the refusal of a wrong field.
    pub(crate) fn field(field: &'static str, why: impl Into<String>) -> Self {
        Self::Field { field, why: why.into() }
    }

    /// Creates the refusal for a failure of the kernel.
    pub(crate) fn kernel(step: &'static str, subject: impl Into<String>, source: KernelError) -> Self {
        Self::Kernel { step, subject: subject.into(), source: Box::new(source) }
    }

    /// Returns whether the call certainly changed nothing.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::Plugin { source, .. } => source.class() == FailureClass::Final,
            Self::Kernel { .. } | Self::Lost(_) => false,
            _ => true,
        }
    }

    pub(crate) fn code(&self) -> Code {
        match self {
            Self::Field { .. } => Code::InvalidArgument,
            Self::NotFound(_) => Code::NotFound,
            Self::Conflict(_) => Code::AlreadyExists,
            Self::Precondition(_) => Code::FailedPrecondition,
            Self::OutOfRange(_) => Code::OutOfRange,
            Self::Exhausted(_) => Code::ResourceExhausted,
            Self::Token(_) | Self::Pending(_) => Code::Aborted,
            Self::Unimplemented(_) => Code::Unimplemented,
            Self::Plugin { source, .. } => code_of_call(source),
            Self::Kernel { source, .. } => code_of_kernel(source),
            Self::Lost(_) => Code::Unavailable,
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code(), refusal.to_string())
    }
}

fn code_of_call(error: &CallError) -> Code {
    let CallError::Plugin(said) = error else {
        return match error.class() {
            FailureClass::Final => Code::Internal,
            FailureClass::Uncertain | FailureClass::Transient => Code::Unavailable,
        };
    };
    match &said.case {
        ErrorCase::InvalidArgument => Code::InvalidArgument,
        ErrorCase::NotFound => Code::NotFound,
        ErrorCase::Conflict => Code::AlreadyExists,
        ErrorCase::Busy | ErrorCase::Precondition | ErrorCase::Unsupported => Code::FailedPrecondition,
        ErrorCase::PermissionDenied => Code::PermissionDenied,
        ErrorCase::Retryable | ErrorCase::Uncertain => Code::Unavailable,
        ErrorCase::Corrupt => Code::DataLoss,
        ErrorCase::Other(code) => match code.as_str() {
            "OUT_OF_RANGE" => Code::OutOfRange,
            "RESOURCE_EXHAUSTED" => Code::ResourceExhausted,
            "not-begun" => Code::Unavailable,
            _ => Code::Internal,
        },
    }
}

fn code_of_kernel(error: &KernelError) -> Code {
    match error.kind() {
        ErrorKind::InvalidArgument => Code::InvalidArgument,
        ErrorKind::PermissionDenied => Code::PermissionDenied,
        ErrorKind::Conflict | ErrorKind::Unsupported => Code::FailedPrecondition,
        _ => Code::Unavailable,
    }
}
