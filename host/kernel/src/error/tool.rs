//! Errors of the programs that make, check and grow file systems.

use rustix::io::Errno;
use thiserror::Error;

use super::kind::{ErrorKind, kind_of};
use super::text::{said_suffix, words};
use crate::step::Step;

/// Why a program did not do its work. Paths are those of what it works on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ToolError {
    /// A program that does the work is not installed.
    #[error("{step} {path}: {tool} is not installed; install it (Debian: apt-get install {package})")]
    Missing {
        /// The step that needs it.
        step: Step,
        /// What it was to be done to.
        path: String,
        /// The program.
        tool: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A program that does the work was not started, for it would reach more than the device.
    #[error("{step} {path}: {tool} was not started, because it cannot be confined to the device: {what}: {}", words(*.errno))]
    NotConfined {
        /// The step that needs it.
        step: Step,
        /// What it was to be done to.
        path: String,
        /// The program.
        tool: &'static str,
        /// What could not be done.
        what: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A program that does the work failed.
    #[error("{step} {path}: {tool} ended with {status}{}", said_suffix(.said))]
    Failed {
        /// The step.
        step: Step,
        /// What it was done to.
        path: String,
        /// The program.
        tool: &'static str,
        /// How it ended.
        status: String,
        /// What it said.
        said: String,
    },
    /// A program that does the work did not end in time, and was ended.
    #[error("{step} {path}: {tool} did not end within {seconds} seconds and was stopped; does the device answer?{}", said_suffix(.said))]
    TimedOut {
        /// The step.
        step: Step,
        /// What it was done to.
        path: String,
        /// The program.
        tool: &'static str,
        /// How long it had, in seconds.
        seconds: u64,
        /// What it said.
        said: String,
    },
}

impl ToolError {
    pub(super) const fn errno(&self) -> Option<Errno> {
        match self {
            Self::NotConfined { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    pub(super) const fn step(&self) -> Step {
        match self {
            Self::Missing { step, .. }
            | Self::NotConfined { step, .. }
            | Self::Failed { step, .. }
            | Self::TimedOut { step, .. } => *step,
        }
    }

    pub(super) fn kind(&self) -> ErrorKind {
        match self {
            Self::NotConfined { errno, .. } => kind_of(*errno),
            Self::Missing { .. } => ErrorKind::Unsupported,
            Self::Failed { .. } | Self::TimedOut { .. } => ErrorKind::Io,
        }
    }
}
