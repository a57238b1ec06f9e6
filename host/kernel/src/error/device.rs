//! Errors of block devices.

use rustix::io::Errno;
use thiserror::Error;

use super::kind::ErrorKind;
use super::text::words;
use crate::step::Step;
use crate::types::DeviceNumber;

/// Why a block device was not used. Paths are those of devices, or of the names at which they are
/// mapped.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// Its node leads to another device than the one meant.
    #[error("{path}: this is device {found}, not {wanted}; detach that device first")]
    Other {
        /// Where.
        path: String,
        /// The device that is there.
        found: DeviceNumber,
        /// The device that was meant.
        wanted: DeviceNumber,
    },
    /// No block device is mapped there.
    #[error("{path}: no block device is mapped here")]
    NotMapped {
        /// Where.
        path: String,
    },
    /// The node at the device's path is no longer that device's: it was detached, or replaced.
    #[error("{path}: no longer block device {wanted}; it was detached or replaced")]
    Gone {
        /// The device's path.
        path: String,
        /// The device.
        wanted: DeviceNumber,
    },
    /// The device refuses writes.
    #[error("{path}: the block device is read-only; mount it read-only, or attach it for writing")]
    ReadOnly {
        /// The device's path, or its file.
        path: String,
    },
    /// A pod has the device, or the image's device, as a device.
    #[error(
        "{step} {path}: {by} uses it, as for a pod that has it as a block device; a volume is used as a device or as a \
         file system, not as both: remove the pod that has it first"
    )]
    Shown {
        /// The step that was refused.
        step: Step,
        /// The device's path, or the image's.
        path: String,
        /// The loop device over it.
        by: String,
    },
    /// The device is mounted as a file system, so it is not given to a pod as a device.
    #[error(
        "{path}: it is mounted as a file system, or swap, RAID or LVM has it; a volume is used as a device or as a file \
         system, not as both: remove the pod that has it mounted first"
    )]
    Mounted {
        /// The device's path.
        path: String,
    },
    /// A format of the device did not end, and a process has the device open: perhaps that format,
    /// which still writes.
    #[error(
        "{path}: a format of it did not end, and {by} has the device open and may still write to it; wait for that process, \
         or end it: once it has closed the device, that is formatted again"
    )]
    StillOpen {
        /// The device's path.
        path: String,
        /// The process: its id and its name.
        by: String,
    },
    /// The device's sectors are larger than its file system was made for.
    #[error(
        "{path}: does not mount: it has sectors of {sector} bytes, and its {fs_type} was made for {wanted}; detach the device \
         (losetup --detach {path}), and volhost attaches it with {wanted}: {}", words(*.errno)
    )]
    SectorsTooLarge {
        /// The device's path.
        path: String,
        /// The type of the file system.
        fs_type: String,
        /// The device's sector size in bytes.
        sector: u32,
        /// What the file system can be on at most, in bytes.
        wanted: u32,
        /// The kernel's answer.
        errno: Errno,
    },
}

impl DeviceError {
    pub(super) const fn errno(&self) -> Option<Errno> {
        match self {
            Self::SectorsTooLarge { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    pub(super) const fn step(&self) -> Option<Step> {
        match self {
            Self::Shown { step, .. } => Some(*step),
            _ => None,
        }
    }

    pub(super) const fn kind(&self) -> ErrorKind {
        match self {
            Self::Other { .. } => ErrorKind::Conflict,
            Self::NotMapped { .. } | Self::Gone { .. } => ErrorKind::NotFound,
            Self::Shown { .. } | Self::Mounted { .. } | Self::StillOpen { .. } => ErrorKind::Busy,
            Self::ReadOnly { .. } => ErrorKind::PermissionDenied,
            Self::SectorsTooLarge { .. } => ErrorKind::Io,
        }
    }
}
