//! The figures of one run, and the file they are in.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::figure::Figure;
use super::machine::{Machine, output};
use crate::artifacts::workspace;

/// One run of the benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The commit that was measured, as `git describe` names it; `-dirty` if files had changed.
    pub commit: String,
    /// The day, in UTC.
    pub date: String,
    /// The machine and the compiler.
    pub machine: Machine,
    /// The program was built for release.
    pub release: bool,
    /// By what share the same work took longer at most moments of the run than at the best one: what
    /// else the machine did.
    pub noise: f64,
    /// How long the run took, in seconds.
    pub seconds: u64,
    /// The figures, in the order of the table.
    pub figures: Vec<Figure>,
}

/// A file of a run is of no use.
#[derive(Debug)]
pub enum RunError {
    /// It cannot be read or written.
    File(PathBuf, io::Error),
    /// Its content is not that of a run.
    Content(PathBuf, serde_json::Error),
}

impl Run {
    /// A run of this checkout on this machine.
    pub fn of(figures: Vec<Figure>, noise: f64, took: Duration, release: bool) -> Self {
        Self {
            commit: output("git", &["describe", "--always", "--dirty", "--abbrev=10"]),
            date: output("date", &["--utc", "+%F"]),
            machine: Machine::this(),
            release,
            noise,
            seconds: took.as_secs(),
            figures,
        }
    }

    /// The committed file of the recorded run.
    pub fn recorded_file() -> PathBuf {
        workspace().join("tests/benches/node/recorded.json")
    }

    /// Reads a run.
    ///
    /// # Errors
    /// If there is no such file, or it is not a run's.
    pub fn read(file: &Path) -> Result<Self, RunError> {
        let text = std::fs::read(file).map_err(|error| RunError::File(file.to_owned(), error))?;
        serde_json::from_slice(&text).map_err(|error| RunError::Content(file.to_owned(), error))
    }

    /// Writes the run to a file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, file: &Path) -> Result<(), RunError> {
        let mut text = serde_json::to_string_pretty(self).map_err(|error| RunError::Content(file.to_owned(), error))?;
        text.push('\n');
        std::fs::write(file, text).map_err(|error| RunError::File(file.to_owned(), error))
    }

    /// The figure with this id.
    pub fn figure(&self, id: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.id() == id)
    }
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(file, error) => write!(f, "{}: {error}", file.display()),
            Self::Content(file, error) => write!(f, "{} is not the figures of a run: {error}", file.display()),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File(_, error) => Some(error),
            Self::Content(_, error) => Some(error),
        }
    }
}
