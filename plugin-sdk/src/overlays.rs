//! Overlays: several folders, shown as one. Only the top folder is ever written.
//!
//! A plugin that calls this needs the grant `overlays`; one that does not call it does not request
//! it.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! # let host = volhost_plugin_sdk::testing::TestHost::new();
//! # host.grant("/srv").directory("/srv/base").directory("/srv/more");
//! # let target = host.target("data");
//! # let target = target.handle();
//! let lowers = [host_paths::open("/srv/more")?, host_paths::open("/srv/base")?];
//! let top = target.private_folder()?;
//! target.attach(overlays::mount(&[&lowers[0], &lowers[1]], Some(&top), &[("metacopy", Some("on"))])?)?;
//! # Ok::<(), Error>(())
//! ```

use crate::backend::{self, FsOption};
use crate::error::Result;
use crate::mounts::{DetachedMount, MountSource};

/// Shows the folders `lowers` as one, the first one uppermost, as a detached mount. Changes go to
/// `top`, into the folders `upper` and `work`, which are made there: `upper` with mode and owner of
/// the first lower. Without a top nothing can be written, and there must be two lowers. A top is a
/// folder ([`MountTarget::private_folder`](crate::MountTarget::private_folder), a path of the
/// host), or the root of a detached tmpfs ([`DetachedMount::source`]), which lives as long as the
/// overlay. Mounts below the folders are not shown.
///
/// Options: `index`, `metacopy`, `redirect_dir`, `xino`, and the flag `volatile`, with the kernel's
/// values.
///
/// # Errors
/// [`Conflict`](crate::Error::Conflict) when two layers are the same or one lies in another,
/// [`Busy`](crate::Error::Busy) with `index=on` for a top in use,
/// [`Unsupported`](crate::Error::Unsupported) for a top on a file system that can't take one; else
/// the kernel's error.
pub fn mount(
    lowers: &[&MountSource],
    top: Option<&MountSource>,
    options: &[(&str, Option<&str>)],
) -> Result<DetachedMount> {
    let lowers: Vec<&backend::MountSource> = lowers.iter().map(|lower| lower.handle()).collect();
    let options: Vec<FsOption> = options
        .iter()
        .map(|(key, value)| FsOption { key: (*key).to_owned(), value: value.map(str::to_owned) })
        .collect();
    backend::overlays::mount(&lowers, top.map(MountSource::handle), &options)
        .map(DetachedMount::new)
        .map_err(backend::error_in)
}
