//! The host's own small records: written at once or not at all, read with a limit.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::LinuxKernel;
use super::stat::{look_closer, type_word};
use super::walk::{FOLDER, open_on_same_mount};
use crate::error::{KernelError, Result};
use crate::handle::Directory;
use crate::names::{check_mode, check_name, label, temporary, text};
use crate::step::Step;
use crate::types::Durability;

pub(super) fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

impl LinuxKernel {
    pub(super) fn write_file_at(
        &self,
        folder: &Directory,
        name: &OsStr,
        bytes: &[u8],
        mode: u32,
        durability: Durability,
    ) -> Result<()> {
        check_name(name)?;
        check_mode(mode)?;
        let temporary = temporary(name);
        check_name(&temporary)?;
        let parent = folder.as_fd();
        let shown = label(&folder.label, name);
        let written = write_new(parent, &temporary, bytes, mode, durability, &shown)
            .and_then(|()| publish(parent, &temporary, name, durability, &shown));
        written.map_err(|cause| {
            let removed = match rustix::fs::unlinkat(parent, &temporary, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(errno) => Err(KernelError::failed(Step::RemoveFile, text(&shown), errno)),
            };
            cause.undone(removed)
        })
    }

    pub(super) fn read_file_at(&self, folder: &Directory, name: &OsStr, limit: usize) -> Result<Option<Vec<u8>>> {
        check_name(name)?;
        let path = text(&label(&folder.label, name));
        // Not blocking: a named pipe put in the file's place must not block us.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = match open_on_same_mount(folder.as_fd(), name, flags) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            // A socket or a device without a driver.
            Err(Errno::NXIO | Errno::NODEV) => return Err(self.wrong_type(folder, name, "a file")),
            Err(errno) => return Err(KernelError::walking(Step::OpenFile, path, errno)),
        };
        let seen =
            look_closer(&fd, "", self.ids()).map_err(|errno| KernelError::failed(Step::Inspect, &path, errno))?;
        if seen.file_type() != FileType::RegularFile {
            let found = type_word(seen.file_type());
            return Err(KernelError::WrongType { path, expected: "a file", found });
        }
        // One byte more than there are: the end is seen without another buffer.
        let room = usize::try_from(seen.size()).unwrap_or(usize::MAX).min(limit).saturating_add(1);
        let mut bytes = Vec::with_capacity(room);
        let one_more = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
        File::from(fd)
            .take(one_more)
            .read_to_end(&mut bytes)
            .map_err(|error| KernelError::failed(Step::ReadFile, &path, errno_of(&error)))?;
        if bytes.len() > limit { Err(KernelError::TooLarge { path, limit }) } else { Ok(Some(bytes)) }
    }

    pub(super) fn remove_file_at(&self, folder: &Directory, name: &OsStr) -> Result<()> {
        check_name(name)?;
        match rustix::fs::unlinkat(folder.as_fd(), name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::ISDIR) => Err(self.wrong_type(folder, name, "a file")),
            Err(errno) => Err(KernelError::failed(Step::RemoveFile, text(&label(&folder.label, name)), errno)),
        }
    }
}

/// Writes a file under its temporary name, whole.
fn write_new(
    parent: BorrowedFd<'_>,
    temporary: &OsStr,
    bytes: &[u8],
    mode: u32,
    durability: Durability,
    shown: &Path,
) -> Result<()> {
    let failed = |step| move |errno| KernelError::failed(step, text(shown), errno);
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Not readable by others until its mode is set.
    let mode_at_first = Mode::RUSR | Mode::WUSR;
    let opened = match rustix::fs::openat(parent, temporary, flags, mode_at_first) {
        Err(Errno::EXIST) => {
            // Left by a crash in the middle of a write.
            rustix::fs::unlinkat(parent, temporary, AtFlags::empty()).map_err(failed(Step::RemoveFile))?;
            rustix::fs::openat(parent, temporary, flags, mode_at_first)
        }
        opened => opened,
    };
    let mut file = File::from(opened.map_err(failed(Step::WriteFile))?);
    file.write_all(bytes).map_err(|error| failed(Step::WriteFile)(errno_of(&error)))?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)).map_err(failed(Step::SetMode))?;
    if durability == Durability::Machine {
        file.sync_all().map_err(|error| failed(Step::WriteFile)(errno_of(&error)))?;
    }
    Ok(())
}

/// Gives the written file its name; the old content goes in the same moment.
fn publish(
    parent: BorrowedFd<'_>,
    temporary: &OsStr,
    name: &OsStr,
    durability: Durability,
    shown: &Path,
) -> Result<()> {
    let failed = |errno| KernelError::failed(Step::PublishFile, text(shown), errno);
    rustix::fs::renameat(parent, temporary, parent, name).map_err(failed)?;
    if durability == Durability::Machine {
        // The name is the folder's, so the folder is synchronised too.
        let folder = open_on_same_mount(parent.as_fd(), ".", FOLDER).map_err(failed)?;
        rustix::fs::fsync(folder).map_err(failed)?;
    }
    Ok(())
}
