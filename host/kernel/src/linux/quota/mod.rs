//! Quotas of folders: on btrfs, a subvolume whose qgroup has the limit; on ext4 and XFS, a project
//! of the folder's own.

mod btrfs;
mod project;
mod quotactl;

pub(super) use project::OwnProject;

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use super::LinuxKernel;
use super::walk::{FOLDER, open_beneath};
use crate::error::{KernelError, Result};
use crate::handle::Directory;
use crate::names::{check_mode, check_name, label, text};
use crate::quotas::{FEATURE, Quotas, check_limit};
use crate::step::Step;

/// <linux/magic.h>
const BTRFS: u64 = 0x9123_683E;
const EXT4: u64 = 0xEF53;
const XFS: u64 = 0x5846_5342;

/// A folder that gets a limit, as the caller asks for it.
struct LimitedFolder<'a> {
    directory: &'a Directory,
    name: &'a OsStr,
    mode: u32,
    group: Option<u32>,
    /// In bytes.
    limit: u64,
    /// The folder that it is made in.
    parent: OwnedFd,
    /// Its path, for messages.
    shown: &'a Path,
}

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
        let shown = &label(&directory.label, name);
        let parent = open_beneath(directory.as_fd(), ".", FOLDER)
            .map_err(|errno| KernelError::walking(Step::OpenFolder, text(&directory.label), errno))?;
        let kind = rustix::fs::fstatfs(&parent)
            .map_err(|errno| KernelError::failed(Step::SetQuota, text(shown), errno))?
            .f_type;
        let folder = LimitedFolder { directory, name, mode, group, limit, parent, shown };
        match u64::try_from(kind) {
            Ok(BTRFS) => self.make_limited_subvolume(&folder),
            Ok(EXT4 | XFS) => self.make_project_folder(&folder),
            _ => Err(lacks(shown, "it is not btrfs, ext4 or XFS")),
        }
    }
}

/// The error of a file system that has no such quota, or has it turned off.
fn lacks(shown: &Path, reason: &str) -> KernelError {
    KernelError::FilesystemLacks { path: text(shown), feature: FEATURE, reason: reason.to_owned() }
}

/// The error of a folder that has no quota and can't get one.
fn without_quota(shown: &Path) -> KernelError {
    let (expected, found) = ("a folder with a quota", "a folder without, which can't get one any more");
    KernelError::WrongType { path: text(shown), expected, found }
}
