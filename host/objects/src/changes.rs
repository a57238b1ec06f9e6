//! The changes by one reading of the folder.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::object::Object;

/// The difference between two readings of a folder.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Changes {
    /// Objects that are new, were changed, or are in another file now.
    pub upserted: Vec<Arc<Object>>,
    /// Objects that are known to be gone.
    pub removed: Vec<Arc<Object>>,
    /// Files that have problems they did not have at the reading before, or other ones.
    pub problems: Vec<Problem>,
    /// Files whose problems are over.
    pub cleared: Vec<String>,
    /// The ignored parts of files that were parsed now.
    pub notices: Vec<Problem>,
    /// The folder was listed, and every file in it has been read without error at least once: a pod
    /// that no object names is really gone. Describes the state after this reading, not the
    /// difference.
    pub complete: bool,
    /// Files that have never been read without error; the folder itself, if it has not been listed.
    /// Describes the state after this reading, and is empty when that is complete.
    pub unread: Vec<String>,
}

impl Changes {
    /// Whether nothing changed. Says nothing of [`Changes::complete`].
    pub fn is_empty(&self) -> bool {
        self.upserted.is_empty()
            && self.removed.is_empty()
            && self.problems.is_empty()
            && self.cleared.is_empty()
            && self.notices.is_empty()
    }
}

/// The errors of a file, or of the folder itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file's name; for the folder, the path it was opened by.
    pub file: String,
    /// One text a problem, each complete in itself.
    pub messages: Vec<String>,
    /// The kinds of these problems; empty for ignored parts of a file.
    pub kinds: BTreeSet<ProblemKind>,
}

/// A kind of problem of a manifest file, or of the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProblemKind {
    /// The folder cannot be read or watched.
    Folder,
    /// The file cannot be read, or is no valid manifest.
    Invalid,
    /// Another program has the file open for writing.
    BeingWritten,
    /// Another file has an object of the same name or uid.
    Duplicate,
    /// The file is gone, and its objects stay for a while.
    Missing,
}

impl ProblemKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Folder, Self::Invalid, Self::BeingWritten, Self::Duplicate, Self::Missing];

    /// As the metrics show it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Folder => "folder",
            Self::Invalid => "invalid",
            Self::BeingWritten => "being-written",
            Self::Duplicate => "duplicate",
            Self::Missing => "missing",
        }
    }
}
