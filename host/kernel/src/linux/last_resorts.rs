//! Ending connections to servers of FUSE file systems, and hearing of changes of the mount table.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags};

use super::LinuxKernel;
use super::stat::look;
use crate::error::{KernelError, Result};
use crate::fuse::{FuseConnection, FuseMounts};
use crate::handle::Directory;
use crate::kernel::Kernel;
use crate::last_resorts::LastResorts;
use crate::names::{check_name, label, text};
use crate::step::Step;

/// Bits of a device number that are the minor one, where the kernel keeps it in one word.
const MINOR_BITS: u32 = 20;
/// Polling this file reports changes of the mount table.
const MOUNT_TABLE: &str = "/proc/self/mountinfo";

impl LastResorts for LinuxKernel {
    fn end_server(&self, directory: &Directory, name: &OsStr) -> Result<bool> {
        check_name(name)?;
        let shown = label(&directory.label, name);
        let mount = self.mount_at(directory, name)?;
        let is_fuse = |fs_type: &str| fs_type == "fuse" || fs_type == "fuseblk" || fs_type.starts_with("fuse.");
        if !mount.is_some_and(|mount| is_fuse(&mount.fs_type)) {
            return Ok(false);
        }
        let seen = look(directory.as_fd(), name, self.ids())
            .map_err(|errno| KernelError::failed(Step::Inspect, text(&shown), errno))?;
        let (major, minor) = seen.device();
        // The kernel names a connection by the number of its file system's device.
        self.end_connection(FuseConnection((major << MINOR_BITS) | minor))
    }
}

/// The mount table of this process, to be polled for `POLLPRI`.
pub(super) fn mount_changes() -> Result<OwnedFd> {
    rustix::fs::openat(CWD, MOUNT_TABLE, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| KernelError::failed(Step::ListMounts, MOUNT_TABLE, errno))
}
