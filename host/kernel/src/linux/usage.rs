//! How full a volume is: `statfs`, and the account of a project or a walk that adds up blocks.

use std::collections::HashSet;
use std::ffi::{CStr, OsStr};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, FileType, StatVfs, Statx, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use super::LinuxKernel;
use super::quota::OwnProject;
use super::tree::{Visitor, walk_tree};
use super::walk::{FOLDER, PLACE, open_beneath};
use crate::error::{KernelError, Result};
use crate::handle::Directory;
use crate::names::{check_name, label, text};
use crate::step::Step;
use crate::usage::{DiskUsage, Usage, Usages};

/// The unit of `st_blocks`, in bytes.
const BLOCK: u64 = 512;
/// Measuring is not urgent: it takes one processor at most.
const THREADS: usize = 1;

/// A file system's report on itself, from the kernel's form.
pub(super) fn of_file_system(stat: &StatVfs) -> Usage {
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Usage {
        capacity: bytes(stat.f_blocks),
        available: bytes(stat.f_bavail),
        used: bytes(stat.f_blocks.saturating_sub(stat.f_bfree)),
        inodes: stat.f_files,
        inodes_free: stat.f_ffree,
        inodes_used: stat.f_files.saturating_sub(stat.f_ffree),
    }
}

impl Usages for LinuxKernel {
    fn usage(&self, folder: &Directory, name: &OsStr) -> Result<Usage> {
        check_name(name)?;
        let path = text(&label(&folder.label, name));
        // A place is opened without asking the server; the one question is the next call.
        let place =
            open_beneath(folder, name, PLACE).map_err(|errno| KernelError::walking(Step::AskUsage, &path, errno))?;
        let stat = rustix::fs::fstatvfs(&place).map_err(|errno| KernelError::failed(Step::AskUsage, &path, errno))?;
        Ok(of_file_system(&stat))
    }

    fn disk_usage(&self, folder: &Directory, name: &OsStr) -> Result<DiskUsage> {
        check_name(name)?;
        let shown = label(&folder.label, name);
        let failed = |errno| KernelError::walking(Step::MeasureFiles, text(&shown), errno);
        if let Some(counted) = OwnProject::of(folder, name).and_then(|project| project.usage()) {
            return Ok(counted);
        }
        let root = open_beneath(folder, name, FOLDER).map_err(failed)?;
        let sum = Sum::default();
        sum.add(&look(&root, c"").map_err(failed)?);
        walk_tree(root, THREADS, &sum);
        let failure = sum.failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        match failure {
            Some((path, errno)) => Err(KernelError::failed(Step::MeasureFiles, text(&shown.join(path)), errno)),
            None => Ok(DiskUsage { bytes: sum.bytes.into_inner(), inodes: sum.inodes.into_inner() }),
        }
    }
}

/// The sum so far.
#[derive(Default)]
struct Sum {
    bytes: AtomicU64,
    inodes: AtomicU64,
    /// Files with several names that were counted.
    linked: Mutex<HashSet<(u32, u32, u64)>>,
    failure: Mutex<Option<(PathBuf, Errno)>>,
}

fn look(fd: impl std::os::fd::AsFd, name: &CStr) -> std::result::Result<Statx, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let asked = StatxFlags::TYPE | StatxFlags::BLOCKS | StatxFlags::NLINK | StatxFlags::INO;
    rustix::fs::statx(fd, name, flags, asked)
}

impl Sum {
    fn add(&self, seen: &Statx) {
        self.inodes.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(seen.stx_blocks.saturating_mul(BLOCK), Ordering::Relaxed);
    }
}

impl Visitor for Sum {
    fn folder(&self, folder: BorrowedFd<'_>) -> std::result::Result<(), Errno> {
        self.add(&look(folder, c"")?);
        Ok(())
    }

    fn entry(&self, folder: BorrowedFd<'_>, name: &CStr) -> std::result::Result<bool, Errno> {
        let seen = look(folder, name)?;
        if seen.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
            return Ok(true);
        }
        if FileType::from_raw_mode(seen.stx_mode.into()) == FileType::Directory {
            return Ok(false);
        }
        let identity = (seen.stx_dev_major, seen.stx_dev_minor, seen.stx_ino);
        let counted =
            seen.stx_nlink > 1 && !self.linked.lock().unwrap_or_else(PoisonError::into_inner).insert(identity);
        if !counted {
            self.add(&seen);
        }
        Ok(true)
    }

    fn failed(&self, path: PathBuf, errno: Errno) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((path, errno));
    }
}
