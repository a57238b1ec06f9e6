//! Private folders: what a volume of a pod keeps on the host's disk beside what the pod sees.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use volhost_kernel::{Directory, Durability, ErrorKind, Kernel, KernelError, MountSource};
use volhost_model::csi_layout::VOLUME_DATA;

/// The mode of the folders above.
const PARENT_MODE: u32 = 0o750;
/// Only the host enters a private folder by its path.
const MODE: u32 = 0o700;
/// Nor reads a file in it.
const FILE_MODE: u32 = 0o600;

/// The file with a volume's note, in a folder apart from the mount.
const NOTE: &str = ".volhost-note";

/// Where a private folder lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderKind {
    /// Apart from the volume's mount: all that is in it is the volume's.
    Apart,
    /// Around the volume's mount, as the kubelet has it for CSI drivers: see
    /// [`volhost_model::csi_layout`]. The note alone is the volume's.
    AroundMount,
}

/// Where the private folder of a volume is, or would be.
#[derive(Debug, Clone)]
pub struct PrivateFolder {
    /// The host's root folder.
    pub root: Arc<Directory>,
    /// The folder it is in, below the root; made when it is needed.
    pub parent: PathBuf,
    /// Its name there.
    pub name: OsString,
    /// Whether the volume's mount is in it.
    pub kind: FolderKind,
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

    fn note_name(&self) -> &'static OsStr {
        OsStr::new(match self.kind {
            FolderKind::Apart => NOTE,
            FolderKind::AroundMount => VOLUME_DATA,
        })
    }

    /// Writes the note, at once and whole; the folder is made unless it is there. The note outlives
    /// the process, and on a disk usually the machine.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn write_note(&self, kernel: &dyn Kernel, bytes: &[u8]) -> Result<(), KernelError> {
        let parent = kernel.make_dirs(&self.root, &self.parent, PARENT_MODE)?;
        let mode = if self.kind == FolderKind::Apart { MODE } else { PARENT_MODE };
        let folder = kernel.make_dirs(&parent, Path::new(&self.name), mode)?;
        kernel.write_atomic(&folder, self.note_name(), bytes, FILE_MODE, Durability::Process)
    }

    /// Returns the note; none when there is none.
    ///
    /// # Errors
    /// As the kernel says; `TooLarge` beyond `limit` bytes.
    pub fn read_note(&self, kernel: &dyn Kernel, limit: usize) -> Result<Option<Vec<u8>>, KernelError> {
        match kernel.walk(&self.root, &self.parent.join(&self.name)) {
            Ok(folder) => kernel.read_file(&folder, self.note_name(), limit),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the note, and the folder if nothing else is in it. Nothing there: done.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn remove_note(&self, kernel: &dyn Kernel) -> Result<(), KernelError> {
        let (parent, folder) = match (kernel.walk(&self.root, &self.parent), self.name.as_os_str()) {
            (Ok(parent), folder) => (parent, folder),
            (Err(error), _) if error.kind() == ErrorKind::NotFound => return Ok(()),
            (Err(error), _) => return Err(error),
        };
        match kernel.walk(&parent, Path::new(folder)) {
            Ok(inside) => kernel.remove_file(&inside, self.note_name())?,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        }
        match kernel.remove_empty_dir(&parent, folder) {
            Ok(()) | Err(KernelError::NotEmpty { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes the folder and all that is in it; one around the mount only if the note alone is in
    /// it. Nothing there: done. Repeat it after an error; it goes on with what is left.
    ///
    /// # Errors
    /// As [`Kernel::delete_folder`]: nothing is ever removed through a mount.
    pub fn remove(&self, kernel: &dyn Kernel) -> Result<(), KernelError> {
        if self.kind == FolderKind::AroundMount {
            return self.remove_note(kernel);
        }
        match kernel.walk(&self.root, &self.parent) {
            Ok(parent) => kernel.delete_folder(&parent, &self.name),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}
