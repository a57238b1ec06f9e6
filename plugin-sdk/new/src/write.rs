//! Files into a new folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::File;

/// The step that failed. The files that were written before it have been removed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The folder exists already, and is left alone.
    #[error("{} exists already; name another folder with --path, or remove it", .0.display())]
    Exists(PathBuf),
    /// A folder can't be made.
    #[error("could not create the folder {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The kernel's words.
        #[source]
        source: io::Error,
    },
    /// A file can't be written.
    #[error("could not write {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The kernel's words.
        #[source]
        source: io::Error,
    },
}

/// Writes `files` into `folder`, which must not be there yet.
///
/// # Errors
/// When it is there, or cannot be written; then nothing stays.
pub fn write(folder: &Path, files: &[File]) -> Result<(), WriteError> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent).map_err(|source| WriteError::Folder { path: parent.to_owned(), source })?;
    }
    match fs::create_dir(folder) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(WriteError::Exists(folder.to_owned()));
        }
        Err(source) => return Err(WriteError::Folder { path: folder.to_owned(), source }),
    }
    files.iter().try_for_each(|file| write_one(folder, file)).inspect_err(|_| {
        // This call made it; the user needs the first error.
        let _ = fs::remove_dir_all(folder);
    })
}

fn write_one(folder: &Path, file: &File) -> Result<(), WriteError> {
    let path = folder.join(&file.path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|source| WriteError::Folder { path: parent.to_owned(), source })?;
    }
    fs::write(&path, &file.text).map_err(|source| WriteError::File { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> File {
        File { path: path.into(), text: path.to_owned() }
    }

    #[test]
    fn all_files_or_none_and_never_over_existing_ones() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("a/b");
        write(&folder, &[file("Cargo.toml"), file("src/lib.rs")]).unwrap();
        assert_eq!(fs::read_to_string(folder.join("src/lib.rs")).unwrap(), "src/lib.rs");
        assert!(matches!(write(&folder, &[file("x")]), Err(WriteError::Exists(_))));
        assert!(!folder.join("x").exists());

        let half = scratch.path().join("half");
        assert!(matches!(write(&half, &[file("src"), file("src/lib.rs")]), Err(WriteError::Folder { .. })));
        assert!(!half.exists(), "a part stayed");
    }
}
