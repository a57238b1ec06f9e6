//! Where the root folder may lie: not among the folders that volhost reads, and not inside or
//! around the root folder of another running volhost, whose cleaning would take the mounts of this
//! one for its own.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use thiserror::Error;
use volhost_kernel::{Directory, Entry, Kernel, KernelError};

use volhost_volume_ops::layout;

/// The folders below the root folder that volhost fills itself.
const OWN_FOLDERS: [&str; 4] = [layout::PODS, layout::PLUGINS, layout::STATE, crate::provision::FOLDER];

/// Why a root folder is refused. Each error names both folders and the way out.
#[derive(Debug, Error)]
pub enum PlaceError {
    /// It lies in a folder that volhost reads.
    #[error(
        "the root folder {} lies in the {what} {}, which volhost reads; choose another with --root-dir",
        root.display(),
        folder.display()
    )]
    InFolder {
        /// The root folder.
        root: PathBuf,
        /// The name of the other folder.
        what: &'static str,
        /// The other folder.
        folder: PathBuf,
    },
    /// A folder that volhost reads lies among the volumes.
    #[error("the {what} {} lies in {}, which volhost fills itself; move it to another place", folder.display(), own.display())]
    AmongVolumes {
        /// The name of the folder.
        what: &'static str,
        /// The folder.
        folder: PathBuf,
        /// Where it lies.
        own: PathBuf,
    },
    /// It lies inside another root folder.
    #[error(
        "the root folder {} lies inside {}, the root folder of another running volhost{}; choose another with --root-dir",
        root.display(),
        other.display(),
        process(*.pid)
    )]
    Inside {
        /// The root folder.
        root: PathBuf,
        /// The other.
        other: PathBuf,
        /// The other's process, if its lock file says.
        pid: Option<u32>,
    },
    /// Another root folder lies inside it.
    #[error(
        "the root folder {} contains {}, the root folder of another running volhost{}; choose another with --root-dir",
        root.display(),
        other.display(),
        process(*.pid)
    )]
    Around {
        /// The root folder.
        root: PathBuf,
        /// The other.
        other: PathBuf,
        /// The other's process, if its lock file says.
        pid: Option<u32>,
    },
}

fn process(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
}

/// Checks the root folder against the folders that volhost reads: what each is, and its absolute
/// path.
///
/// # Errors
/// [`PlaceError::InFolder`], [`PlaceError::AmongVolumes`].
pub(crate) fn check_folders(root: &Path, folders: &[(&'static str, &Path)]) -> Result<(), PlaceError> {
    for (what, folder) in folders {
        if root.starts_with(folder) {
            return Err(PlaceError::InFolder { root: root.to_owned(), what, folder: folder.to_path_buf() });
        }
        if let Some(own) = OWN_FOLDERS.iter().map(|own| root.join(own)).find(|own| folder.starts_with(own)) {
            return Err(PlaceError::AmongVolumes { what, folder: folder.to_path_buf(), own });
        }
    }
    Ok(())
}

/// Checks the root folder against the root folders of other running volhosts. To be called before
/// anything is mounted in it.
///
/// # Errors
/// [`PlaceError::Inside`], [`PlaceError::Around`].
pub(crate) fn check_others(kernel: &dyn Kernel, root: &Path) -> Result<(), PlaceError> {
    for outer in root.ancestors().skip(1) {
        let Ok(folder) = kernel.open_directory(outer) else { continue };
        // A running volhost has its records mounted there.
        let has_records = matches!(kernel.entry(&folder, OsStr::new(layout::STATE)), Ok(Entry::Mount(_)));
        if has_records && let Some(pid) = holder(kernel, &folder) {
            return Err(PlaceError::Inside { root: root.to_owned(), other: outer.to_owned(), pid });
        }
    }
    let Ok(folder) = kernel.open_directory(root) else { return Ok(()) };
    for point in kernel.points_below(&folder, Some("tmpfs")).unwrap_or_default() {
        let Some(inner) = point.parent().filter(|inner| !inner.as_os_str().is_empty()) else { continue };
        if point.file_name() != Some(OsStr::new(layout::STATE)) {
            continue;
        }
        let other = root.join(inner);
        let found = kernel.open_directory(&other).ok().and_then(|folder| holder(kernel, &folder));
        if let Some(pid) = found {
            return Err(PlaceError::Around { root: root.to_owned(), other, pid });
        }
    }
    Ok(())
}

/// The process that has the lock of a root folder, if one has; the inner option is empty when
/// the lock file does not name it.
fn holder(kernel: &dyn Kernel, folder: &Directory) -> Option<Option<u32>> {
    let lock = OsStr::new(layout::LOCK);
    if !matches!(kernel.entry(folder, lock), Ok(Entry::File)) {
        return None;
    }
    match kernel.lock_root(folder, lock) {
        Err(KernelError::InUse { pid, .. }) => Some(pid),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_folder_among_what_volhost_reads_is_refused() {
        let check = |root: &str, folder: &str| check_folders(Path::new(root), &[("plugin folder", Path::new(folder))]);
        for (root, folder) in
            [("/a", "/a"), ("/a/b", "/a"), ("/a", "/a/plugins"), ("/a", "/a/pods/x"), ("/a", "/a/state")]
        {
            let error = check(root, folder).unwrap_err().to_string();
            assert!(error.contains(&format!("plugin folder {folder}")), "{error}");
        }
        for (root, folder) in [("/a", "/b"), ("/a", "/ab"), ("/ab", "/a"), ("/a", "/a/manifests"), ("/a", "/a/podsx")] {
            assert!(check(root, folder).is_ok(), "{root} {folder}");
        }
    }
}
