//! Image files: file systems in a file, mounted read-only.

use crate::error::{ImageError, KernelError, Result};
use crate::handle::{DetachedMount, MountSource};
use crate::names::text;
use crate::types::{FsOption, IMAGE_TYPES};

/// Primitives over image files.
pub trait ImageFiles {
    /// A mount of the file system in a file, unseen until attached. Nothing is ever written to the
    /// file, not even a journal. Types: `erofs`, `squashfs`, `ext4`; `options` are the file
    /// system's own.
    ///
    /// The loop device that carries it belongs to the mount: it goes with the last copy of it, or
    /// with the result if that is dropped, and so there is nothing to unmount. The file may be
    /// renamed or removed meanwhile; changing its content breaks the volume.
    ///
    /// # Errors
    /// `ImageError::Unsupported` for another type; `WrongType` if it is no regular file;
    /// `ImageError::Mismatch` if it contains something else; `ImageError::Damaged` or
    /// `ImageError::CutShort` if it is damaged or cut short; `InvalidOption`, `UnsupportedOption`;
    /// `Failed` with the kernel's log.
    fn mount_image(&self, file: &MountSource, fs_type: &str, options: &[FsOption]) -> Result<DetachedMount>;
}

/// Refuses a type that is not mounted from a file.
pub fn check_image_type(file: &MountSource, fs_type: &str) -> Result<()> {
    if IMAGE_TYPES.contains(&fs_type) {
        return Ok(());
    }
    Err(KernelError::Image(ImageError::Unsupported { path: text(&file.label), fs_type: fs_type.to_owned() }))
}
