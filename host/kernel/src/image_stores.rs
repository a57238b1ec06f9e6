//! Folders of image files: what is in them, copies, removal.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::handle::MountSource;

/// Facts of an image file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageFacts {
    /// Its size in bytes, holes included.
    pub size: u64,
    /// When its content was changed last, in seconds since 1970; 0 for an earlier time.
    pub modified: u64,
    /// The bytes of the disk that it takes: its size or more when it is reserved, less when it has
    /// holes.
    pub taken: u64,
}

/// Primitives over folders of image files.
///
/// # Guarantees
/// Every path is checked against `roots`, as by [`crate::Kernel::open_host_path`]: what it leads to
/// counts. A name is added or removed as a whole; a crash leaves no part of an image under any
/// name.
pub trait ImageStores {
    /// The names of the regular files in the folder, sorted by their bytes. Names that are not
    /// UTF-8 are left out: no caller can ask for them.
    ///
    /// # Errors
    /// As [`crate::Kernel::open_host_path`]; `WrongType` if it is no folder.
    fn image_names(&self, folder: &Path, roots: &[PathBuf]) -> Result<Vec<String>>;

    /// Returns what is known of an image.
    ///
    /// # Errors
    /// `WrongType` if it is no regular file; `Failed`.
    fn image_facts(&self, image: &MountSource) -> Result<ImageFacts>;

    /// Copies the image to a new file, which only its owner can read (0600), and returns its size.
    /// Blocks are shared where the file system can: the copy is then the image of one moment. On
    /// other file systems data is copied, holes stay holes, and an image that has a loop device is
    /// refused, for it may change meanwhile.
    ///
    /// # Errors
    /// `Failed`: `Conflict` if something is at `to`, `Busy` for an image that has a loop device;
    /// `OutsideGrant`, `WrongType`.
    fn copy_image(&self, image: &MountSource, to: &Path, roots: &[PathBuf]) -> Result<u64>;

    /// Copies several images to new files as of one moment, as [`copy_image`](Self::copy_image)
    /// does: all of them, or none. File systems that are mounted from the images are frozen for that
    /// moment, for at most 5 s: who writes to one of them waits. After a process that was
    /// killed meanwhile, [`thaw_images`](Self::thaw_images) ends that. A crash may leave some of the
    /// copies.
    ///
    /// # Errors
    /// `Failed`: `Conflict` if something is at a place, or two have the same; `Busy` for an image with
    /// a loop device from which no file system is mounted, or whose own file system cannot
    /// share blocks, and when the moment did not last; `Unsupported` for a file system that cannot be
    /// frozen; `OutsideGrant`, `WrongType`.
    fn copy_images_together(&self, copies: &[(MountSource, PathBuf)], roots: &[PathBuf]) -> Result<()>;

    /// Thaws the file systems that are mounted from images in these folders, and returns their devices: what
    /// a process that was killed in [`copy_images_together`](Self::copy_images_together) has left
    /// frozen. A file system that another program has frozen is thawed, too.
    ///
    /// # Errors
    /// `Failed`.
    fn thaw_images(&self, roots: &[PathBuf]) -> Result<Vec<PathBuf>>;

    /// Makes the image at least `bytes` large with room on the disk for all of it, and returns its
    /// size. Its content stays, and a device over it may be in use.
    ///
    /// # Errors
    /// `WrongType` if it is no regular file; `Failed`: `NoSpace` when there is not so much room
    /// (nothing is taken then), `Unsupported` where the file system cannot reserve any.
    fn reserve_image(&self, image: &MountSource, bytes: u64) -> Result<u64>;

    /// Gives back the room of the image in which nothing was written.
    ///
    /// # Errors
    /// `WrongType` if it is no regular file; `Failed`: `Busy` while it has a loop device.
    fn release_image(&self, image: &MountSource) -> Result<()>;

    /// Removes the image file with its data. Nothing there: done.
    ///
    /// # Errors
    /// `Failed` (`Busy`) while it has a loop device; `SymbolicLink` if the name is a link;
    /// `WrongType` if it is no regular file; `OutsideGrant`.
    fn remove_image(&self, path: &Path, roots: &[PathBuf]) -> Result<()>;

    /// The bytes that an unprivileged user may still write in the folder.
    ///
    /// # Errors
    /// As [`ImageStores::image_names`].
    fn free_space(&self, folder: &Path, roots: &[PathBuf]) -> Result<u64>;
}
