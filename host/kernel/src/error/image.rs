//! Errors of file systems in files.

use rustix::io::Errno;
use thiserror::Error;

use super::kind::ErrorKind;
use super::text::{said_suffix, words};
use crate::types::IMAGE_TYPES;

/// Why an image was not mounted. Paths are those of the files.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ImageError {
    /// Not a type of file system that is mounted from a file.
    #[error("{path}: no image of type {fs_type:?} is mounted here; there are {}", IMAGE_TYPES.join(", "))]
    Unsupported {
        /// The image.
        path: String,
        /// The type.
        fs_type: String,
    },
    /// A file contains something else than the image that was asked for.
    #[error("{path}: contains {found}, not an image of type {wanted}; ask for what it is, or use another file")]
    Mismatch {
        /// The file.
        path: String,
        /// What it contains.
        found: String,
        /// The type that was asked for.
        wanted: String,
    },
    /// An image can't be read as the type that it is of.
    #[error("{path}: the {fs_type} image is damaged or cut short; make it anew: {}{}", words(*.errno), said_suffix(.said))]
    Damaged {
        /// The image.
        path: String,
        /// The type.
        fs_type: String,
        /// The kernel's answer.
        errno: Errno,
        /// What else the kernel said.
        said: String,
    },
    /// An image has less than it says that it has.
    #[error(
        "{path}: the {fs_type} image is cut short: it says that it has {claimed} bytes, and has {bytes}; make it anew"
    )]
    CutShort {
        /// The image.
        path: String,
        /// The type.
        fs_type: String,
        /// What it says.
        claimed: u64,
        /// What it has.
        bytes: u64,
    },
}

impl ImageError {
    pub(super) const fn errno(&self) -> Option<Errno> {
        match self {
            Self::Damaged { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    pub(super) const fn kind(&self) -> ErrorKind {
        match self {
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::Mismatch { .. } => ErrorKind::Conflict,
            Self::Damaged { .. } | Self::CutShort { .. } => ErrorKind::Io,
        }
    }
}
