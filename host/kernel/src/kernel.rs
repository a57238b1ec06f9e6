//! The trait: every primitive the host has.

use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::block_devices::BlockDevices;
use crate::driver_mounts::DriverMounts;
use crate::error::Result;
use crate::filesystems::Filesystems;
use crate::fuse::FuseMounts;
use crate::handle::{AppendFile, DetachedMount, Directory, MountSource, RootLock};
use crate::image_files::ImageFiles;
use crate::image_stores::ImageStores;
use crate::labels::Labels;
use crate::last_resorts::LastResorts;
use crate::loop_devices::LoopDevices;
use crate::network_mounts::NetworkMounts;
use crate::overlays::Overlays;
use crate::ownership::Ownership;
use crate::payload::Payloads;
use crate::quotas::Quotas;
use crate::sub_paths::SubPaths;
use crate::types::{Detach, Durability, Entry, FsOption, MountId, MountInfo, Propagation};
use crate::usage::Usages;

/// The host's primitives over mounts, folders and files.
///
/// # Guarantees
/// - Every `name` is one path component and every `rel` a path of such components; anything else is
///   `InvalidPath`.
/// - Below a [`Directory`] no symbolic link is followed, and the path never leaves it.
/// - A call that fails leaves nothing of its own behind; where taking it back failed too, the error
///   says so.
/// - Data is removed by [`Kernel::delete_folder`] alone, and never through a mount;
///   [`Payloads::publish_payload`] calls it for the sets that it published itself.
///
/// # Assumptions
/// - Calls block, on a disk or on a dead server; callers run them on a thread made for that.
/// - Two calls at once on the same name are the caller's mistake. They corrupt nothing, but either
///   may fail.
/// - A call that was started runs to its end; there is nothing to cancel.
pub trait Kernel:
    BlockDevices
    + LoopDevices
    + Filesystems
    + ImageFiles
    + ImageStores
    + NetworkMounts
    + Overlays
    + Payloads
    + Ownership
    + Quotas
    + SubPaths
    + Usages
    + LastResorts
    + DriverMounts
    + FuseMounts
    + Labels
    + Send
    + Sync
    + Debug
{
    /// Makes the folder at this absolute path a mount of its own, unless it is one, and returns a
    /// handle inside that mount. A missing folder is created with mode 0750, its missing parents
    /// with 0755. Repeating it changes nothing but the propagation. Messages name what lies in it
    /// relative to it. Volumes' sources then lie on another mount than the parent of the targets:
    /// see design.md section 6.
    ///
    /// # Errors
    /// `InvalidPath` for a relative path; `WrongType` if it is no folder; `Failed`.
    fn prepare_root(&self, path: &Path, propagation: Propagation) -> Result<Directory>;

    /// Unmounts the mount that [`Kernel::prepare_root`] made. The folder and what is in it stay. If
    /// it is no mount, or the root of a file system of its own (the operator's), nothing is done.
    ///
    /// # Errors
    /// `MountInside` if something is still mounted below; `Failed`.
    fn release_root(&self, path: &Path) -> Result<()>;

    /// Opens a folder by absolute path, following symbolic links: for the operator's own paths
    /// only.
    ///
    /// # Errors
    /// `InvalidPath` for a relative path; `WrongType` if it is no folder; `Failed`.
    fn open_directory(&self, path: &Path) -> Result<Directory>;

    /// Opens a folder below this one. An empty path is the folder itself. Mounts on the way are
    /// entered.
    ///
    /// # Errors
    /// `SymbolicLink`, `WrongType` if something on the way is no folder, `Failed` (`NotFound`).
    fn walk(&self, directory: &Directory, rel: &Path) -> Result<Directory>;

    /// Opens a folder below this one, making what is missing, each with exactly this mode. Existing
    /// folders keep theirs. Folders that it made before it failed stay: another caller may use them
    /// already.
    ///
    /// # Errors
    /// As [`Kernel::walk`].
    fn make_dirs(&self, directory: &Directory, rel: &Path, mode: u32) -> Result<Directory>;

    /// The names in a folder, without `.` and `..`, in no order. Nothing is asked about what they
    /// name.
    ///
    /// # Errors
    /// `Failed`.
    fn names(&self, directory: &Directory) -> Result<Vec<OsString>>;

    /// Opens a folder below this one, and lists the names in it. As [`Kernel::walk`] and
    /// [`Kernel::names`], in fewer system calls.
    ///
    /// # Errors
    /// As both.
    fn list(&self, directory: &Directory, rel: &Path) -> Result<(Directory, Vec<OsString>)> {
        let opened = self.walk(directory, rel)?;
        let names = self.names(&opened)?;
        Ok((opened, names))
    }

    /// Returns what is at a name. One system call, whatever the number of mounts; does not ask a
    /// dead server.
    ///
    /// # Errors
    /// `Failed`; nothing there is no error.
    fn entry(&self, directory: &Directory, name: &OsStr) -> Result<Entry>;

    /// The topmost mount at a name, none if what is there is no mount. Does not ask a dead server.
    ///
    /// # Errors
    /// `Failed`.
    fn mount_at(&self, directory: &Directory, name: &OsStr) -> Result<Option<MountInfo>>;

    /// Every mount below the folder, in the order of their ids. The folder's own mount is not among
    /// them.
    ///
    /// # Errors
    /// `Failed`.
    fn mounts_below(&self, directory: &Directory) -> Result<Vec<MountInfo>>;

    /// The points of the mounts below the folder, relative to it, in no order; with `fs_type` only of
    /// mounts of that type. As [`Kernel::mounts_below`], and cheaper: a node has tens of thousands.
    ///
    /// # Errors
    /// `Failed`.
    fn points_below(&self, directory: &Directory, fs_type: Option<&str>) -> Result<Vec<PathBuf>> {
        let mounts = self.mounts_below(directory)?.into_iter();
        let mounts = mounts.filter(|mount| fs_type.is_none_or(|wanted| mount.fs_type == wanted));
        Ok(mounts.map(|mount| mount.point).collect())
    }

    /// The ids of the mounts on the folder's own mount and on those, in their order; among them are
    /// all of [`Kernel::mounts_below`]. No mount is looked at, so that 10,000 take about a
    /// millisecond. None if this kernel gives the id of a mount that is gone to another one.
    ///
    /// # Errors
    /// `Failed`.
    fn ids_below(&self, directory: &Directory) -> Result<Option<Vec<MountId>>> {
        Ok(Some(self.mounts_below(directory)?.into_iter().map(|mount| mount.id).collect()))
    }

    /// A file that is ready for `POLLPRI` when the mount table of this process has changed. None if
    /// there is no such file.
    ///
    /// # Errors
    /// `Failed`.
    fn mount_changes(&self) -> Result<Option<OwnedFd>>;

    /// Makes a mount visible at a name. The mount point is created: a folder, or an empty file
    /// where the mount's root is no folder, with mode 0, since it shows only when another process
    /// has unmounted the volume. An empty folder or empty file that is there already is used, and
    /// is not removed on failure.
    ///
    /// # Errors
    /// `AlreadyMounted`, `SymbolicLink`, `NotEmpty`, `WrongType`, `Replaced` or `Failed`; then the
    /// mount is discarded.
    fn attach(&self, mount: DetachedMount, directory: &Directory, name: &OsStr) -> Result<()>;

    /// Unmounts everything at a name, stacked mounts and mounts below it included (these from the
    /// leaves up), and removes the mount point. In a user namespace, mounts that were copied into
    /// it can't go one by one; then the whole goes at once, as by [`Detach::Lazy`]. Nothing there:
    /// done. Repeat it after an error; it goes on where it stopped. The last mount of a share whose
    /// server is gone disappears at once, and the kernel goes on releasing it in the background.
    ///
    /// # Errors
    /// `Failed` (`Busy`) if something uses it; `MountInside` if a file system is mounted in it and
    /// nowhere else, which the host did not do; `NotEmpty` if the mount point has data, which
    /// stays; `WrongType`.
    fn detach(&self, directory: &Directory, name: &OsStr, how: Detach) -> Result<()>;

    /// Makes the name a plain folder with exactly this mode (permissions, setuid, setgid, sticky),
    /// and this group if given. An existing folder gets mode and group again, its content is left
    /// alone.
    ///
    /// # Errors
    /// `AlreadyMounted`, `SymbolicLink`, `WrongType`, `InvalidPath` for a mode beyond 07777,
    /// `Failed`.
    fn make_folder(&self, directory: &Directory, name: &OsStr, mode: u32, group: Option<u32>) -> Result<()>;

    /// Removes the folder at a name and everything in it. Symbolic links are removed, not followed.
    /// Nothing there: done. Repeat it after an error; it goes on with what is left.
    ///
    /// # Guarantees
    /// No mount is ever crossed. A mount at it or below it that exists before the call refuses the
    /// whole before anything is removed; one that appears during it stops the removal, and nothing
    /// on it is touched.
    ///
    /// # Errors
    /// `MountInside`, `SymbolicLink`, `WrongType` if it is no folder, `StillWritten`, `Failed`.
    fn delete_folder(&self, directory: &Directory, name: &OsStr) -> Result<()>;

    /// Removes an empty folder. Nothing there: done.
    ///
    /// # Errors
    /// `NotEmpty`, `WrongType`, `MountInside`, `Failed`.
    fn remove_empty_dir(&self, directory: &Directory, name: &OsStr) -> Result<()>;

    /// Gives a folder another name, at once, with everything in it. An empty folder of that name is
    /// replaced.
    ///
    /// # Errors
    /// `NotEmpty` if the new name is a folder with something in it; `WrongType` if either name is no
    /// folder; `MountInside` for a mount; `Failed` (`NotFound`), also where the two are on different
    /// file systems.
    fn move_folder(&self, from: &Directory, name: &OsStr, to: &Directory, new_name: &OsStr) -> Result<()>;

    /// Puts a file with this content and mode at a name, at once: a reader sees the old content or
    /// the new, never a part. The next write of the same name clears what a crash in the middle of
    /// one left (`.NAME.new`).
    ///
    /// # Errors
    /// `Failed` (`NoSpace`, ...), and the old content stays.
    fn write_atomic(
        &self,
        directory: &Directory,
        name: &OsStr,
        bytes: &[u8],
        mode: u32,
        durability: Durability,
    ) -> Result<()>;

    /// The content of a regular file, none if nothing is there.
    ///
    /// # Errors
    /// `TooLarge` beyond `limit` bytes, `SymbolicLink`, `WrongType`, `Failed`.
    fn read_file(&self, directory: &Directory, name: &OsStr, limit: usize) -> Result<Option<Vec<u8>>>;

    /// Removes a file, a link, or whatever is no folder. Nothing there: done.
    ///
    /// # Errors
    /// `WrongType` for a folder, `Failed`.
    fn remove_file(&self, directory: &Directory, name: &OsStr) -> Result<()>;

    /// Opens a regular file to append to it. `make` is the mode that a missing one is made with, as
    /// far as the process's umask lets; without it, none if nothing is there.
    ///
    /// # Errors
    /// `SymbolicLink`, `WrongType`, `Failed`.
    fn open_append(&self, directory: &Directory, name: &OsStr, make: Option<u32>) -> Result<Option<AppendFile>>;

    /// Appends to a file, usually by one system call. A death in the middle of it leaves the
    /// beginning of the bytes at the end of the file, or none. One thread at a time may call it for
    /// a file.
    ///
    /// # Errors
    /// `Failed` (`NoSpace`, ...), and the file is as it was before.
    fn append(&self, file: &AppendFile, bytes: &[u8]) -> Result<()>;

    /// A folder of the host's own as the source of a bind mount.
    ///
    /// # Errors
    /// `Failed` when the process has no file descriptor left.
    fn source(&self, directory: &Directory) -> Result<MountSource>;

    /// A copy of the mount at the source, unseen until attached. With `recursive` the mounts below
    /// it come too, and later ones follow; without, it is cut off from the original. Either way
    /// what is mounted on the copy never appears at the original.
    ///
    /// # Errors
    /// `Failed`.
    fn bind(&self, source: &MountSource, recursive: bool) -> Result<DetachedMount>;

    /// Sets per-mount options by the names of `wit/mounts.wit`; with `recursive`, on the mounts
    /// below too.
    ///
    /// # Errors
    /// `InvalidOption` for another name, and then none is set; `Failed`.
    fn set_options(&self, mount: &DetachedMount, options: &[&str], recursive: bool) -> Result<()>;

    /// Makes the topmost mount at a name read-only, not those below it. Read-only already: done.
    /// Does not ask a dead server.
    ///
    /// # Errors
    /// `NotFound` when nothing is there, `InvalidArgument` when it is no mount; `Failed`.
    fn make_read_only(&self, directory: &Directory, name: &OsStr) -> Result<()>;

    /// A new, empty tmpfs. Options: `size`, `nr_inodes`, `mode`, `uid`, `gid`, `noswap`.
    ///
    /// # Errors
    /// `InvalidOption` for another name or a bad value, `UnsupportedOption` if this kernel or user
    /// namespace lacks it, `Failed`.
    fn tmpfs(&self, options: &[FsOption]) -> Result<DetachedMount>;

    /// Makes room for at least `bytes` in the tmpfs that is mounted at a name. Its files stay, and
    /// it never becomes smaller. False if another file system is there, which is left as it is.
    ///
    /// # Errors
    /// `SymbolicLink`, `Failed`.
    fn grow_tmpfs(&self, directory: &Directory, name: &OsStr, bytes: u64) -> Result<bool>;

    /// A new, empty hugetlbfs: files in it are made of huge pages. No page is taken before a file
    /// uses it. Options: `pagesize` (the machine's usual size without it), `size`, `nr_inodes`,
    /// `mode` (without setgid, which it does not know), `uid`, `gid`.
    ///
    /// # Errors
    /// `InvalidOption` for another name or a bad value, `UnsupportedOption` if the machine has no
    /// pages of this size; `Failed`.
    fn huge_pages(&self, options: &[FsOption]) -> Result<DetachedMount>;

    /// Opens what is at an absolute path of the host, following symbolic links. What was opened,
    /// not what was written, must lie in one of `roots`.
    ///
    /// # Errors
    /// `InvalidPath` (relative, `..`, NUL), `OutsideGrant`, `Failed` (`NotFound`).
    fn open_host_path(&self, path: &Path, roots: &[PathBuf]) -> Result<MountSource>;

    /// Creates the folder with its missing parents (0755) and opens it; an existing one is opened.
    /// The deepest existing parent must lie in one of `roots`.
    ///
    /// # Errors
    /// As [`Kernel::open_host_path`], and `WrongType` if something else is there.
    fn create_host_directory(&self, path: &Path, roots: &[PathBuf]) -> Result<MountSource>;

    /// Creates the file (0644) and opens it; an existing one is opened. Its parent must exist and
    /// lie in one of `roots`.
    ///
    /// # Errors
    /// As [`Kernel::open_host_path`], and `WrongType` if something else is there.
    fn create_host_file(&self, path: &Path, roots: &[PathBuf]) -> Result<MountSource>;

    /// Takes the exclusive use of a root folder by a lock file in it, or fails at once. The file
    /// stays; only the lock counts.
    ///
    /// # Errors
    /// `InUse` with the holder's process id; `Failed`.
    fn lock_root(&self, directory: &Directory, name: &OsStr) -> Result<RootLock>;

    /// The machine's memory in bytes, as Linux counts it (`MemTotal`).
    ///
    /// # Errors
    /// `Failed`.
    fn total_memory(&self) -> Result<u64>;
}
