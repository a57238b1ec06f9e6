//! Mounts that show their files under other owners. Nothing is written for it.
//!
//! A plugin that calls this needs the grant `id-maps`; one that does not call it does not request
//! it.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! # let host = volhost_plugin_sdk::testing::TestHost::new();
//! let mount = Tmpfs::new().create()?;
//! id_maps::map_group(&mount, 2000)?;
//! # host.target("data").handle().attach(mount)?;
//! # assert_eq!(host.target("data").mount().unwrap().mapped_group, Some(2000));
//! # Ok::<(), Error>(())
//! ```

use crate::backend;
use crate::error::Result;
use crate::mounts::DetachedMount;

/// Shows the files of the group that the mount's root belongs to as those of `group`, and the other
/// way round.
///
/// # Errors
/// [`Unsupported`](crate::Error::Unsupported) when the file system cannot do it; else the kernel's
/// error.
pub fn map_group(mount: &DetachedMount, group: u32) -> Result<()> {
    backend::id_maps::map_group(mount.handle(), group).map_err(backend::error_in)
}
