//! Parts of a volume as sources of mounts (subPath), and the removal of all that was mounted from
//! them.

use std::ffi::OsStr;
use std::path::Path;

use crate::error::Result;
use crate::handle::{Directory, MountSource};
use crate::types::Detach;

/// The action if nothing is at a sub-path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MissingSubPath {
    /// The error is `NotFound`.
    Refuse,
    /// Folders are made, each with the mode of the volume's root folder.
    MakeFolders,
    /// Folders are made, each with exactly this mode.
    MakeFoldersWithMode(u32),
}

/// How a part of a volume is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SubPathBind {
    /// Nothing can be written through it.
    pub read_only: bool,
    /// The mounts inside come too, and those that are made there later follow.
    pub submounts: bool,
}

/// The result of [`SubPaths::bind_sub_path`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SubPathBinding {
    /// Nothing was mounted there.
    New,
    /// It was there already, as wanted.
    Kept,
    /// Something else was mounted there, or not as wanted.
    Replaced,
}

/// Sub-paths of volumes.
pub trait SubPaths {
    /// Opens what is at a path in the volume at `name`, a folder or a mount, to be bound: a folder,
    /// file, pipe, socket or device. An empty path is the volume's root. Mounts on the way are
    /// entered.
    ///
    /// # Guarantees
    /// - Symbolic links are followed as long as they stay in the volume. A path that leaves it at
    ///   any moment of the walk, an absolute link and a magic link (`/proc`) are refused; what is
    ///   opened is what was checked, whatever a pod renames meanwhile.
    /// - Folders that it makes are made by handle, with their exact mode; those made before it
    ///   failed stay.
    ///
    /// # Errors
    /// `InvalidPath` (absolute, `..`), `OutsideVolume`, `SymbolicLink` if a link that leads nowhere
    /// is in the way of a new folder, `WrongType` if something on the way is no folder, `Failed`
    /// (`NotFound`).
    fn open_sub_path(
        &self,
        volume: &Directory,
        name: &OsStr,
        rel: &Path,
        missing: MissingSubPath,
    ) -> Result<MountSource>;

    /// Shows a sub-path at a name, which becomes a mount; the mount point is made as by
    /// [`Kernel::attach`](crate::Kernel::attach).
    ///
    /// # Guarantees
    /// - What is there already and is the same folder or file, read-only or not as wanted, stays as
    ///   it is.
    /// - Another mount there is replaced. Where the kernel can mount beneath it (Linux 6.5) and
    ///   both are folders or both are not, there is no moment at which neither is seen. Users of
    ///   the old one keep it.
    ///
    /// # Errors
    /// As [`Kernel::attach`](crate::Kernel::attach); what was shown before may be gone then.
    fn bind_sub_path(
        &self,
        source: &MountSource,
        how: SubPathBind,
        directory: &Directory,
        name: &OsStr,
    ) -> Result<SubPathBinding>;

    /// Unmounts everything that is mounted in the folder at a name, at any depth, and then the
    /// empty folders and empty files it were mounted on, and the folder itself. One reading of the
    /// mount table, however many. Nothing there: done.
    ///
    /// # Guarantees
    /// Data is never removed: a file that is not empty stays, with the folders above it. All that
    /// can go goes, whatever fails first; repeat it after an error.
    ///
    /// # Errors
    /// `Failed` (`Busy`) if something uses one of the mounts, `NotEmpty` naming what has data,
    /// `SymbolicLink`, `WrongType`.
    fn detach_tree(&self, directory: &Directory, name: &OsStr, how: Detach) -> Result<()>;
}
