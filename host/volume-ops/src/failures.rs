//! Errors of the kernel and of steps as failures of operations.

use volhost_kernel::KernelError;
use volhost_model::{Failure, FailureClass};

use super::steps::StepError;

/// Returns the failure of a step that the kernel refused.
pub(super) fn kernel_failure(step: &str, class: FailureClass, error: &KernelError) -> Failure {
    Failure::new(class, step, error.to_string())
}

/// Returns the failure of a step of the plugin.
pub(super) fn step_failure(step: &str, error: &StepError) -> Failure {
    Failure::new(error.class(), step, error.to_string())
}
