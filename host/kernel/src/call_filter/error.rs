//! Why a filter was not set.

use thiserror::Error;

/// A filter could not be set. The program is then not started.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the kernel does not take a filter of system calls: {0}")]
pub struct FilterError(String);

pub(super) fn failed(error: impl std::fmt::Display) -> FilterError {
    FilterError(error.to_string())
}
