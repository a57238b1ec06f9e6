//! Parts of a volume as sources of mounts (subPath), and the removal of all that was mounted from them.

use std::ffi::OsStr;
use std::path::Path;

use crate::handle::{Directory, MountSource};
use crate::kernel::Result;
use crate::types::Detach;

/// What to do if nothing stands at a sub-path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Missing {
    /// The error is `NotFound`.
    Refuse,
    /// Folders are made, each with the mode of the volume's root folder.
    MakeFolders,
    /// Folders are made, each with exactly this mode.
    MakeFoldersWithMode(u32),
}

/// Sub-paths of volumes.
pub trait SubPaths {
    /// Opens what stands at a path in the volume at `name`, a folder or a mount, to be bound: a folder, file, pipe, socket or
    /// device. An empty path is the volume's root. Mounts on the way are entered.
    ///
    /// # Guarantees
    /// - Symbolic links are followed as long as they stay in the volume. A path that leaves it at any moment of the walk, an absolute
    ///   link and a magic link (`/proc`) are refused; what is opened is what was checked, whatever a pod renames meanwhile.
    /// - Folders that it makes are made by handle, with their exact mode; those made before it failed stay.
    ///
    /// # Errors
    /// `InvalidPath` (absolute, `..`), `OutsideVolume`, `SymbolicLink` if a link that leads nowhere is in the way of a new folder,
    /// `WrongType` if something on the way is no folder, `Failed` (`NotFound`).
    fn open_sub_path(&self, volume: &Directory, name: &OsStr, rel: &Path, missing: Missing) -> Result<MountSource>;

    /// Takes away everything that is mounted in the folder at a name, at any depth, and then the empty folders and empty files it
    /// stood on, and the folder itself. One reading of the mount table, however many. Nothing there: done.
    ///
    /// # Guarantees
    /// Data is never removed: a file that holds something stays, with the folders above it. All that can go goes, whatever
    /// fails first; repeat it after an error.
    ///
    /// # Errors
    /// `Failed` (`Busy`) if something uses one of the mounts, `NotEmpty` naming what holds data, `SymbolicLink`, `WrongType`.
    fn detach_tree(&self, directory: &Directory, name: &OsStr, how: Detach) -> Result<()>;
}
