//! Quotas of folders: on btrfs, a subvolume whose qgroup has the limit.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;

use super::LinuxKernel;
use super::ioctl::{limit_subvolume, make_subvolume};
use super::walk::{FOLDER, open_beneath, open_on_same_mount};
use crate::error::{KernelError, Result};
use crate::handle::Directory;
use crate::names::{check_mode, check_name, label, text};
use crate::quotas::{FEATURE, Quotas, check_limit};
use crate::step::Step;

/// <linux/magic.h>
const BTRFS: u64 = 0x9123_683E;
/// The inode of every subvolume's root (`BTRFS_FIRST_FREE_OBJECTID`), which nothing else on a btrfs
/// has.
const SUBVOLUME_ROOT: u64 = 256;

impl Quotas for LinuxKernel {
    fn make_limited_folder(
        &self,
        directory: &Directory,
        name: &OsStr,
        mode: u32,
        group: Option<u32>,
        limit: u64,
    ) -> Result<()> {
        check_name(name)?;
        check_mode(mode)?;
        check_limit(limit)?;
        let shown = label(&directory.label, name);
        let parent = open_beneath(directory.as_fd(), ".", FOLDER)
            .map_err(|errno| KernelError::walking(Step::OpenFolder, text(&directory.label), errno))?;
        check_quotas(&parent, &shown)?;
        let made = match make_subvolume(&parent, name.as_bytes()) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(KernelError::failed(Step::MakeLimitedFolder, text(&shown), errno)),
        };
        let set =
            set_limit(&parent, name, limit, &shown).and_then(|()| self.make_folder_at(directory, name, mode, group));
        set.map_err(|cause| {
            if !made {
                return cause;
            }
            cause.undone(
                rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)
                    .map_err(|errno| KernelError::failed(Step::RemoveFolder, text(&shown), errno)),
            )
        })
    }
}

/// Refuses a file system that keeps no account of subvolumes.
fn check_quotas(parent: &OwnedFd, shown: &Path) -> Result<()> {
    let lacks = |reason: &str| {
        Err(KernelError::FilesystemLacks { path: text(shown), feature: FEATURE, reason: reason.to_owned() })
    };
    let failed = |errno| KernelError::failed(Step::SetQuota, text(shown), errno);
    let kind = rustix::fs::fstatfs(parent).map_err(failed)?.f_type;
    if u64::try_from(kind) != Ok(BTRFS) {
        return lacks("it is not btrfs");
    }
    // Asking for no change shows whether one could be made.
    match limit_subvolume(parent, None) {
        // This subvolume itself needs no account.
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::NOTCONN) => lacks("quotas are off on this btrfs; `btrfs quota enable` turns them on"),
        Err(errno) => Err(failed(errno)),
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
        let (expected, found) = ("a folder with a quota", "a folder without, which can't get one any more");
        return Err(KernelError::WrongType { path: text(shown), expected, found });
    }
    limit_subvolume(&folder, Some(limit)).map_err(failed)
}
