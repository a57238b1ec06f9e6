//! Locks of block devices for steps that take them as file systems.

use std::fs::File;

use rustix::io::Errno;

use super::block_device::{in_use, lock};
use super::loop_table::loop_over_device;
use crate::block_devices::BlockDevice;
use crate::error::{DeviceError, KernelError, Result};
use crate::names::text;
use crate::step::Step;

/// [`lock`], of a device that no pod has as a device: its content is used as a file system, or as
/// a device, not as both.
pub(super) fn lock_unshown(device: &BlockDevice, step: Step) -> Result<File> {
    let locked = lock(device, step)?;
    match loop_over_device(device)? {
        None => Ok(locked),
        Some(by) => Err(KernelError::Device(DeviceError::Shown { step, path: text(&device.path), by: text(&by) })),
    }
}

/// [`lock_unshown`], of a device that nothing uses exclusively either, for a step that writes to
/// it.
pub(super) fn lock_unused(device: &BlockDevice, step: Step) -> Result<File> {
    let locked = lock_unshown(device, step)?;
    if in_use(device)? { Err(KernelError::failed(step, text(&device.path), Errno::BUSY)) } else { Ok(locked) }
}
