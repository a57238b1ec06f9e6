//! Puts a component where a running volhost may be watching.

use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Readable by all, like any program; a component contains no secret.
const MODE: u32 = 0o644;

/// The outcome of [`write()`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// The file is new, or had other content.
    Changed,
    /// The file had this content already and was not touched: a host that watches it does not
    /// reload.
    Unchanged,
}

/// The step of publishing that failed.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The folder can't be created.
    #[error("could not create the folder {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The component can't be written beside its place (full disk, no permission).
    #[error("could not write into the folder {}", path.display())]
    Write {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The complete file can't take its name.
    #[error("could not put the component at {}", path.display())]
    Rename {
        /// The name.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

/// Writes `component` to `folder/NAME.wasm`, creating the folder.
///
/// Guarantees: a reader of the file sees the old content or the new, never a part; a file that is
/// mapped by a running host is replaced, not changed; content that is already there is left alone.
/// Nothing is left behind on failure.
///
/// # Errors
/// When the folder can't be made, the content not written, or the name not taken.
pub fn write(folder: &Path, name: &str, component: &[u8]) -> Result<(PathBuf, Written), PublishError> {
    stage(folder, &format!("{name}.wasm"), component)?.put()
}

/// A file that is written and has not its name yet. Dropping it removes it.
#[derive(Debug)]
pub struct Staged {
    path: PathBuf,
    /// None when the name has this content already.
    file: Option<NamedTempFile>,
}

/// Writes `content` beside its place, the file `name` of `folder`: what can fail for lack of room
/// has happened when several files that belong together are [put](Staged::put) in place.
///
/// # Errors
/// When the folder can't be made, or the content not written.
pub fn stage(folder: &Path, name: &str, content: &[u8]) -> Result<Staged, PublishError> {
    fs::create_dir_all(folder).map_err(|source| PublishError::Folder { path: folder.to_owned(), source })?;
    let path = folder.join(name);
    if fs::read(&path).is_ok_and(|present| present == content) {
        return Ok(Staged { path, file: None });
    }
    // The dot and the ending keep the half-written file out of what a host takes for plugins.
    let file = tempfile::Builder::new()
        .prefix(&format!(".{name}."))
        .suffix(".tmp")
        .permissions(Permissions::from_mode(MODE))
        .tempfile_in(folder)
        .and_then(|mut file| file.write_all(content).map(|()| file))
        .map_err(|source| PublishError::Write { path: folder.to_owned(), source })?;
    Ok(Staged { path, file: Some(file) })
}

impl Staged {
    /// Gives the file its name.
    ///
    /// # Errors
    /// When the name can't be taken.
    pub fn put(self) -> Result<(PathBuf, Written), PublishError> {
        let Self { path, file } = self;
        let Some(file) = file else { return Ok((path, Written::Unchanged)) };
        file.persist(&path).map_err(|error| PublishError::Rename { path: path.clone(), source: error.error })?;
        Ok((path, Written::Changed))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn unchanged_content_leaves_the_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (path, first) = write(folder.path(), "a", b"one").unwrap();
        let before = fs::metadata(&path).unwrap().ino();
        let (_, second) = write(folder.path(), "a", b"one").unwrap();
        assert_eq!((first, second), (Written::Changed, Written::Unchanged));
        assert_eq!(fs::metadata(&path).unwrap().ino(), before, "the file was replaced");
    }

    #[test]
    fn new_content_replaces_the_file_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = write(folder.path(), "a", b"one").unwrap();
        let open_before = fs::File::open(&path).unwrap();
        write(folder.path(), "a", b"two").unwrap();
        assert_eq!(io::read_to_string(open_before).unwrap(), "one", "an open plugin changed under its reader");
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_in_the_way_is_named_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("a.wasm")).unwrap();
        let error = write(folder.path(), "a", b"one").unwrap_err();
        assert!(matches!(&error, PublishError::Rename { path, .. } if path.ends_with("a.wasm")), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "the temporary file stayed");
    }
}
