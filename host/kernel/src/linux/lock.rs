//! One volhost a root folder: an exclusive lock on a file in it, held by an open descriptor.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;

use rustix::fs::{FlockOperation, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::LinuxKernel;
use crate::error::{KernelError, Result};
use crate::handle::{Directory, RootLock};
use crate::names::{check_name, label, text};
use crate::step::Step;

/// A process id and a line end fit well into this, in bytes.
const PID_BYTES: u64 = 32;

impl LinuxKernel {
    pub(super) fn lock_at(&self, folder: &Directory, name: &OsStr) -> Result<RootLock> {
        check_name(name)?;
        let path = text(&label(&folder.label, name));
        let failed = |errno| KernelError::walking(Step::Lock, &path, errno);
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let folder = folder.as_fd();
        let (fd, writable) = match rustix::fs::openat2(folder, name, flags, Mode::RUSR | Mode::WUSR, beneath) {
            // The file of an earlier run can be locked on a read-only file system, too.
            Err(Errno::ROFS) => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let opened = rustix::fs::openat2(folder, name, flags, Mode::empty(), beneath);
                // Without a file, the first answer says what is wrong.
                (opened.map_err(|errno| failed(if errno == Errno::NOENT { Errno::ROFS } else { errno }))?, false)
            }
            opened => (opened.map_err(failed)?, true),
        };
        let mut file = File::from(fd);
        // On the open file, not the process: it ends with the descriptor, however the process ends.
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::AGAIN) => {
                return Err(KernelError::InUse { path, pid: read_pid(&file) });
            }
            Err(errno) => return Err(failed(errno)),
        }
        if !writable {
            return Ok(RootLock { _fd: file.into() });
        }
        // Shown to a process that finds the lock taken; it decides nothing.
        file.set_len(0)
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .map_err(|error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        Ok(RootLock { _fd: file.into() })
    }
}

fn read_pid(file: &File) -> Option<u32> {
    let mut text = String::new();
    file.take(PID_BYTES).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
