//! Paths of requests as handles (rule R6). A path counts only below the CO's folder. Every step of
//! it is opened beneath the one before, and no symbolic link is followed.

use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use volhost_kernel::{Directory, ErrorKind, Kernel, KernelError};
use volhost_runtime::Place;

use crate::check::shown;
use crate::refusal::{Refusal, Result};

/// The longest path, in bytes: Linux's.
const PATH_BYTES: usize = 4095;

/// The folder below which the CO's paths lie.
#[derive(Debug, Clone)]
pub(crate) struct CoFolder(PathBuf);

impl CoFolder {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Returns the path below the folder, of plain names.
    ///
    /// # Errors
    /// [`Refusal::Field`].
    pub(crate) fn below(&self, field: &'static str, path: &str) -> Result<PathBuf> {
        if path.is_empty() {
            return Err(Refusal::field(field, "is missing"));
        }
        if path.len() > PATH_BYTES {
            return Err(Refusal::field(field, format!("has {} bytes, {PATH_BYTES} at most", path.len())));
        }
        let wrong = || {
            let why = format!(
                "{} is no absolute path below {} without `.`, `..` and NUL; see --kubelet-dir",
                shown(path),
                self.0.display()
            );
            Refusal::field(field, why)
        };
        let rest = Path::new(path).strip_prefix(&self.0).map_err(|_| wrong())?;
        let plain = rest.components().all(|part| matches!(part, Component::Normal(_)));
        // `components` leaves out a `.` in the middle.
        let dots = path.split('/').any(|part| part == "." || part == "..");
        if !plain || dots || rest.as_os_str().is_empty() || path.contains('\0') {
            return Err(wrong());
        }
        Ok(rest.components().collect())
    }

    /// Returns the paths of one call.
    pub(crate) fn paths<'a>(&'a self, kernel: &'a dyn Kernel) -> CoPaths<'a> {
        CoPaths { folder: self, kernel, root: OnceCell::new() }
    }
}

/// The paths of one call. The folder is opened for the first of them and kept for the others; the
/// next call opens it anew, because the CO may have mounted something over it.
#[derive(Debug)]
pub(crate) struct CoPaths<'a> {
    folder: &'a CoFolder,
    kernel: &'a dyn Kernel,
    root: OnceCell<Arc<Directory>>,
}

impl CoPaths<'_> {
    /// As [`CoFolder::below`].
    ///
    /// # Errors
    /// [`Refusal::Field`].
    pub(crate) fn below(&self, field: &'static str, path: &str) -> Result<PathBuf> {
        self.folder.below(field, path)
    }

    /// Opens the folder itself.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn root(&self) -> std::result::Result<&Arc<Directory>, KernelError> {
        if let Some(root) = self.root.get() {
            return Ok(root);
        }
        let opened = self.kernel.open_directory(&self.folder.0)?;
        Ok(self.root.get_or_init(|| Arc::new(opened)))
    }

    /// Opens the folder at a path; none if it does not exist.
    ///
    /// # Errors
    /// [`Refusal::Field`], [`Refusal::Kernel`].
    pub(crate) fn open(&self, field: &'static str, path: &str) -> Result<Option<Directory>> {
        let below = self.below(field, path)?;
        let failed = |source| Refusal::kernel("opening", shown(path), source);
        match self.kernel.walk(self.root().map_err(failed)?, &below) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Returns the last name of a path, in the open folder that contains it; none if that folder
    /// does not exist.
    ///
    /// # Errors
    /// As [`CoPaths::open`].
    pub(crate) fn place(&self, field: &'static str, path: &str) -> Result<Option<Place>> {
        let below = self.below(field, path)?;
        let failed = |source| Refusal::kernel("opening the folder of", shown(path), source);
        let name: OsString = below.file_name().unwrap_or(OsStr::new("")).to_owned();
        match self.kernel.walk(self.root().map_err(failed)?, below.parent().unwrap_or(Path::new(""))) {
            Ok(parent) => Ok(Some(Place { parent, name })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    #[test]
    fn only_plain_paths_below_the_folder_count() {
        let folder = CoFolder::new(PathBuf::from("/var/lib/kubelet"));
        assert_eq!(folder.below("f", "/var/lib/kubelet/pods//u/mount/").unwrap(), Path::new("pods/u/mount"));
        let long = format!("/var/lib/kubelet/{}", "x".repeat(5000));
        for bad in [
            "",
            "/",
            "/var/lib/kubelet",
            "/var/lib/kubelet/",
            "/var/lib/kubelet2/x",
            "/etc/passwd",
            "pods/x",
            "/var/lib/kubelet/../../../etc",
            "/var/lib/kubelet/a/../b",
            "/var/lib/kubelet/./b",
            "/var/lib/kubelet/a\0b",
            long.as_str(),
        ] {
            let error = folder.below("target_path", bad).unwrap_err();
            assert!(matches!(error, Refusal::Field { field: "target_path", .. }), "{bad:?}");
        }
    }
}
