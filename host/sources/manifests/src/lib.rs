//! A folder of manifests as a source of objects. It needs no cluster.
//!
//! ```text
//!  folder --list, read--> text --parse--> objects --> Changes
//!    ^                                       |
//!    '-- inotify: watch                      '-- problems, by file
//! ```
//!
//! A file's life, as [`folder::ManifestFolder`] sees it. "Keeps" is rule R2: what is not known to
//! be gone stays.
//!
//! ```text
//!            read, parsed                 cannot be read or parsed, is empty, or is being written
//!  (new) ------------------> good <-----------------------------------------> bad: keeps its last objects, or none if
//!    |                         |                                                |   it was never good; reported
//!    '--- not parsed ----------+--> bad                                         |
//!                              |                                                |
//!                              '------------ no longer in the folder -----------'--> its objects are gone
//! ```
//!
//! Only the folder itself is read: sub-folders are not followed, nor are files whose name begins
//! with `.` or that an editor left behind. Links to files are followed, so a mounted Kubernetes
//! ConfigMap works as a folder.
#![forbid(unsafe_code)]

mod folder;
mod grace;
mod inotify;
mod listing;
mod problems;
mod watch;

#[cfg(test)]
mod tests;

pub use folder::ManifestFolder;
pub use watch::{WatchError, watch};
