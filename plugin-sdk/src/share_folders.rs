//! Folders and small files of a share that this call has mounted.
//!
//! A plugin that calls one of these needs the grant `share-folders`; one that calls none does not
//! request it. Paths are relative to the mount's root; the contract says which are refused.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! # let host = volhost_plugin_sdk::testing::TestHost::new();
//! # host.share("nas.example.com", "/export", &["4.2"]);
//! let share = network_mounts::mount("nfs", "nas.example.com", "/export", &[("vers", Some("4.2"))])?;
//! share_folders::make(&share, "team/new", 0o770)?;
//! share_folders::write_file(&share, "team/owner", "red")?;
//! share_folders::rename(&share, "team/new", "team/data")?;
//! assert_eq!(share_folders::names(&share, "team")?, ["data", "owner"]);
//! assert_eq!(share_folders::read_file(&share, "team/owner")?.as_deref(), Some("red"));
//! share_folders::remove_file(&share, "team/owner")?;
//! share_folders::remove(&share, "team")?;
//! # assert!(host.share_entries("nas.example.com", "/export").is_empty());
//! # Ok::<(), Error>(())
//! ```

use crate::backend;
use crate::error::Result;
use crate::mounts::DetachedMount;

/// Makes the folder with this mode, and its missing parents with 0755. An existing folder is left
/// as it is.
///
/// # Errors
/// [`Conflict`](crate::Error::Conflict) where something else has the name; else the kernel's error.
pub fn make(share: &DetachedMount, path: &str, mode: u32) -> Result<()> {
    backend::share_folders::make(share.handle(), path, mode).map_err(backend::error_in)
}

/// Returns the names in the folder, sorted; the empty path is the mount's root.
///
/// # Errors
/// [`NotFound`](crate::Error::NotFound) when there is no such folder; else the kernel's error.
pub fn names(share: &DetachedMount, path: &str) -> Result<Vec<String>> {
    backend::share_folders::names(share.handle(), path).map_err(backend::error_in)
}

/// Gives the folder another path, whose parent exists, at once. An empty folder there is replaced.
///
/// # Errors
/// [`Conflict`](crate::Error::Conflict) when a folder with anything in it has the path;
/// [`NotFound`](crate::Error::NotFound) when there is no such folder; else the kernel's error.
pub fn rename(share: &DetachedMount, path: &str, to: &str) -> Result<()> {
    backend::share_folders::rename(share.handle(), path, to).map_err(backend::error_in)
}

/// Removes the folder with everything in it. None there: done. Repeat it after an error.
///
/// # Errors
/// The kernel's.
pub fn remove(share: &DetachedMount, path: &str) -> Result<()> {
    backend::share_folders::remove(share.handle(), path).map_err(backend::error_in)
}

/// Puts a file of this content, at most 4096 bytes, in place of an old one, at once. Its parent
/// exists.
///
/// # Errors
/// The kernel's.
pub fn write_file(share: &DetachedMount, path: &str, content: &str) -> Result<()> {
    backend::share_folders::write_file(share.handle(), path, content).map_err(backend::error_in)
}

/// Returns the content of the file; none when there is none.
///
/// # Errors
/// [`Conflict`](crate::Error::Conflict) when it is no file, larger than 4096 bytes or no UTF-8;
/// else the kernel's error.
pub fn read_file(share: &DetachedMount, path: &str) -> Result<Option<String>> {
    backend::share_folders::read_file(share.handle(), path).map_err(backend::error_in)
}

/// Removes the file. None there: done.
///
/// # Errors
/// The kernel's.
pub fn remove_file(share: &DetachedMount, path: &str) -> Result<()> {
    backend::share_folders::remove_file(share.handle(), path).map_err(backend::error_in)
}
