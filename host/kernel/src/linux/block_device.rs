//! Opening block devices and asking about them. A handle is a place: the device itself is opened
//! for one question and closed.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, FlockOperation, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::LinuxKernel;
use super::ioctl::{device_bytes, device_is_read_only};
use super::stat::{IdKind, StatxAnswer, look, look_closer, type_word};
use super::walk::{PLACE, path_of, proc_path};
use crate::block_devices::BlockDevice;
use crate::child::unless_a_child_is_made;
use crate::error::{DeviceError, KernelError, Result};
use crate::handle::MountSource;
use crate::names::{check_absolute, text};
use crate::step::Step;
use crate::types::DeviceNumber;

/// For questions: no right to write, and no waiting for a medium.
const ASK: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Opens the device behind a node.
pub(super) fn open_node(node: BorrowedFd<'_>, flags: OFlags) -> std::result::Result<File, Errno> {
    rustix::fs::open(proc_path(node, None), flags, Mode::empty()).map(File::from)
}

/// Opens a device for a step.
pub(super) fn open_device(device: &BlockDevice, step: Step) -> Result<File> {
    open_node(device.as_fd(), ASK).map_err(|errno| asking(device, step, errno))
}

/// The error of a step on a device. That no device answers to its node has an error of its own.
pub(super) fn asking(device: &BlockDevice, step: Step, errno: Errno) -> KernelError {
    match errno {
        Errno::NXIO | Errno::NODEV | Errno::NOENT => {
            KernelError::Device(DeviceError::Gone { path: text(&device.path), wanted: device.number })
        }
        errno => KernelError::failed(step, text(&device.path), errno),
    }
}

/// Makes sure that the device's path names this device, before and after it is given to a program
/// that takes only paths.
pub(super) fn check_path(device: &BlockDevice) -> Result<()> {
    match look(CWD, &device.path, IdKind::Reused) {
        Ok(seen) if seen.file_type() == FileType::BlockDevice && seen.node() == device.number => Ok(()),
        Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => {
            Err(KernelError::Device(DeviceError::Gone { path: text(&device.path), wanted: device.number }))
        }
        Err(errno) => Err(KernelError::failed(Step::InspectDevice, text(&device.path), errno)),
    }
}

/// Returns whether the device is open exclusively, which excludes every other user.
pub(super) fn in_use(device: &BlockDevice) -> Result<bool> {
    let node = device.as_fd();
    match unless_a_child_is_made(|| open_node(node, ASK | OFlags::EXCL)) {
        Ok(_) => Ok(false),
        Err(Errno::BUSY) => Ok(true),
        Err(errno) => Err(asking(device, Step::CheckUse, errno)),
    }
}

/// Takes the device's lock, which tools that write file systems and what watches devices (udev)
/// agree upon. Waits for it: its holders are short.
pub(super) fn lock(device: &BlockDevice, step: Step) -> Result<File> {
    let opened = open_device(device, step)?;
    rustix::fs::flock(&opened, FlockOperation::LockExclusive).map_err(|errno| asking(device, step, errno))?;
    Ok(opened)
}

/// A device by its node, wherever that is.
pub(super) fn device_of_node(node: OwnedFd, seen: &StatxAnswer, path: PathBuf) -> BlockDevice {
    BlockDevice { fd: node, path, number: seen.node() }
}

impl LinuxKernel {
    pub(super) fn open_device_at(&self, path: &Path) -> Result<BlockDevice> {
        check_absolute(path)?;
        let node = rustix::fs::openat2(CWD, path, PLACE, Mode::empty(), ResolveFlags::NO_MAGICLINKS)
            .map_err(|errno| KernelError::walking(Step::OpenDevice, text(path), errno))?;
        self.device_behind(node, path)
    }

    pub(super) fn device_of_source(&self, source: &MountSource) -> Result<BlockDevice> {
        let node = source.fd.try_clone().map_err(|error| super::lost_handle(&source.label, &error))?;
        self.device_behind(node, &source.label)
    }

    pub(super) fn device_behind(&self, node: OwnedFd, shown: &Path) -> Result<BlockDevice> {
        let failed = |errno| KernelError::failed(Step::OpenDevice, text(shown), errno);
        let seen = look_closer(&node, "", self.ids()).map_err(failed)?;
        if seen.file_type() != FileType::BlockDevice {
            let found = type_word(seen.file_type());
            return Err(KernelError::WrongType { path: text(shown), expected: "a block device", found });
        }
        let path = path_of(node.as_fd()).map_err(failed)?;
        Ok(device_of_node(node, &seen, path))
    }

    pub(super) fn size_of_device(&self, device: &BlockDevice) -> Result<u64> {
        device_bytes(open_device(device, Step::InspectDevice)?)
            .map_err(|errno| asking(device, Step::InspectDevice, errno))
    }

    pub(super) fn is_device_read_only(&self, device: &BlockDevice) -> Result<bool> {
        device_is_read_only(open_device(device, Step::InspectDevice)?)
            .map_err(|errno| asking(device, Step::InspectDevice, errno))
    }
}

impl StatxAnswer {
    /// The device of a node.
    pub(super) fn node(&self) -> DeviceNumber {
        let (major, minor) = self.node_numbers();
        DeviceNumber { major, minor }
    }
}
