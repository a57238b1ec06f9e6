//! Why a manifest was refused. Every text names the file, the line where one is known, the field,
//! and the way out; none shows a value of a Secret.

use std::io;

use thiserror::Error;
use volhost_model::NameError;
use volhost_model::mount_options::MountOptionError;
use volhost_model::quantity::QuantityError;
use volhost_model::selinux::LabelError;

use super::sub_path::SubPathError;
use super::trust_bundle::TrustBundleError;

/// A message of the decoder repeats the value it did not like; this many characters of it are
/// enough.
const MAX_MESSAGE_CHARS: usize = 300;

/// A manifest file, or an object of it, that was refused.
#[derive(Debug, Error)]
pub enum ManifestError {
    /// The file could not be read.
    #[error("{file}: cannot be read: {source}; its objects stay as they were")]
    Read {
        /// The file.
        file: String,
        /// The kernel's words.
        #[source]
        source: io::Error,
    },
    /// It is a device, a socket or a pipe.
    #[error("{file}: is not a regular file; only regular files and links to them are read")]
    NotAFile {
        /// The file.
        file: String,
    },
    /// It is too large.
    #[error("{file}: has {bytes} bytes, {limit} at most; split it into several files")]
    TooLarge {
        /// The file.
        file: String,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// It has too many objects.
    #[error("{file}:{line}: more than {limit} objects in one file; split it into several files")]
    TooMany {
        /// The file.
        file: String,
        /// The line of the first object that is one too many.
        line: u32,
        /// The limit.
        limit: usize,
    },
    /// It is not text.
    #[error("{file}:{line}: is not UTF-8 text")]
    NotUtf8 {
        /// The file.
        file: String,
        /// The line of the first byte that is wrong.
        line: usize,
    },
    /// There is nothing in it: most likely its writer was interrupted, by a power cut or a full
    /// disk.
    #[error(
        "{file}: is empty; the objects it had stay. Delete the file to remove them, or write an empty List into it (apiVersion: v1, kind: List, items: [])"
    )]
    Empty {
        /// The file.
        file: String,
    },
    /// Another process has it open for writing.
    #[error(
        "{file}: is being written; it is read when its writer has closed it, and the objects it had stay until then"
    )]
    BeingWritten {
        /// The file.
        file: String,
    },
    /// It is not YAML, or too much of it.
    #[error("{file}:{line}:{column}: {message}")]
    Syntax {
        /// The file.
        file: String,
        /// From 1.
        line: u64,
        /// From 1.
        column: u64,
        /// The parser's words.
        message: String,
    },
    /// A field is wrong.
    #[error("{file}:{line}: {path}: {message}")]
    Field {
        /// The file.
        file: String,
        /// The line of the field, or of its parent if it is missing.
        line: u32,
        /// `spec.volumes[0].emptyDir.sizeLimit`.
        path: String,
        /// The error, and the valid form.
        message: String,
    },
    /// The same object is twice in one file.
    #[error("{file}:{line}: {object} is here a second time; the first is at line {first}. Remove or rename one")]
    Twice {
        /// The file.
        file: String,
        /// The second one's line.
        line: u32,
        /// The object.
        object: String,
        /// The first one's line.
        first: u32,
    },
}

/// The error of a field, before file and line are known.
#[derive(Debug, Error)]
#[error("{path}: {problem}")]
pub(super) struct FieldError {
    /// The field, from the object's root.
    pub(super) path: String,
    /// The problem.
    #[source]
    pub(super) problem: FieldProblem,
}

/// The problem of a field.
#[derive(Debug, Error)]
pub(super) enum FieldProblem {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    #[error(transparent)]
    Label(#[from] LabelError),
    #[error(transparent)]
    MountOption(#[from] MountOptionError),
    #[error(transparent)]
    SubPath(#[from] SubPathError),
    #[error(transparent)]
    TrustBundle(#[from] TrustBundleError),
    #[error("{value} is out of range; 0 to {limit} is allowed")]
    OutOfRange { value: i64, limit: u32 },
    #[error("{0}")]
    Other(String),
}

impl FieldError {
    pub(super) fn new(path: impl Into<String>, problem: impl Into<FieldProblem>) -> Self {
        Self { path: path.into(), problem: problem.into() }
    }

    /// The same, of a field that lies below another.
    pub(super) fn below(self, above: &str) -> Self {
        Self { path: format!("{above}.{}", self.path), ..self }
    }

    pub(super) fn other(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(path, FieldProblem::Other(message.into()))
    }
}

/// Returns the beginning of a given text, for a message: a value of a megabyte must not fill a
/// terminal.
pub(super) fn shorten(text: &str) -> String {
    volhost_model::text::shorten(text, MAX_MESSAGE_CHARS)
}
