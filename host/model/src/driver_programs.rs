//! External driver programs that plugins run. The node implements the calls.

use std::fmt::Debug;
use std::time::Duration;

use serde_json::{Map, Value};
use thiserror::Error;

/// A JSON object that a driver wrote.
pub type DriverAnswer = Map<String, Value>;

/// The result of a driver program that ended by itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DriverOutcome {
    /// Its exit code; none when a signal ended it.
    pub exit_code: Option<i32>,
    /// The last JSON object with a status that it wrote.
    pub answer: Option<DriverAnswer>,
    /// Its other output, bounded, on one line.
    pub words: String,
}

/// A driver program that was not run, or has not ended by itself. The text is for the person who
/// reads the pod's events, and contains no argument.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DriverError {
    /// There is no driver of this name.
    #[error("{0}")]
    NotFound(String),
    /// It is there and cannot be used now; nothing ran.
    #[error("{0}")]
    NotReady(String),
    /// It ran and did not end by itself.
    #[error("{0}")]
    Uncertain(String),
}

/// The external drivers that are programs. Called from threads that run calls, many at once.
pub trait DriverPrograms: Send + Sync + Debug {
    /// Returns the answer of the driver of this name to `init`.
    ///
    /// # Errors
    /// [`DriverError::NotFound`], [`DriverError::NotReady`].
    fn init_answer(&self, name: &str) -> Result<DriverAnswer, DriverError>;

    /// Runs the driver of this name and waits for its end, at most for as long as is said here and
    /// as the operator allows.
    ///
    /// # Errors
    /// [`DriverError`]; only [`DriverError::Uncertain`] when it ran.
    fn run(&self, name: &str, arguments: &[String], deadline: Duration) -> Result<DriverOutcome, DriverError>;
}

/// No programs: where none are looked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPrograms;

impl NoPrograms {
    fn none<T>(name: &str) -> Result<T, DriverError> {
        Err(DriverError::NotFound(format!(
            "there is no driver {name}: volhost looks for none; name their folder with --flex-driver-dir"
        )))
    }
}

impl DriverPrograms for NoPrograms {
    fn init_answer(&self, name: &str) -> Result<DriverAnswer, DriverError> {
        Self::none(name)
    }

    fn run(&self, name: &str, _: &[String], _: Duration) -> Result<DriverOutcome, DriverError> {
        Self::none(name)
    }
}
