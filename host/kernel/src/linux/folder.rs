//! Plain folders of the host's own: exact mode and group, removal when empty.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode};
use rustix::io::Errno;

use super::LinuxKernel;
use super::stat::look;
use super::walk::{FOLDER, make_exact, open_on_same_mount};
use crate::error::{KernelError, Result};
use crate::handle::Directory;
use crate::names::{check_mode, check_name, label, text};
use crate::step::Step;

/// The group id that means "leave it as it is" to chown, so no group has it.
const NO_GROUP: u32 = u32::MAX;

impl LinuxKernel {
    pub(super) fn make_folder_at(&self, folder: &Directory, name: &OsStr, mode: u32, group: Option<u32>) -> Result<()> {
        check_name(name)?;
        check_mode(mode)?;
        if group == Some(NO_GROUP) {
            return Err(KernelError::InvalidPath { path: NO_GROUP.to_string(), rule: "no group has this id" });
        }
        let parent = folder.as_fd();
        let shown = label(&folder.label, name);
        let made = make_exact(parent, name, mode, &shown)?;
        if made.is_some() && group.is_none() {
            return Ok(());
        }
        set_ownership(parent, name, mode, group, &shown).map_err(|cause| {
            if made.is_none() {
                return cause;
            }
            cause.undone(
                rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
                    .map_err(|errno| KernelError::failed(Step::RemoveFolder, text(&shown), errno)),
            )
        })
    }

    pub(super) fn move_folder_to(
        &self,
        from: &Directory,
        name: &OsStr,
        to: &Directory,
        new_name: &OsStr,
    ) -> Result<()> {
        check_name(name)?;
        check_name(new_name)?;
        let shown = text(&label(&from.label, name));
        let entry = look(from.as_fd(), name, self.ids())
            .map_err(|errno| KernelError::failed(Step::MoveFolder, &shown, errno))?;
        if !entry.is_folder() {
            return Err(self.wrong_type(from, name, "a folder"));
        }
        let path = text(&label(&to.label, new_name));
        match rustix::fs::renameat(from.as_fd(), name, to.as_fd(), new_name) {
            Ok(()) => Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Err(KernelError::NotEmpty { path }),
            Err(Errno::NOTDIR) => Err(self.wrong_type(to, new_name, "a folder")),
            Err(Errno::BUSY) => Err(KernelError::MountInside { path: shown }),
            Err(errno) => Err(KernelError::failed(Step::MoveFolder, shown, errno)),
        }
    }

    pub(super) fn remove_empty_dir_at(&self, folder: &Directory, name: &OsStr) -> Result<()> {
        check_name(name)?;
        let path = text(&label(&folder.label, name));
        match rustix::fs::unlinkat(folder.as_fd(), name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Err(KernelError::NotEmpty { path }),
            Err(Errno::NOTDIR) => Err(self.wrong_type(folder, name, "a folder")),
            Err(Errno::BUSY) => Err(KernelError::MountInside { path }),
            Err(errno) => Err(KernelError::failed(Step::RemoveFolder, path, errno)),
        }
    }
}

/// Sets group, then mode, of a folder that is checked, by being opened so, to lie on its parent's
/// mount.
fn set_ownership(parent: BorrowedFd<'_>, name: &OsStr, mode: u32, group: Option<u32>, shown: &Path) -> Result<()> {
    let fd = match open_on_same_mount(parent, name, FOLDER) {
        Err(Errno::XDEV) => return Err(KernelError::AlreadyMounted { path: text(shown) }),
        opened => opened.map_err(|errno| KernelError::walking(Step::OpenFolder, text(shown), errno))?,
    };
    if let Some(group) = group {
        rustix::fs::fchown(&fd, None, Some(Gid::from_raw(group)))
            .map_err(|errno| KernelError::failed(Step::SetGroup, text(shown), errno))?;
    }
    // After the group: changing that may clear setgid.
    rustix::fs::fchmod(&fd, Mode::from_raw_mode(mode))
        .map_err(|errno| KernelError::failed(Step::SetMode, text(shown), errno))
}
