//! Errors of file systems on block devices.

use thiserror::Error;

use super::kind::ErrorKind;
use super::text::said_suffix;

/// Why a file system was not made, mounted, checked or grown. Paths are those of devices.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FilesystemError {
    /// There is something on the device, and nothing is ever formatted over.
    #[error(
        "{path}: not formatted: there is {found} on it; if you do not need that, or a killed format left it, erase it \
         by hand: blkdiscard --force --zeroout {path}"
    )]
    NotBlank {
        /// The device's path.
        path: String,
        /// What is on it.
        found: String,
    },
    /// The device contains something, and that is no file system.
    #[error(
        "{path}: contains {found}, and no {wanted}; only a blank device is formatted. If you do not need what is there, or a killed \
         format left it, erase it by hand: blkdiscard --force --zeroout {path}"
    )]
    Missing {
        /// The device's path.
        path: String,
        /// What it contains.
        found: String,
        /// The type that was asked for.
        wanted: String,
    },
    /// The device has a file system of another type.
    #[error("{path}: has a file system of type {found}, not {wanted}; ask for {found}, or use another volume")]
    Mismatch {
        /// The device's path.
        path: String,
        /// The type it has.
        found: String,
        /// The type that was asked for.
        wanted: String,
    },
    /// The file system is damaged beyond what may be repaired without asking.
    #[error("{path}: the {fs_type} file system is damaged; save what is on it, then run {repair} {path}; if nothing was ever stored on it, as after a format that was killed, `blkdiscard --force --zeroout {path}` lets it be formatted again{}", said_suffix(.said))]
    Damaged {
        /// The device's path.
        path: String,
        /// The type.
        fs_type: String,
        /// What the tool or the kernel said.
        said: String,
        /// The command that repairs it.
        repair: &'static str,
    },
    /// Not a type that the host formats, mounts or grows.
    #[error("{path}: no file system of type {fs_type:?} here; there are ext2, ext3, ext4, xfs and btrfs")]
    Unsupported {
        /// The device's path.
        path: String,
        /// The type.
        fs_type: String,
    },
}

impl FilesystemError {
    pub(super) const fn kind(&self) -> ErrorKind {
        match self {
            Self::NotBlank { .. } | Self::Missing { .. } | Self::Mismatch { .. } => ErrorKind::Conflict,
            Self::Damaged { .. } => ErrorKind::Io,
            Self::Unsupported { .. } => ErrorKind::Unsupported,
        }
    }
}
