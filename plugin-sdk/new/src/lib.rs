//! Writes the crate of a new plugin: one that builds, passes its tests and does what its template
//! is for, or a skeleton that takes the place of a FlexVolume driver.
//!
//! | module | its job |
//! |---|---|
//! | [`name`] | what a plugin may be called, and the names that follow from that |
//! | [`template`] | the files of each template |
//! | [`flex`] | what a FlexVolume driver says of itself, and the files that follow from that |
//! | [`write()`] | files into a new folder, all or none |
#![forbid(unsafe_code)]

pub mod flex;
pub mod name;
pub mod template;
mod write;

pub use name::{Name, NameError};
pub use template::{Sdk, Template};
pub use write::{WriteError, write};

use std::path::PathBuf;

/// A file of a new crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Where, below the crate's folder.
    pub path: PathBuf,
    /// What it holds.
    pub text: String,
}
