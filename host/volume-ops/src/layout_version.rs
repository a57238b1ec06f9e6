//! The version of the layout that one run leaves to the next: the names of folders, the records,
//! the kept objects.
//!
//! `ROOT/state/version` contains it. It is written before anything else in that folder, which goes
//! with the machine as the mounts do. A start that finds another layout does nothing: it would
//! mistake mounts for others, fail to unstage them, and detach devices below them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use thiserror::Error;
use volhost_kernel::{Directory, Durability, Kernel, KernelError, is_temporary};

/// The layout of this version. Raised when an older version's mounts or records would be misread.
const LAYOUT: u32 = 1;
/// The file.
const VERSION: &str = "version";
const FILE_MODE: u32 = 0o600;
/// More than a number has, in bytes.
const MAX_BYTES: usize = 64;

/// Why a start leaves the state folder alone.
#[derive(Debug, Error)]
pub enum LayoutError {
    /// The file cannot be read or written.
    #[error("the number of the layout in {}: {source}", folder.display())]
    Kernel {
        /// The state folder.
        folder: PathBuf,
        /// The kernel's words.
        #[source]
        source: KernelError,
    },
    /// Another version of volhost wrote what is there.
    #[error(
        "{} was written by another version of volhost: it has {found}, and this version wants layout {LAYOUT}. Nothing was changed. Run the version that wrote it, `volhost drain` with it, and stop it; if {} is a mount still, unmount it; then start this version, and add again what was added over the API. A restart of the machine removes that folder, too",
        folder.display(),
        folder.display()
    )]
    Other {
        /// The state folder.
        folder: PathBuf,
        /// The layout that it has, in words.
        found: String,
    },
}

/// Checks the layout of the state folder, and writes its number into an empty one. `path` is the
/// folder's name for messages.
///
/// # Guarantees
/// A folder of another layout is as it was. A death at any point leaves a folder that the next
/// start accepts.
///
/// # Errors
/// [`LayoutError`].
pub fn check(kernel: &dyn Kernel, state: &Directory, path: &Path) -> Result<(), LayoutError> {
    let failed = |source| LayoutError::Kernel { folder: path.to_owned(), source };
    let found = match kernel.read_file(state, OsStr::new(VERSION), MAX_BYTES).map_err(failed)? {
        Some(bytes) => match std::str::from_utf8(&bytes).ok().and_then(|text| text.trim().parse::<u32>().ok()) {
            Some(LAYOUT) => return Ok(()),
            Some(other) => format!("layout {other}"),
            None => format!("a file {VERSION} without a number"),
        },
        // What a death in the middle of the first write leaves is nothing yet.
        None if kernel.names(state).map_err(failed)?.iter().all(|name| is_temporary(name)) => {
            let number = format!("{LAYOUT}\n");
            let write =
                kernel.write_atomic(state, OsStr::new(VERSION), number.as_bytes(), FILE_MODE, Durability::Process);
            return write.map_err(failed);
        }
        None => "a layout from before 0.1.0, without a number".to_owned(),
    };
    Err(LayoutError::Other { folder: path.to_owned(), found })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use volhost_testing_kernel::InMemoryKernel;

    use super::*;

    struct StateFolder {
        kernel: Arc<dyn Kernel>,
        folder: Directory,
    }

    impl StateFolder {
        fn new() -> Self {
            let kernel: Arc<dyn Kernel> = Arc::new(InMemoryKernel::new());
            let root = kernel.open_directory(Path::new("/")).unwrap();
            let folder = kernel.make_dirs(&root, Path::new("state"), 0o700).unwrap();
            Self { kernel, folder }
        }

        fn write(&self, name: &str, text: &str) {
            let name = OsStr::new(name);
            self.kernel.write_atomic(&self.folder, name, text.as_bytes(), FILE_MODE, Durability::Process).unwrap();
        }

        fn check(&self) -> Result<(), String> {
            check(self.kernel.as_ref(), &self.folder, Path::new("/root/state")).map_err(|error| error.to_string())
        }

        fn names(&self) -> Vec<std::ffi::OsString> {
            let mut names = self.kernel.names(&self.folder).unwrap();
            names.sort();
            names
        }
    }

    #[test]
    fn an_empty_folder_gets_the_number_and_is_accepted_from_then_on() {
        let state = StateFolder::new();
        state.check().unwrap();
        assert_eq!(state.names(), [VERSION]);
        state.kernel.make_dirs(&state.folder, Path::new("volumes"), 0o700).unwrap();
        state.check().unwrap();
    }

    #[test]
    fn what_a_death_in_the_first_write_left_is_nothing_yet() {
        let state = StateFolder::new();
        state.write(".version.new", "");
        state.check().unwrap();
        assert!(state.names().contains(&VERSION.into()));
    }

    #[test]
    fn another_layout_is_refused_and_left_as_it_is() {
        for (version, found) in [
            (None, "without a number"),
            (Some("0\n"), "layout 0"),
            (Some("99"), "layout 99"),
            (Some(""), "without a number"),
            (Some("one"), "without a number"),
        ] {
            let state = StateFolder::new();
            state.kernel.make_dirs(&state.folder, Path::new("volumes"), 0o700).unwrap();
            if let Some(version) = version {
                state.write(VERSION, version);
            }
            let before = state.names();
            let why = state.check().unwrap_err();
            for words in ["/root/state", found, "wants layout 1", "volhost drain", "restart of the machine"] {
                assert!(why.contains(words), "{words}: {why}");
            }
            assert_eq!(state.names(), before);
        }
    }
}
