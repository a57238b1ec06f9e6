//! Files that only grow: each append is one system call.

use std::ffi::OsStr;
use std::os::fd::AsFd;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::LinuxKernel;
use super::stat::{look_closer, type_word};
use crate::error::{KernelError, Result};
use crate::handle::{AppendFile, Directory};
use crate::names::{check_mode, check_name, label, text};
use crate::step::Step;

impl LinuxKernel {
    pub(super) fn open_append_at(
        &self,
        folder: &Directory,
        name: &OsStr,
        make: Option<u32>,
    ) -> Result<Option<AppendFile>> {
        check_name(name)?;
        let shown = label(&folder.label, name);
        // Not blocking: a named pipe put in the file's place must not block us.
        let mut flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut mode = Mode::empty();
        if let Some(wanted) = make {
            check_mode(wanted)?;
            flags |= OFlags::CREATE;
            mode = Mode::from_raw_mode(wanted);
        }
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        let fd = match rustix::fs::openat2(folder.as_fd(), name, flags, mode, resolve) {
            Ok(fd) => fd,
            Err(Errno::NOENT) if make.is_none() => return Ok(None),
            // A folder, a socket, a pipe without a reader, a device without a driver.
            Err(Errno::ISDIR | Errno::NXIO | Errno::NODEV) => return Err(self.wrong_type(folder, name, "a file")),
            Err(errno) => return Err(KernelError::walking(Step::OpenFile, text(&shown), errno)),
        };
        let seen = look_closer(&fd, "", self.ids())
            .map_err(|errno| KernelError::failed(Step::Inspect, text(&shown), errno))?;
        if seen.file_type() != FileType::RegularFile {
            let found = type_word(seen.file_type());
            return Err(KernelError::WrongType { path: text(&shown), expected: "a file", found });
        }
        Ok(Some(AppendFile { fd, label: shown, bytes: seen.size() }))
    }

    pub(super) fn append_to(&self, file: &AppendFile, bytes: &[u8]) -> Result<()> {
        let failed = |errno| KernelError::failed(Step::WriteFile, text(&file.label), errno);
        let mut written = 0;
        let cause = loop {
            let rest = bytes.get(written..).unwrap_or_default();
            match rustix::io::write(file, rest) {
                Ok(count) if count >= rest.len() => return Ok(()),
                Ok(0) => break failed(Errno::IO),
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(errno) => break failed(errno),
            }
        };
        // What there was no room for must not be taken for the beginning of the next.
        let taken_back = if written == 0 { Ok(()) } else { self.shorten(file, written) };
        Err(cause.undone(taken_back.map_err(failed)))
    }

    fn shorten(&self, file: &AppendFile, by: usize) -> std::result::Result<(), Errno> {
        let size = look_closer(file, "", self.ids())?.size();
        rustix::fs::ftruncate(file, size.saturating_sub(u64::try_from(by).unwrap_or(u64::MAX)))
    }
}
