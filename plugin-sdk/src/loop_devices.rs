//! Image files in granted folders, and loop devices over them.
//!
//! A plugin that calls one of these needs the grant `loop-devices`; one that calls none does not
//! request it. Every path is absolute, without `..`, and what it leads to must lie in a granted
//! folder.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! # let host = volhost_plugin_sdk::testing::TestHost::new();
//! # host.grant_images("/srv/images");
//! assert_eq!(loop_devices::folders(), ["/srv/images"]);
//! let image = "/srv/images/a.img";
//! let size = loop_devices::ensure_image(image, 64 << 20)?;
//! let device = loop_devices::create(image, false)?;
//! assert_eq!(device.size()?, size);
//! assert!(loop_devices::find(image)?.is_some());
//! loop_devices::remove(image)?;
//!
//! // Further calls of a plugin that provisions volumes:
//! let (bytes, _made) = loop_devices::facts(image)?;
//! assert_eq!(bytes, size);
//! loop_devices::copy(image, "/srv/images/b.img")?;
//! assert_eq!(loop_devices::names("/srv/images", "", 10)?, ["a.img", "b.img"]);
//! let both = ["a", "b"].map(|name| (format!("/srv/images/{name}.img"), format!("/srv/images/{name}-1.img")));
//! loop_devices::copy_together(&both)?;
//! assert_eq!(loop_devices::reserve("/srv/images/b.img", size)?, size);
//! assert_eq!(loop_devices::taken("/srv/images/b.img")?, size);
//! loop_devices::release("/srv/images/b.img")?;
//! loop_devices::discard("/srv/images/b.img")?;
//! let left = loop_devices::free_space("/srv/images")?;
//! # let _ = left;
//! # Ok::<(), Error>(())
//! ```

use crate::backend;
use crate::devices::BlockDevice;
use crate::error::Result;

/// The granted folders, in the order of the grant.
#[must_use]
pub fn folders() -> Vec<String> {
    backend::loop_devices::folders()
}

/// Makes sure that there is an image file of at least `size` bytes, and returns its size. A missing
/// file is created, sparse and with mode 0600. A smaller one grows, a larger one stays; a loop
/// device over it learns the new size.
///
/// # Errors
/// [`PermissionDenied`](crate::Error::PermissionDenied) outside the grant,
/// [`NotFound`](crate::Error::NotFound) when its folder is missing; else the kernel's error.
pub fn ensure_image(path: &str, size: u64) -> Result<u64> {
    backend::loop_devices::ensure_image(path, size).map_err(backend::error_in)
}

/// The loop device over the file; a new one if there is none. It stays until [`remove`].
///
/// # Errors
/// [`Conflict`](crate::Error::Conflict) if there is one that differs in being read-only; else as
/// [`ensure_image`].
pub fn create(path: &str, read_only: bool) -> Result<BlockDevice> {
    backend::loop_devices::create(path, read_only).map(BlockDevice::new).map_err(backend::error_in)
}

/// The loop device over the file, if there is one.
///
/// # Errors
/// As [`ensure_image`].
pub fn find(path: &str) -> Result<Option<BlockDevice>> {
    Ok(backend::loop_devices::find(path).map_err(backend::error_in)?.map(BlockDevice::new))
}

/// Removes the loop device over the file; the file stays. If the file was removed, and when another
/// was put in its place, the device over the removed one goes too. None there: ok.
///
/// # Errors
/// [`Busy`](crate::Error::Busy) while it is used; else as [`ensure_image`].
pub fn remove(path: &str) -> Result<()> {
    backend::loop_devices::remove(path).map_err(backend::error_in)
}

/// The names of the regular files in a granted folder or one below, sorted: those after `after`, at
/// most `most`.
///
/// # Errors
/// As [`ensure_image`].
pub fn names(folder: &str, after: &str, most: u32) -> Result<Vec<String>> {
    backend::loop_devices::names(folder, after, most).map_err(backend::error_in)
}

/// An image's size in bytes, and when its content was changed last, in seconds since 1970.
///
/// # Errors
/// As [`ensure_image`].
pub fn facts(path: &str) -> Result<(u64, u64)> {
    backend::loop_devices::facts(path).map_err(backend::error_in)
}

/// Makes `to` a copy of the image, whole or not at all, and returns its size. Blocks are shared
/// where the file system can.
///
/// # Errors
/// [`Conflict`](crate::Error::Conflict) when `to` is there; [`Busy`](crate::Error::Busy) for an
/// image that has a loop device, where blocks cannot be shared; else as [`ensure_image`].
pub fn copy(image: &str, to: &str) -> Result<u64> {
    backend::loop_devices::copy(image, to).map_err(backend::error_in)
}

/// Copies several images, each to the path beside it, so that the copies show all images as of one
/// moment: all of them, or none. An image may be in use if a file system is mounted from it, which
/// is frozen for that moment, and if its own file system shares blocks.
///
/// # Errors
/// [`Conflict`](crate::Error::Conflict) when something is at one of the paths;
/// [`Busy`](crate::Error::Busy) for any other image that has a loop device, and when the moment did
/// not last; [`InvalidArgument`](crate::Error::InvalidArgument) for more than 64 images; else as
/// [`ensure_image`].
pub fn copy_together(copies: &[(String, String)]) -> Result<()> {
    backend::loop_devices::copy_together(copies).map_err(backend::error_in)
}

/// Makes sure that the image has at least `size` bytes and that the disk has space for every one of
/// them, and returns its size. It may be in use; its content stays.
///
/// # Errors
/// [`other`](crate::Error::other) with the code `ENOSPC` when there is not enough space;
/// [`Unsupported`](crate::Error::Unsupported) where the file system cannot promise it; else as
/// [`ensure_image`].
pub fn reserve(path: &str, size: u64) -> Result<u64> {
    backend::loop_devices::reserve(path, size).map_err(backend::error_in)
}

/// Releases the space that the image does not need: blocks of zeros become holes.
///
/// # Errors
/// [`Busy`](crate::Error::Busy) while it has a loop device; else as [`ensure_image`].
pub fn release(path: &str) -> Result<()> {
    backend::loop_devices::release(path).map_err(backend::error_in)
}

/// How many bytes of the disk the image takes: at least its size when all of it is reserved, less
/// when it has holes.
///
/// # Errors
/// As [`ensure_image`].
pub fn taken(path: &str) -> Result<u64> {
    backend::loop_devices::taken(path).map_err(backend::error_in)
}

/// Removes the image file, with what is in it. None there: ok.
///
/// # Errors
/// [`Busy`](crate::Error::Busy) while it has a loop device; else as [`ensure_image`].
pub fn discard(path: &str) -> Result<()> {
    backend::loop_devices::discard(path).map_err(backend::error_in)
}

/// The bytes that may still be written in a granted folder or one below.
///
/// # Errors
/// As [`ensure_image`].
pub fn free_space(folder: &str) -> Result<u64> {
    backend::loop_devices::free_space(folder).map_err(backend::error_in)
}
