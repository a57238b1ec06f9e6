//! Takes the folder over: removes the kubelet's marks, and records that the folder is volhost's.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde::Serialize;
use thiserror::Error;
use volhost_kernel::{Directory, Durability, ErrorKind, Kernel, KernelError};
use volhost_volume_ops::layout::ADOPTED;

use crate::found::{Fate, Findings};

/// Raised when the file changes its meaning.
const VERSION: u32 = 1;
const FILE_MODE: u32 = 0o600;

/// Why a folder was not adopted.
#[derive(Debug, Error)]
pub enum AdoptError {
    /// A mark of the kubelet's cannot be removed.
    #[error("{} cannot be removed: {source}; what was removed before were marks of the kubelet's alone, so adopt again", path.display())]
    Clean {
        /// The mark.
        path: PathBuf,
        /// Why.
        source: KernelError,
    },
    /// The record cannot be written.
    #[error("{ADOPTED} cannot be written: {0}")]
    Record(#[source] KernelError),
    /// The record cannot be encoded.
    #[error("{ADOPTED} cannot be encoded: {0}")]
    Encode(#[source] serde_json::Error),
}

/// The file that says so.
#[derive(Serialize)]
struct Record {
    version: u32,
    /// How many volumes and sub-paths were found.
    found: usize,
}

/// Adopts what was found.
///
/// # Guarantees
/// Removes the kubelet's marks and no other file, and follows no link. Unmounts nothing. After a
/// failure or a death it can be repeated.
///
/// # Errors
/// [`AdoptError`].
pub fn adopt(kernel: &dyn Kernel, root: &Directory, findings: &Findings) -> Result<(), AdoptError> {
    for mark in findings.with(Fate::Clean) {
        remove_mark(kernel, root, &mark.path)
            .map_err(|source| AdoptError::Clean { path: mark.path.clone(), source })?;
    }
    let record = Record { version: VERSION, found: findings.with(Fate::Adopt).count() };
    let bytes = serde_json::to_vec(&record).map_err(AdoptError::Encode)?;
    kernel.write_atomic(root, OsStr::new(ADOPTED), &bytes, FILE_MODE, Durability::Machine).map_err(AdoptError::Record)
}

/// Removes a file, and the folders of the mark that are empty then: those between it and the pod's.
fn remove_mark(kernel: &dyn Kernel, root: &Directory, path: &Path) -> Result<(), KernelError> {
    /// The mark's own folder, the plugin's, and the one of all plugins.
    const FOLDERS: usize = 3;
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    match kernel.walk(root, folder) {
        Ok(open) => kernel.remove_file(&open, name)?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    let mut at = folder;
    for _ in 0..FOLDERS {
        let (Some(parent), Some(name)) = (at.parent(), at.file_name()) else { break };
        match kernel.remove_empty_dir(&kernel.walk(root, parent)?, name) {
            Ok(()) => at = parent,
            Err(KernelError::NotEmpty { .. }) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
