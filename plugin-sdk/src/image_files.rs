//! Image files in granted folders: file systems in a file, mounted read-only.
//!
//! A plugin that calls one of these needs the grant `image-files`; one that calls none does not
//! request it. Every path is absolute, without `..`, and what it leads to must lie in a granted
//! folder.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! # let host = volhost_plugin_sdk::testing::TestHost::new();
//! # host.grant_image_files("/srv/images").image_file("/srv/images/docs.squashfs", "squashfs");
//! assert_eq!(image_files::folders(), ["/srv/images"]);
//! let mount = image_files::mount("/srv/images/docs.squashfs", "squashfs", &[])?;
//! # drop(mount);
//! # Ok::<(), Error>(())
//! ```

use crate::backend::{self, FsOption};
use crate::error::Result;
use crate::mounts::DetachedMount;

/// The granted folders, in the order of the grant.
#[must_use]
pub fn folders() -> Vec<String> {
    backend::image_files::folders()
}

/// Mounts the file's content, as a detached mount: `erofs`, `squashfs` or `ext4`. Nothing is ever
/// written to the file. The loop device below belongs to the mount and is removed with it.
///
/// # Errors
/// [`Conflict`](crate::Error::Conflict) if the file contains another type,
/// [`Corrupt`](crate::Error::Corrupt) if it is damaged or cut short,
/// [`PermissionDenied`](crate::Error::PermissionDenied) outside the grant; else the kernel's error.
pub fn mount(path: &str, fs_type: &str, options: &[(&str, Option<&str>)]) -> Result<DetachedMount> {
    let options: Vec<FsOption> = options
        .iter()
        .map(|(key, value)| FsOption { key: (*key).to_owned(), value: value.map(str::to_owned) })
        .collect();
    backend::image_files::mount(path, fs_type, &options).map(DetachedMount::new).map_err(backend::error_in)
}
