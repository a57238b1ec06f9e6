//! Image files in granted folders, and loop devices over them.
//!
//! A plugin that calls one of these needs the grant `loop-devices`; one that calls none does not ask for it. Every path is absolute,
//! without `..`, and what it leads to must lie in a granted folder.

use crate::backend;
use crate::devices::BlockDevice;
use crate::error::Result;

/// The granted folders, in the order of the grant.
#[must_use]
pub fn folders() -> Vec<String> {
    backend::loop_devices::folders()
}

/// Makes sure that there is an image file of at least `size` bytes, and returns its size. A missing file is created, sparse and with
/// mode 0600. A smaller one grows, a larger one stays; a loop device over it learns the new size.
///
/// # Errors
/// [`PermissionDenied`](crate::Error::PermissionDenied) outside the grant, [`NotFound`](crate::Error::NotFound) when its folder is
/// missing; else as the kernel says.
pub fn ensure_image(path: &str, size: u64) -> Result<u64> {
    backend::loop_devices::ensure_image(path, size).map_err(backend::error_in)
}

/// The loop device over the file; a new one if there is none. It stays until [`remove`].
///
/// # Errors
/// [`Conflict`](crate::Error::Conflict) if there is one that differs in being read-only; else as [`ensure_image`].
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

/// Removes the loop device over the file; the file stays. None there: done.
///
/// # Errors
/// [`Busy`](crate::Error::Busy) while it is used; else as [`ensure_image`].
pub fn remove(path: &str) -> Result<()> {
    backend::loop_devices::remove(path).map_err(backend::error_in)
}

/// The names of the regular files in a granted folder or one below, sorted: those after `after`, at most `most`.
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

/// Makes `to` a copy of the image, whole or not at all, and returns its size. Blocks are shared where the file system can.
///
/// # Errors
/// [`Conflict`](crate::Error::Conflict) when `to` is there; [`Busy`](crate::Error::Busy) for an image that has a loop device, where
/// blocks cannot be shared; else as [`ensure_image`].
pub fn copy(image: &str, to: &str) -> Result<u64> {
    backend::loop_devices::copy(image, to).map_err(backend::error_in)
}

/// Removes the image file, with what is in it. None there: done.
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
