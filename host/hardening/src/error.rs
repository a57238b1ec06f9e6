//! A privilege that could not be dropped.

use rustix::io::Errno;
use thiserror::Error;

/// A privilege could not be dropped. The daemon does not start: it would be less confined than
/// documented.
#[derive(Debug, Error)]
#[error("the daemon cannot {step}: {why}")]
pub struct HardenError {
    step: &'static str,
    why: String,
}

impl HardenError {
    /// Creates the error of a step.
    pub(crate) fn new(step: &'static str, why: String) -> Self {
        Self { step, why }
    }

    /// The error of a step, from the kernel's.
    pub(crate) fn at(step: &'static str) -> impl Fn(Errno) -> Self {
        move |errno| Self::new(step, errno.to_string())
    }
}
