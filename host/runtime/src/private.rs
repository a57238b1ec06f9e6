//! Private folders: what a volume of a pod keeps on the host's disk beside what the pod sees.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use volhost_kernel::{Directory, ErrorKind, Kernel, KernelError, MountSource};

/// The mode of the folders above.
const PARENT_MODE: u32 = 0o750;
/// Nobody but the host enters a private folder by its path.
const MODE: u32 = 0o700;

/// Where the private folder of a volume is, or would be.
#[derive(Debug, Clone)]
pub struct PrivateFolder {
    /// The host's root folder.
    pub root: Arc<Directory>,
    /// The folder it is in, below the root; made when it is needed.
    pub parent: PathBuf,
    /// Its name there.
    pub name: OsString,
}

impl PrivateFolder {
    /// Makes the folder, unless it is there, and opens it.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn make(&self, kernel: &dyn Kernel) -> Result<MountSource, KernelError> {
        let parent = kernel.make_dirs(&self.root, &self.parent, PARENT_MODE)?;
        kernel.source(&kernel.make_dirs(&parent, Path::new(&self.name), MODE)?)
    }

    /// Removes the folder and all that is in it. Nothing there: done. Repeat it after an error; it goes on with what is left.
    ///
    /// # Errors
    /// As [`Kernel::delete_folder`]: nothing is ever removed through a mount.
    pub fn remove(&self, kernel: &dyn Kernel) -> Result<(), KernelError> {
        match kernel.walk(&self.root, &self.parent) {
            Ok(parent) => kernel.delete_folder(&parent, &self.name),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}
