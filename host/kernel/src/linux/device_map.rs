//! Block devices shown to pods: the node bound onto a file, a link to it, and the pin that keeps
//! it.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use super::LinuxKernel;
use super::block_device::{check_path, in_use, lock};
use super::format_mark::forget_format;
use super::ioctl::{LOOP_READ_ONLY, LoopStatus};
use super::loop_table::{Loop, attached, connect, loop_over_device, note, open_backing, release};
use super::stat::{StatxAnswer, look, look_closer};
use super::walk::{PLACE, open_beneath};
use crate::block_devices::{BlockDevice, BlockDevices};
use crate::driver_mounts::DriverMounts;
use crate::error::{DeviceError, KernelError, Result};
use crate::handle::{Directory, MountSource, SourceKind};
use crate::kernel::Kernel;
use crate::names::{check_name, label, temporary, text};
use crate::step::Step;
use crate::types::DeviceNumber;

/// A pin is never read, so the kernel may choose its sectors.
const BY_THE_KERNEL: u32 = 0;

impl BlockDevices for LinuxKernel {
    fn open_block_device(&self, path: &std::path::Path) -> Result<BlockDevice> {
        self.open_device_at(path)
    }

    fn block_device_of(&self, source: &MountSource) -> Result<BlockDevice> {
        self.device_of_source(source)
    }

    fn device_size(&self, device: &BlockDevice) -> Result<u64> {
        self.size_of_device(device)
    }

    fn device_read_only(&self, device: &BlockDevice) -> Result<bool> {
        self.is_device_read_only(device)
    }

    fn device_in_use(&self, device: &BlockDevice) -> Result<bool> {
        in_use(device)
    }

    fn map_device(&self, device: &BlockDevice, directory: &Directory, name: &OsStr) -> Result<()> {
        match self.mapped_device(directory, name)? {
            Some(found) if found == device.number => return Ok(()),
            Some(found) => {
                let path = text(&label(&directory.label, name));
                return Err(KernelError::Device(DeviceError::Other { path, found, wanted: device.number }));
            }
            None => {}
        }
        not_mounted(device)?;
        forget_format(device)?;
        let node = device.as_fd().try_clone_to_owned().map_err(|error| super::lost_handle(&device.path, &error))?;
        let source = MountSource { fd: node, label: device.path.clone(), kind: SourceKind::BlockDevice };
        self.attach(self.bind(&source, false)?, directory, name)
    }

    fn mapped_device(&self, directory: &Directory, name: &OsStr) -> Result<Option<DeviceNumber>> {
        Ok(self.mapped_node(directory, name)?.map(|(_, seen)| seen.node()))
    }

    fn link_device(&self, device: &BlockDevice, directory: &Directory, name: &OsStr) -> Result<()> {
        check_name(name)?;
        let temporary = temporary(name);
        check_name(&temporary)?;
        let folder = directory.as_fd();
        let failed = |errno| KernelError::failed(Step::LinkDevice, text(&label(&directory.label, name)), errno);
        check_path(device)?;
        match self.linked_device(directory, name)? {
            Some(path) if path == device.path => return Ok(()),
            _ => {}
        }
        match rustix::fs::symlinkat(&device.path, folder, &temporary) {
            Err(Errno::EXIST) => {
                // Left by a crash between the two calls.
                rustix::fs::unlinkat(folder, &temporary, AtFlags::empty()).map_err(failed)?;
                rustix::fs::symlinkat(&device.path, folder, &temporary)
            }
            made => made,
        }
        .map_err(failed)?;
        rustix::fs::renameat(folder, &temporary, folder, name).map_err(|errno| {
            failed(errno).undone(rustix::fs::unlinkat(folder, &temporary, AtFlags::empty()).map_err(failed))
        })
    }

