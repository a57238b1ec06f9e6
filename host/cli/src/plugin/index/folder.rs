//! An index in a folder: `VENDOR~NAME.json` for each plugin.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use thiserror::Error;
use volhost_model::names::PluginName;
use volhost_plugin_build::publish::stage;

use super::entry::{EntryError, IndexEntry};
use crate::error::CliError;
use crate::output::Output;
use crate::structured;
use volhost_model::text::error_chain;

/// The largest file, in bytes.
const FILE_BYTES: u64 = 64 << 10;

/// Why a file is left out.
#[derive(Debug, Error)]
enum FileError {
    /// It cannot be read.
    #[error("{0}")]
    Read(#[from] std::io::Error),
    /// It is too large.
    #[error("it has more than {FILE_BYTES} bytes")]
    TooLarge,
    /// It is no entry.
    #[error("{0}")]
    Entry(#[from] EntryError),
}

/// Returns the entries, by name. A file that cannot be used is named on standard error, and left
/// out.
pub(super) fn read(folder: &Path, output: &mut Output) -> Result<Vec<IndexEntry>, CliError> {
    let failed = |source| CliError::File { path: folder.to_owned(), source };
    let mut files: Vec<PathBuf> = Vec::new();
    for file in std::fs::read_dir(folder).map_err(failed)? {
        files.push(file.map_err(failed)?.path());
    }
    files.retain(|file| file.extension() == Some(OsStr::new("json")));
    files.sort();
    let mut entries = Vec::new();
    for file in files {
        match read_file(&file) {
            Ok(entry) => entries.push(entry),
            Err(why) => output.note(&format!("{} is left out: {why}", file.display())),
        }
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

fn read_file(path: &Path) -> Result<IndexEntry, FileError> {
    let mut text = Vec::new();
    File::open(path)?.take(FILE_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > FILE_BYTES {
        return Err(FileError::TooLarge);
    }
    let value = serde_json::from_slice(&text).map_err(EntryError::Form)?;
    Ok(IndexEntry::from_json(value)?)
}

/// Writes an entry, in place of an earlier one of that name. Returns its file.
pub(super) fn write(folder: &Path, name: &PluginName, entry: &IndexEntry) -> Result<PathBuf, CliError> {
    let text = format!("{}\n", structured::pretty_json(entry)?);
    let staged = stage(folder, &format!("{}.json", name.escaped()), text.as_bytes());
    let put = staged.and_then(|staged| staged.put()).map_err(|error| CliError::Failed(error_chain(&error)))?;
    Ok(put.0)
}
