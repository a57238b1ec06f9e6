//! Writes the crate of a new plugin: one that builds, passes its tests and does the job of its
//! template, or a skeleton that replaces a FlexVolume driver.
//!
//! | module | its job |
//! |---|---|
//! | [`name`] | a plugin's name, and the names that follow from it |
//! | [`template`] | the files of each template |
//! | [`flex`] | a FlexVolume driver's answer to `init`, and the files that follow from it |
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
    /// Its path below the crate's folder.
    pub path: PathBuf,
    /// Its content.
    pub text: String,
}