    fn linked_device(&self, directory: &Directory, name: &OsStr) -> Result<Option<PathBuf>> {
        check_name(name)?;
        match rustix::fs::readlinkat(directory.as_fd(), name, Vec::new()) {
            Ok(target) => Ok(Some(PathBuf::from(OsString::from_vec(target.into_bytes())))),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::INVAL) => Err(self.wrong_type(directory, name, "a symbolic link")),
            Err(errno) => Err(KernelError::failed(Step::Inspect, text(&label(&directory.label, name)), errno)),
        }
    }

    fn pin_device(&self, directory: &Directory, name: &OsStr) -> Result<BlockDevice> {
        let shown = label(&directory.label, name);
        let Some((node, seen)) = self.mapped_node(directory, name)? else {
            return Err(KernelError::Device(DeviceError::NotMapped { path: text(&shown) }));
        };
        if let Some(pin) = self.pins_of(&seen, directory, name)?.into_iter().next() {
            return Ok(pin.device);
        }
        let copy = node.try_clone().map_err(|error| super::lost_handle(&shown, &error))?;
        let device = self.device_behind(copy, &shown)?;
        // A thread that mounts it has the lock meanwhile: either the mount is seen here, or the pin
        // there.
        let _lock = lock(&device, Step::AttachLoop)?;
        not_mounted(&device)?;
        // For reading alone: the pin keeps the device, and no process can write past its user.
        let backing = open_backing(node.as_fd(), true)
            .map_err(|errno| KernelError::failed(Step::AttachLoop, text(&shown), errno))?;
        let status = LoopStatus::new(LOOP_READ_ONLY, pin_note(&seen));
        let (path, _) = connect(&backing, BY_THE_KERNEL, status, &text(&shown))?;
        self.open_device_at(&path)
    }

    fn unpin_device(&self, directory: &Directory, name: &OsStr) -> Result<()> {
        let shown = text(&label(&directory.label, name));
        let Some((node, seen)) = self.mapped_node(directory, name)? else {
            return Ok(());
        };
        drop(node);
        self.pins_of(&seen, directory, name)?.iter().try_for_each(|pin| release(pin, &shown))
    }
}

/// Refuses a device that is mounted as a file system, or that another program has open exclusively:
/// a pod that got it would write below that. What a pod that has it as a device does with it is
/// that pod's own.
fn not_mounted(device: &BlockDevice) -> Result<()> {
    if in_use(device)? && loop_over_device(device)?.is_none() {
        return Err(KernelError::Device(DeviceError::Mounted { path: text(&device.path) }));
    }
    Ok(())
}

/// The identity of a pin: the mount that shows the device. The pin itself keeps that mount, so its
/// id can't be another's.
fn pin_note(seen: &StatxAnswer) -> [u8; super::ioctl::NOTE_BYTES] {
    note(&format!("volhost pin of mount {}", seen.mount_id()))
}

impl LinuxKernel {
    /// The node that is mapped at a name: the root of a mount, and a block device.
    fn mapped_node(&self, directory: &Directory, name: &OsStr) -> Result<Option<(OwnedFd, StatxAnswer)>> {
        check_name(name)?;
        let folder = directory.as_fd();
        let failed = |errno| KernelError::failed(Step::Inspect, text(&label(&directory.label, name)), errno);
        let node = match look(folder, name, self.ids()) {
            // Opened only when it is known to be no link and no folder of a dead server.
            Ok(seen) if seen.is_mount_root() && seen.file_type() == FileType::BlockDevice => {
                open_beneath(folder, name, PLACE).map_err(failed)?
            }
            Ok(_) | Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
        let seen = look_closer(&node, "", self.ids()).map_err(failed)?;
        Ok(Some((node, seen)))
    }

    /// The pins of the device that is mapped by this mount at this path: the host's, and a
    /// kubelet's in a root folder that was adopted. The kubelet knows its own by the path of the
    /// file, and so would find the host's.
    fn pins_of(&self, mapped: &StatxAnswer, directory: &Directory, name: &OsStr) -> Result<Vec<Loop>> {
        let wanted = pin_note(mapped);
        // A folder that cannot be reached by its path has no pin of the kubelet's.
        let path = self.absolute_path(directory).ok().map(|folder| folder.join(name));
        let mut pins = attached(&text(&label(&directory.label, name)))?;
        pins.retain(|one| {
            one.is_whole(mapped) && (one.status.note == wanted || (path.is_some() && one.backing_path() == path))
        });
        Ok(pins)
    }
}
