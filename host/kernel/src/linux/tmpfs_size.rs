//! The size of a file system in memory that is mounted.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::mount::FsPickFlags;

use super::LinuxKernel;
use super::fs_context::log;
use super::walk::{PLACE, open_beneath};
use crate::error::{KernelError, Result};
use crate::handle::Directory;
use crate::names::{check_name, label, text};
use crate::step::Step;

/// `TMPFS_MAGIC` of <linux/magic.h>.
const TMPFS: u64 = 0x0102_1994;

impl LinuxKernel {
    pub(super) fn grow_memory(&self, folder: &Directory, name: &OsStr, bytes: u64) -> Result<bool> {
        check_name(name)?;
        let path = text(&label(&folder.label, name));
        let failed = |errno| KernelError::failed(Step::GrowFileSystem, &path, errno);
        let place = open_beneath(folder.as_fd(), name, PLACE)
            .map_err(|errno| KernelError::walking(Step::GrowFileSystem, &path, errno))?;
        let magic = rustix::fs::fstatfs(&place).map_err(failed)?.f_type;
        // The type's width differs between machines; a magic number has 32 bits.
        if u64::try_from(magic).unwrap_or_default() & u64::from(u32::MAX) != TMPFS {
            return Ok(false);
        }
        let size = rustix::fs::fstatvfs(&place).map_err(failed)?;
        // Without a size it has no limit.
        if size.f_blocks == 0 || size.f_blocks.saturating_mul(size.f_frsize) >= bytes {
            return Ok(true);
        }
        // The kernel wants to hear again that one may not be swapped out, and never for another.
        match resize(place.as_fd(), bytes, false) {
            Err((Errno::INVAL, _)) => resize(place.as_fd(), bytes, true),
            resized => resized,
        }
        .map_err(|(errno, detail)| KernelError::Failed {
            step: Step::GrowFileSystem,
            path: path.clone(),
            errno,
            detail,
        })?;
        Ok(true)
    }
}

/// Sets the size of the tmpfs of which `place` is the root. An error comes with the kernel's words.
fn resize(place: BorrowedFd<'_>, bytes: u64, noswap: bool) -> std::result::Result<(), (Errno, String)> {
    let flags = FsPickFlags::FSPICK_EMPTY_PATH | FsPickFlags::FSPICK_CLOEXEC;
    let context = rustix::mount::fspick(place, "", flags).map_err(|errno| (errno, String::new()))?;
    let configure = || {
        rustix::mount::fsconfig_set_string(&context, "size", bytes.to_string())?;
        if noswap {
            rustix::mount::fsconfig_set_flag(&context, "noswap")?;
        }
        rustix::mount::fsconfig_reconfigure(&context)
    };
    configure().map_err(|errno| (errno, log(context.as_fd())))
}
