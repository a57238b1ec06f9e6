//! The system call `quotactl_fd` (Linux 5.14), for projects. Its requests of XFS's form are answered
//! by ext4 too.
#![expect(unsafe_code, reason = "a raw system call, whose argument depends on the request")]

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use crate::linux::syscall::last_errno;
use crate::usage::DiskUsage;

// <linux/quota.h>, <linux/dqblk_xfs.h>
const PROJECTS: u32 = 2;
const GET_QUOTA: u32 = 0x5803;
const SET_LIMIT: u32 = 0x5804;
const GET_STATE: u32 = 0x5808;
const STATE_VERSION: i8 = 1;
const QUOTA_VERSION: i8 = 1;
const PROJECT_ENFORCED: u16 = 1 << 5;
const OF_PROJECT: i8 = 2;
const HARD_LIMIT_OF_BLOCKS: u16 = 1 << 3;
/// The unit of a [`Quota`]'s blocks, in bytes.
const BLOCK: u64 = 512;

/// `struct fs_quota_statv`.
#[repr(C)]
struct QuotaState {
    version: i8,
    pad: u8,
    flags: u16,
    in_core: u32,
    files: [[u64; 3]; 3],
    time_limits: [i32; 3],
    warnings: [u16; 4],
    pad2: u32,
    pad3: [u64; 7],
}

/// `struct fs_disk_quota`.
#[repr(C)]
#[derive(Default)]
struct Quota {
    version: i8,
    kind: i8,
    /// Which of the fields after it are to be set.
    changed: u16,
    id: u32,
    hard_blocks: u64,
    soft_blocks: u64,
    hard_inodes: u64,
    soft_inodes: u64,
    blocks: u64,
    inodes: u64,
    timers: [i32; 2],
    warnings: [u16; 2],
    timers_high: [i8; 4],
    real_time: [u64; 3],
    real_time_timer: i32,
    real_time_warnings: u16,
    pad: i16,
    pad2: [u8; 8],
}

const _: () = assert!(size_of::<QuotaState>() == 160 && size_of::<Quota>() == 112);

/// Returns whether the file system of an open file keeps projects below their limits.
pub(super) fn enforces_projects(fd: BorrowedFd<'_>) -> Result<bool, Errno> {
    let mut state = QuotaState {
        version: STATE_VERSION,
        pad: 0,
        flags: 0,
        in_core: 0,
        files: [[0; 3]; 3],
        time_limits: [0; 3],
        warnings: [0; 4],
        pad2: 0,
        pad3: [0; 7],
    };
    // SAFETY: the request reads and fills a `struct fs_quota_statv`, which `QuotaState` is.
    match unsafe { call(fd, GET_STATE, 0, &mut state) } {
        Ok(()) => Ok(state.flags & PROJECT_ENFORCED != 0),
        // The kernel has no quotas, or the file system keeps no account.
        Err(Errno::NOSYS | Errno::INVAL | Errno::OPNOTSUPP | Errno::SRCH) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// What the files of a project take.
pub(super) fn project_usage(fd: BorrowedFd<'_>, project: u32) -> Result<DiskUsage, Errno> {
    let mut quota = Quota::default();
    // SAFETY: the request fills a `struct fs_disk_quota`, which `Quota` is.
    match unsafe { call(fd, GET_QUOTA, project, &mut quota) } {
        Ok(()) => Ok(DiskUsage { bytes: quota.blocks.saturating_mul(BLOCK), inodes: quota.inodes }),
        // XFS: it has no limit and no files.
        Err(Errno::NOENT) => Ok(DiskUsage::default()),
        Err(errno) => Err(errno),
    }
}

/// Keeps the files of a project below so many bytes; none removes the limit.
pub(super) fn set_project_limit(fd: BorrowedFd<'_>, project: u32, limit: Option<u64>) -> Result<(), Errno> {
    let mut quota = Quota {
        version: QUOTA_VERSION,
        kind: OF_PROJECT,
        changed: HARD_LIMIT_OF_BLOCKS,
        id: project,
        // 0 is no limit.
        hard_blocks: limit.map_or(0, |bytes| (bytes / BLOCK).max(1)),
        ..Quota::default()
    };
    // SAFETY: the request reads a `struct fs_disk_quota`, which `Quota` is.
    unsafe { call(fd, SET_LIMIT, project, &mut quota) }
}

/// # Safety
/// `T` is the structure that the request reads or fills.
unsafe fn call<T>(fd: BorrowedFd<'_>, request: u32, id: u32, argument: &mut T) -> Result<(), Errno> {
    let command = (request << 8) | PROJECTS;
    // SAFETY: the pointer is to a live structure of the request's type, as the caller says.
    let done =
        unsafe { libc::syscall(libc::SYS_quotactl_fd, fd.as_raw_fd(), command, id, std::ptr::from_mut(argument)) };
    if done == 0 { Ok(()) } else { Err(last_errno()) }
}
