//! Where commands that need no daemon keep compiled plugins, so that a file is compiled once for all
//! of them.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use volhost_runtime::trim_cache;

use super::error::CliError;

/// The folder in the user's cache folder.
const FOLDER: &str = "volhost/plugins";
/// How much code is kept, in bytes: that of some thousand plugins in Rust, or of a dozen with an
/// interpreter.
const MAX_BYTES: u64 = 1 << 30;
/// The user's own.
const MODE: u32 = 0o700;
/// The permission of others to write.
const OTHERS_WRITE: u32 = 0o022;

/// A folder for compiled plugins.
#[derive(Debug)]
pub(super) enum CompiledPlugins {
    /// One that stays.
    Kept(PathBuf),
    /// One that is removed with this.
    Temporary(TempDir),
}

impl CompiledPlugins {
    /// The folder `given`, or `volhost/plugins` in the user's cache folder ($XDG_CACHE_HOME, or
    /// `.cache` in $HOME); a temporary one if the user has none that is the user's alone.
    ///
    /// # Errors
    /// No temporary folder can be made.
    pub(super) fn open(given: Option<&Path>) -> Result<Self, CliError> {
        if let Some(folder) = given {
            return Ok(Self::Kept(folder.to_owned()));
        }
        if let Some(folder) = of_user() {
            return Ok(Self::Kept(folder));
        }
        let base = std::env::temp_dir();
        tempfile::tempdir().map(Self::Temporary).map_err(|source| CliError::File { path: base, source })
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Kept(folder) => folder,
            Self::Temporary(folder) => folder.path(),
        }
    }
}

/// The folder in the user's cache folder, made if it is missing.
fn of_user() -> Option<PathBuf> {
    // As the XDG Base Directory Specification has it: a relative path does not count.
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || absolute("HOME").filter(|home| is_own(home)).map(|home| home.join(".cache"));
    let base = absolute("XDG_CACHE_HOME").or_else(home)?;
    // Root with another user's $HOME, for example: who owns a folder above can replace the code.
    if base.exists() && !is_own(&base) {
        return None;
    }
    let folder = base.join(FOLDER);
    DirBuilder::new().recursive(true).mode(MODE).create(&folder).ok()?;
    let is_usable = folder.ancestors().take(2).all(is_own) && trim_cache(&folder, MAX_BYTES).is_ok();
    is_usable.then_some(folder)
}

/// Whether no other user can replace what is in this folder.
fn is_own(folder: &Path) -> bool {
    fs::symlink_metadata(folder).is_ok_and(|found| {
        found.is_dir() && found.uid() == rustix::process::geteuid().as_raw() && found.mode() & OTHERS_WRITE == 0
    })
}
