//! Private folders: what a volume of a pod keeps on the host's disk beside what the pod sees.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use volhost_kernel::{Directory, Durability, ErrorKind, Kernel, KernelError, MountSource};

/// The mode of the folders above.
const PARENT_MODE: u32 = 0o750;
/// Only the host enters a private folder by its path.
const MODE: u32 = 0o700;
/// Nor reads a file in it.
const FILE_MODE: u32 = 0o600;

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

    /// Puts a file into the folder, at once and whole; the folder is made unless it is there. It
    /// outlives the process, and on a disk usually the machine.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn write(&self, kernel: &dyn Kernel, name: &OsStr, bytes: &[u8]) -> Result<(), KernelError> {
        let parent = kernel.make_dirs(&self.root, &self.parent, PARENT_MODE)?;
        let folder = kernel.make_dirs(&parent, Path::new(&self.name), MODE)?;
        kernel.write_atomic(&folder, name, bytes, FILE_MODE, Durability::Process)
    }

    /// Returns what is in a file of the folder; none when there is no such file.
    ///
    /// # Errors
    /// As the kernel says; `TooLarge` beyond `limit` bytes.
    pub fn read(&self, kernel: &dyn Kernel, name: &OsStr, limit: usize) -> Result<Option<Vec<u8>>, KernelError> {
        match kernel.walk(&self.root, &self.parent.join(&self.name)) {
            Ok(folder) => kernel.read_file(&folder, name, limit),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes a file from the folder, and the folder if nothing else is in it. Nothing there:
    /// done.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn forget(&self, kernel: &dyn Kernel, name: &OsStr) -> Result<(), KernelError> {
        let (parent, folder) = match (kernel.walk(&self.root, &self.parent), self.name.as_os_str()) {
            (Ok(parent), folder) => (parent, folder),
            (Err(error), _) if error.kind() == ErrorKind::NotFound => return Ok(()),
            (Err(error), _) => return Err(error),
        };
        match kernel.walk(&parent, Path::new(folder)) {
            Ok(inside) => kernel.remove_file(&inside, name)?,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        }
        match kernel.remove_empty_dir(&parent, folder) {
            Ok(()) | Err(KernelError::NotEmpty { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes the folder and all that is in it. Nothing there: done. Repeat it after an error; it
    /// goes on with what is left.
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
