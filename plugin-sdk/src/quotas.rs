//! Size limits of volumes that are folders of the host's.
//!
//! A plugin that calls one of these needs the grant `quotas`; one that calls none does not request
//! it.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! # let host = volhost_plugin_sdk::testing::TestHost::new();
//! # host.folder_quotas();
//! /// Makes a folder with a limit of `limit` bytes, which is at least watched.
//! fn limited(target: &MountTarget, limit: u64) -> Result<()> {
//!     match quotas::make_limited_folder(target, 0o777, None, limit) {
//!         Err(Error::Unsupported(_)) => {
//!             target.make_folder(0o777, None)?;
//!             quotas::watch_size(target, limit);
//!             Ok(())
//!         }
//!         other => other,
//!     }
//! }
//! # limited(&host.target("data").handle(), 1 << 20)?;
//! # Ok::<(), Error>(())
//! ```

use crate::backend;
use crate::error::Result;
use crate::mounts::MountTarget;

/// As [`MountTarget::make_folder`], with a limit that the file system enforces: a write beyond
/// `limit` bytes fails.
///
/// # Errors
/// [`Unsupported`](crate::Error::Unsupported) when the file system has no quota for folders or has
/// it turned off, and nothing was made; [`Conflict`](crate::Error::Conflict) when the target is a
/// mount, or a folder without a quota.
pub fn make_limited_folder(target: &MountTarget<'_>, mode: u32, group: Option<u32>, limit: u64) -> Result<()> {
    backend::quotas::make_limited_folder(target.0, mode, group, limit).map_err(backend::error_in)
}

/// For a limit that nothing enforces: the host measures the volume's files from time to time, and
/// emits an event on the pod when they take more than `limit` bytes. Only in
/// [`publish`](crate::VolumePlugin::publish); it begins when that has succeeded, and ends when the
/// volume is unpublished.
pub fn watch_size(target: &MountTarget<'_>, limit: u64) {
    backend::quotas::watch_size(target.0, limit);
}
