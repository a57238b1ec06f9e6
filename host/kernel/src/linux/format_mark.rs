//! The mark of an image in which a file system is being made, until that is mounted for the first
//! time. What a format leaves that was killed with its program, or by a loss of power, is no data of
//! anybody, though it looks like some: by the mark it is known, and formatted again.

use std::fs::File;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::block_device::{asking, open_device};
use super::loop_table::backing_file;
use crate::block_devices::BlockDevice;
use crate::error::{DeviceError, KernelError, Result};
use crate::names::text;
use crate::step::Step;
use crate::types::DeviceNumber;

/// The attribute of an image file that is being formatted: when that began, in seconds since 1970,
/// and [`MADE`] when it is done, until it is mounted or a pod gets it as a device. Only root sees it.
/// A copy of an image has none.
const ATTRIBUTE: &str = "trusted.volhost.format";
const MADE: &[u8] = b"made";
/// Where the kernel lists processes.
const PROCESSES: &str = "/proc";
/// The longest value, in bytes.
const VALUE_BYTES: usize = 24;

/// An image in which a file system is being made.
#[derive(Debug)]
pub(super) struct MarkedImage(File);

impl MarkedImage {
    /// Marks the image below this device, before the first byte is written, so that the mark outlives
    /// a loss of power. None for a device without an image, and where the image's file system keeps no
    /// attributes.
    ///
    /// # Errors
    /// `Failed`; the image may be marked.
    pub(super) fn mark(device: &BlockDevice) -> Result<Option<Self>> {
        let failed = |errno| asking(device, Step::FormatDevice, errno);
        let opened = open_device(device, Step::FormatDevice)?;
        let Some(image) = backing_file(device.number(), &opened).map_err(failed)? else { return Ok(None) };
        match rustix::fs::fsetxattr(&image, ATTRIBUTE, now().to_string().as_bytes(), XattrFlags::empty()) {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS | Errno::ROFS) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        }
        rustix::fs::fsync(&image).map_err(failed)?;
        Ok(Some(Self(image)))
    }

    /// Notes that the file system is made, and on the disk.
    ///
    /// # Errors
    /// `Failed`: the image may still be marked as unfinished.
    pub(super) fn made(&self, device: &BlockDevice) -> Result<()> {
        let failed = |errno| asking(device, Step::FormatDevice, errno);
        rustix::fs::fsync(open_device(device, Step::FormatDevice)?).map_err(failed)?;
        rustix::fs::fsetxattr(&self.0, ATTRIBUTE, MADE, XattrFlags::empty()).map_err(failed)?;
        rustix::fs::fsync(&self.0).map_err(failed)
    }

    /// Removes the mark.
    ///
    /// # Errors
    /// `Failed`: the image may still be marked.
    pub(super) fn unmark(&self, device: &BlockDevice) -> Result<()> {
        let failed = |errno| asking(device, Step::FormatDevice, errno);
        match rustix::fs::fremovexattr(&self.0, ATTRIBUTE) {
            Ok(()) | Err(Errno::NODATA) => rustix::fs::fsync(&self.0).map_err(failed),
            Err(errno) => Err(failed(errno)),
        }
    }
}

/// Forgets that the image below this device was formatted: from now on it has content of its users.
///
/// # Errors
/// `Failed`: the image may still be marked.
pub(super) fn forget_format(device: &BlockDevice) -> Result<()> {
    let failed = |errno| asking(device, Step::InspectDevice, errno);
    let opened = open_device(device, Step::InspectDevice)?;
    match backing_file(device.number(), &opened).map_err(failed)? {
        Some(image) if value(&image).is_some() => MarkedImage(image).unmark(device),
        _ => Ok(()),
    }
}

/// Whether the image below this device was formatted, and nothing has used it since.
///
/// # Errors
/// `DeviceError::Gone`, `Failed`.
pub(super) fn is_just_made(device: &BlockDevice) -> Result<bool> {
    let failed = |errno| asking(device, Step::InspectDevice, errno);
    let opened = open_device(device, Step::InspectDevice)?;
    let image = backing_file(device.number(), &opened).map_err(failed)?;
    Ok(image.and_then(|image| value(&image)).is_some_and(|value| value == MADE))
}

/// Whether what is on the device can be what a format left that did not end: its image is marked,
/// and nothing was written to it at a time when that format cannot have run any more. `longest` is
/// how long a format may take.
///
/// # Errors
/// `DeviceError::StillOpen` while another process has the device open: a mkfs that outlived who
/// started it may, and so may one that only looks at the device for a moment. `DeviceError::Gone`,
/// `Failed`.
pub(super) fn is_unfinished(device: &BlockDevice, longest: Duration) -> Result<bool> {
    let failed = |errno| asking(device, Step::ProbeDevice, errno);
    let opened = open_device(device, Step::ProbeDevice)?;
    let Some(image) = backing_file(device.number(), &opened).map_err(failed)? else { return Ok(false) };
    let Some(begun) = begun(&image) else { return Ok(false) };
    // What is only in memory yet counts, too.
    rustix::fs::fsync(&opened).map_err(failed)?;
    let written = rustix::fs::fstat(&image).map_err(failed)?.st_mtime;
    let by_format = written <= begun.saturating_add(i64::try_from(longest.as_secs()).unwrap_or(i64::MAX));
    if !by_format {
        return Ok(false);
    }
    match other_user(device)? {
        None => Ok(true),
        Some(by) => Err(KernelError::Device(DeviceError::StillOpen { path: text(device.path()), by })),
    }
}

fn now() -> i64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn value(image: &File) -> Option<Vec<u8>> {
    let mut value = vec![0; VALUE_BYTES];
    let length = rustix::fs::fgetxattr(image, ATTRIBUTE, &mut value).ok()?;
    value.truncate(length);
    Some(value)
}

fn begun(image: &File) -> Option<i64> {
    String::from_utf8(value(image)?).ok()?.parse().ok()
}

/// Another process that has the device open, of those that this one sees.
///
/// # Errors
/// `Failed`: it is not known.
fn other_user(device: &BlockDevice) -> Result<Option<String>> {
    let own = std::process::id().to_string();
    let processes = std::fs::read_dir(PROCESSES).map_err(|error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        let (path, detail) = (text(device.path()), format!("{PROCESSES} can't be read"));
        KernelError::Failed { step: Step::CheckUse, path, errno, detail }
    })?;
    let mut others = processes.flatten().filter_map(|entry| {
        let id = entry.file_name().into_string().ok()?;
        let is_process = id.bytes().all(|byte| byte.is_ascii_digit());
        (is_process && id != own).then(|| (id, entry.path()))
    });
    Ok(others.find(|(_, process)| has_open(process, device.number())).map(|(id, process)| {
        let name = std::fs::read_to_string(process.join("comm")).unwrap_or_default();
        format!("process {id} ({})", name.trim_end())
    }))
}

fn has_open(process: &Path, number: DeviceNumber) -> bool {
    // One that has just ended has none.
    let Ok(open) = std::fs::read_dir(process.join("fd")) else { return false };
    open.flatten().any(|entry| {
        std::fs::metadata(entry.path()).is_ok_and(|seen| {
            let device = (rustix::fs::major(seen.rdev()), rustix::fs::minor(seen.rdev()));
            seen.file_type().is_block_device() && device == (number.major, number.minor)
        })
    })
}
