//! The step that an operation is in. A thread that hangs in the kernel cannot report it itself.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A step of an operation.
#[derive(Debug, Clone)]
pub struct ProgressStep {
    /// What is being done: `mount-target.attach`, `host-paths.open /srv/data`, `plugin code`.
    pub what: Cow<'static, str>,
    /// Since when.
    pub since: Instant,
}

/// The current step of one call, written by the thread that runs it and read by any other.
#[derive(Debug)]
pub struct Progress {
    step: Mutex<ProgressStep>,
}

impl Default for Progress {
    fn default() -> Self {
        Self { step: Mutex::new(ProgressStep { what: Cow::Borrowed("not started"), since: Instant::now() }) }
    }
}

impl Progress {
    /// The step the call is in.
    #[must_use]
    pub fn current(&self) -> ProgressStep {
        self.step.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says that a step begins; the daemon may name steps of its own around a call.
    pub fn enter(&self, what: impl Into<Cow<'static, str>>) {
        let step = ProgressStep { what: what.into(), since: Instant::now() };
        *self.step.lock().unwrap_or_else(PoisonError::into_inner) = step;
    }
}
