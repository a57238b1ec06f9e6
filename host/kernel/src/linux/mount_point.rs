//! Mount points: made before a mount, removed after it, and never with data in them.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::LinuxKernel;
use super::stat::{look, look_closer};
use super::walk::{FOLDER, is_empty, open_on_same_mount};
use crate::error::{KernelError, Result};
use crate::names::text;
use crate::step::Step;

/// Mode of a mount point. It shows only when another process has unmounted the volume; then no
/// process shall write there by mistake.
const POINT_MODE: u32 = 0;

impl LinuxKernel {
    /// Makes the mount point, or accepts an empty one that is there. True if it was made.
    pub(super) fn make_mount_point(
        &self,
        into: BorrowedFd<'_>,
        name: &OsStr,
        folder: bool,
        shown: &Path,
    ) -> Result<bool> {
        let made = if folder {
            rustix::fs::mkdirat(into, name, Mode::from_raw_mode(POINT_MODE))
        } else {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(POINT_MODE);
            rustix::fs::openat(into, name, flags, mode).map(drop)
        };
        match made {
            Ok(()) => return Ok(true),
            Err(Errno::EXIST) => {}
            Err(errno) => {
                return Err(KernelError::failed(Step::MakeMountPoint, text(shown), errno));
            }
        }
        let seen =
            look(into, name, self.ids()).map_err(|errno| KernelError::failed(Step::Inspect, text(shown), errno))?;
        if seen.is_mount_root() {
            return Err(KernelError::AlreadyMounted { path: text(shown) });
        }
        let empty = self.is_empty_point(into, name, folder, shown)?;
        if empty { Ok(false) } else { Err(KernelError::NotEmpty { path: text(shown) }) }
    }

    /// Returns whether a plain entry is of the wanted type and empty.
    fn is_empty_point(&self, into: BorrowedFd<'_>, name: &OsStr, folder: bool, shown: &Path) -> Result<bool> {
        let failed = |errno| KernelError::walking(Step::Inspect, text(shown), errno);
        let seen = look_closer(into, name, self.ids()).map_err(failed)?;
        let found = super::stat::type_word(seen.file_type());
        match (seen.file_type(), folder) {
            (FileType::Symlink, _) => Err(KernelError::SymbolicLink { path: text(shown) }),
            (FileType::Directory, true) => open_on_same_mount(into, name, FOLDER).and_then(is_empty).map_err(failed),
            (FileType::RegularFile, false) => Ok(seen.size() == 0),
            (_, true) => Err(KernelError::WrongType { path: text(shown), expected: "a folder", found }),
            (_, false) => Err(KernelError::WrongType { path: text(shown), expected: "an empty file", found }),
        }
    }

    /// Removes an empty folder or empty file where a mount was; refuses anything else.
    pub(super) fn remove_mount_point(&self, from: BorrowedFd<'_>, name: &OsStr, shown: &Path) -> Result<()> {
        let failed = |errno| match errno {
            Errno::NOTEMPTY | Errno::EXIST => KernelError::NotEmpty { path: text(shown) },
            errno => KernelError::failed(Step::RemoveMountPoint, text(shown), errno),
        };
        // Nearly always a folder, and the kernel refuses what is none or is not empty.
        match rustix::fs::unlinkat(from, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTDIR) => {}
            Err(errno) => return Err(failed(errno)),
        }
        if !self.is_empty_point(from, name, false, shown)? {
            return Err(KernelError::NotEmpty { path: text(shown) });
        }
        match rustix::fs::unlinkat(from, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(failed(errno)),
        }
    }
}
