//! Files of sysfs.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use rustix::io::Errno;

use crate::error::ScsiError;

/// The kernel's word for a text that was not given.
const NULL: &str = "(null)";

/// Returns the names in a folder, sorted; none if it does not exist.
///
/// # Errors
/// [`ScsiError::File`].
pub fn names(folder: &Path) -> Result<Vec<String>, ScsiError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        entries => entries.map_err(of_file(folder))?,
    };
    let mut names: Vec<String> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

/// Returns what a file says, without the blanks around it; none if it is empty, not given or
/// unreadable.
#[must_use]
pub fn word(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let word = text.trim();
    (!word.is_empty() && word != NULL).then(|| word.to_owned())
}

/// Writes to a file that the kernel made.
///
/// # Errors
/// [`ScsiError::File`].
pub fn order(file: &Path, text: &str) -> Result<(), ScsiError> {
    let opened = OpenOptions::new().write(true).open(file);
    opened.and_then(|mut opened| opened.write_all(text.as_bytes())).map_err(of_file(file))
}

/// The number of the device with this folder.
pub(crate) fn device_number(folder: &Path) -> Option<(u32, u32)> {
    let number = word(&folder.join("dev"))?;
    let (major, minor) = number.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// What the error says went away meanwhile.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NODEV | Errno::NXIO))
}

fn of_file(path: &Path) -> impl FnOnce(io::Error) -> ScsiError {
    let path = path.to_owned();
    move |source| ScsiError::File { path, source }
}
