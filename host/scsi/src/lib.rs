//! SCSI units as the kernel shows them in sysfs, and multipath maps over them. What leads to a unit,
//! a session or a port, is the business of the crates that use this one.
//!
//! | module | contents |
//! |---|---|
//! | `unit` | [`Unit`]: its device, and how it is looked for, asked for its size and removed |
//! | `multipath` | [`Map`]: a multipath map over a unit's paths |
//! | `files` | files of sysfs |
//! | `error` | [`ScsiError`] |
#![forbid(unsafe_code)]

mod error;
mod files;
mod multipath;
mod unit;

pub use error::ScsiError;
pub use files::{names, order, word};
pub use multipath::Map;
pub use unit::{Unit, is_in_use, units_below};

use std::path::{Path, PathBuf};

/// The folders in which programs are looked for, whatever the environment says.
pub const PROGRAM_FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Returns the program of this name in the first of the folders that has it.
#[must_use]
pub fn program(folders: &[PathBuf], name: &str) -> Option<PathBuf> {
    folders.iter().map(|folder| folder.join(name)).find(|path| Path::is_file(path))
}
