//! Subvolumes with a limit of their own.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;

use super::{LimitedFolder, lacks, without_quota};
use crate::error::{KernelError, Result};
use crate::linux::LinuxKernel;
use crate::linux::ioctl::{limit_subvolume, make_subvolume};
use crate::linux::walk::{FOLDER, open_on_same_mount};
use crate::names::text;
use crate::step::Step;

/// The inode of every subvolume's root (`BTRFS_FIRST_FREE_OBJECTID`), which nothing else on a btrfs
/// has.
const SUBVOLUME_ROOT: u64 = 256;

impl LinuxKernel {
    pub(super) fn make_limited_subvolume(&self, folder: &LimitedFolder<'_>) -> Result<()> {
        let LimitedFolder { directory, name, mode, group, limit, parent, shown } = folder;
        check_quotas(parent, shown)?;
        let made = match make_subvolume(parent, name.as_bytes()) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(KernelError::failed(Step::MakeLimitedFolder, text(shown), errno)),
        };
        let set =
            set_limit(parent, name, *limit, shown).and_then(|()| self.make_folder_at(directory, name, *mode, *group));
        set.map_err(|cause| {
            if !made {
                return cause;
            }
            cause.undone(
                rustix::fs::unlinkat(parent, *name, AtFlags::REMOVEDIR)
                    .map_err(|errno| KernelError::failed(Step::RemoveFolder, text(shown), errno)),
            )
        })
    }
}

/// Refuses a file system that keeps no account of subvolumes.
fn check_quotas(parent: &OwnedFd, shown: &Path) -> Result<()> {
    // Asking for no change shows whether one could be made.
    match limit_subvolume(parent, None) {
        // This subvolume itself needs no account.
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::NOTCONN) => Err(lacks(shown, "quotas are off on this btrfs; `btrfs quota enable` turns them on")),
        Err(errno) => Err(KernelError::failed(Step::SetQuota, text(shown), errno)),
    }
}

fn set_limit(parent: &OwnedFd, name: &OsStr, limit: u64, shown: &Path) -> Result<()> {
    let failed = |errno| KernelError::failed(Step::SetQuota, text(shown), errno);
    let folder = match open_on_same_mount(parent, name, FOLDER) {
        Err(Errno::XDEV) => return Err(KernelError::AlreadyMounted { path: text(shown) }),
        opened => opened.map_err(|errno| KernelError::walking(Step::OpenFolder, text(shown), errno))?,
    };
    let inode = rustix::fs::statx(&folder, "", AtFlags::EMPTY_PATH, StatxFlags::INO).map_err(failed)?.stx_ino;
    if inode != SUBVOLUME_ROOT {
        return Err(without_quota(shown));
    }
    limit_subvolume(&folder, Some(limit)).map_err(failed)
}
