//! What can go wrong for the command line, and the exit code of each.

use std::io;
use std::path::PathBuf;

use thiserror::Error;
use tonic::{Code, Status};

use volhost_api::DecodeError;
use volhost_config::ConfigError;

/// Failed: refused, not found, or a goal that was not reached.
pub(super) const FAILED: u8 = 1;
/// Wrong usage or configuration. clap uses the same code.
pub(super) const USAGE: u8 = 2;
/// The daemon cannot be reached.
pub(super) const UNREACHABLE: u8 = 3;
/// A plugin could not be tested: it is not loaded, or this machine cannot do what that takes.
pub(super) const UNTESTED: u8 = 4;

/// A failure of the command line.
#[derive(Debug, Error)]
pub(super) enum CliError {
    /// The arguments contradict each other.
    #[error("{0}")]
    Usage(String),
    /// The daemon's options.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// No connection.
    #[error("cannot reach volhost at {socket}: {why}")]
    Unreachable {
        /// The socket.
        socket: PathBuf,
        /// What was found there, and the way out.
        why: String,
    },
    /// The connection broke, or the daemon is ending.
    #[error("volhost at {socket} ended the call: {why}")]
    Lost {
        /// The socket.
        socket: PathBuf,
        /// Why.
        why: String,
    },
    /// The daemon refused, with a message for the user.
    #[error("{0}")]
    Refused(String),
    /// The goal was not reached, or the object does not exist; with a message for the user.
    #[error("{0}")]
    Failed(String),
    /// A plugin could not be tested.
    #[error("{0}")]
    Untested(String),
    /// What was compared differs.
    #[error("it differs")]
    Differs,
    /// The comparison failed. For `diff`, exit code 1 means a difference.
    #[error(transparent)]
    NotCompared(Box<CliError>),
    /// The daemon's answer cannot be read.
    #[error("{0}")]
    Decode(#[from] DecodeError),
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The kernel's message.
        source: io::Error,
    },
    /// What is printed cannot be encoded.
    #[error("cannot encode the output: {0}")]
    Encode(String),
    /// Standard output cannot be written.
    #[error("cannot write to standard output: {0}")]
    Output(#[from] io::Error),
    /// The threads and timers of the program cannot be set up.
    #[error("cannot start: {0}")]
    Runtime(#[source] io::Error),
    /// A program beside `volhost` cannot be started.
    #[error("cannot start {program}: {source}; it is installed in the folder of volhost, of the same version")]
    NoProgram {
        /// The program that was looked for.
        program: PathBuf,
        /// The kernel's message.
        source: io::Error,
    },
}

impl CliError {
    /// The program's exit code.
    pub(super) const fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Config(_) => USAGE,
            Self::Unreachable { .. } | Self::Lost { .. } => UNREACHABLE,
            Self::Untested(_) => UNTESTED,
            Self::NotCompared(why) => match why.exit_code() {
                FAILED => USAGE,
                code => code,
            },
            _ => FAILED,
        }
    }

    /// The failure of a comparison.
    pub(super) fn not_compared(self) -> Self {
        match self {
            // A reader that has read enough.
            Self::Output(error) => Self::Output(error),
            other => Self::NotCompared(Box::new(other)),
        }
    }

    /// The failure behind a status of the daemon at this socket.
    pub(super) fn from_status(status: &Status, socket: &std::path::Path) -> Self {
        match status.code() {
            Code::Unavailable => Self::Lost { socket: socket.to_path_buf(), why: status.message().to_owned() },
            Code::PermissionDenied => {
                Self::Unreachable { socket: socket.to_path_buf(), why: status.message().to_owned() }
            }
            Code::Unimplemented => {
                Self::Refused("the daemon does not know this request; use the command line of its version".to_owned())
            }
            Code::Unknown | Code::Internal => Self::Lost { socket: socket.to_path_buf(), why: words(status) },
            _ => Self::Refused(status.message().to_owned()),
        }
    }
}

/// The innermost cause: the outer ones only say "transport error".
fn words(status: &Status) -> String {
    let mut cause: &dyn std::error::Error = status;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    if std::error::Error::source(status).is_some() { cause.to_string() } else { status.message().to_owned() }
}
