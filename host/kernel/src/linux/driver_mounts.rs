//! For programs that mount by themselves: what they get, and what they did.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::PathBuf;

use rustix::fs::{AtFlags, CWD, FileType};
use rustix::io::Errno;

use super::LinuxKernel;
use super::stat::{IdKind, look, look_closer};
use super::walk::{PLACE, open_beneath, path_of};
use crate::block_devices::BlockDevice;
use crate::driver_mounts::DriverMounts;
use crate::error::{KernelError, Result};
use crate::handle::Directory;
use crate::kernel::Kernel;
use crate::mount_snapshot::MountSnapshot;
use crate::names::{check_name, label, text};
use crate::step::Step;
use crate::types::{Detach, MountInfo};

impl DriverMounts for LinuxKernel {
    fn absolute_path(&self, directory: &Directory) -> Result<PathBuf> {
        let folder = directory.as_fd();
        let failed = |errno| KernelError::failed(Step::OpenFolder, text(&directory.label), errno);
        let path = path_of(folder).map_err(failed)?;
        // A removed folder still has a path in /proc, with a word after it that could be part of a
        // name.
        let here = look_closer(folder, "", IdKind::Reused).map_err(failed)?;
        let there = look_closer(CWD, &path, IdKind::Reused).map_err(failed)?;
        if here.identity() == there.identity() { Ok(path) } else { Err(failed(Errno::NOENT)) }
    }

    fn mounts_now(&self) -> Result<MountSnapshot> {
        self.snapshot().map_err(|errno| KernelError::failed(Step::ListMounts, "/", errno))
    }

    fn mounts_besides(&self, known: &MountSnapshot) -> Result<Vec<MountInfo>> {
        self.others(known).map_err(|errno| KernelError::failed(Step::ListMounts, "/", errno))
    }

    fn device_at(&self, directory: &Directory, name: &OsStr) -> Result<Option<BlockDevice>> {
        check_name(name)?;
        let shown = label(&directory.label, name);
        match open_beneath(directory.as_fd(), name, PLACE) {
            Ok(node) => self.device_behind(node, &shown).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(KernelError::walking(Step::OpenDevice, text(&shown), errno)),
        }
    }

    fn clear_place(&self, directory: &Directory, name: &OsStr) -> Result<()> {
        self.detach(directory, name, Detach::Normal).or_else(|error| {
            // What is no mount point of the host's own may be the node that a driver made.
            let folder = directory.as_fd();
            let seen = look(folder, name, IdKind::Reused);
            if !seen.is_ok_and(|seen| seen.file_type() == FileType::BlockDevice && !seen.is_mount_root()) {
                return Err(error);
            }
            let shown = label(&directory.label, name);
            rustix::fs::unlinkat(folder, name, AtFlags::empty())
                .map_err(|errno| KernelError::failed(Step::RemoveFile, text(&shown), errno))
        })
    }
}
