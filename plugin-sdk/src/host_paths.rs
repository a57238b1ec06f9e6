//! Paths of the host, within the folders that the operator granted to this plugin.
//!
//! A plugin that calls one of these needs the grant `host-paths`; one that calls none does not
//! request it.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! # let host = volhost_plugin_sdk::testing::TestHost::new();
//! # host.grant("/srv").directory("/srv/data");
//! let folder = host_paths::open("/srv/data")?;
//! assert_eq!(folder.kind(), SourceKind::Directory);
//! host_paths::create_directory("/srv/data/new/folder")?;
//! let file = host_paths::create_file("/srv/data/new/file")?;
//! assert_eq!(file.kind(), SourceKind::File);
//! # Ok::<(), Error>(())
//! ```

use crate::backend;
use crate::error::Result;
use crate::mounts::MountSource;

/// Opens the file or folder at an absolute path, following symbolic links. It must lie within the
/// grant.
///
/// # Errors
/// [`InvalidArgument`](crate::Error::InvalidArgument) for a path with `..`,
/// [`NotFound`](crate::Error::NotFound), [`PermissionDenied`](crate::Error::PermissionDenied)
/// outside the grant; else the kernel's error.
pub fn open(path: &str) -> Result<MountSource> {
    backend::host_paths::open(path).map(MountSource::new).map_err(backend::error_in)
}

/// Creates the folder with its missing parents, mode 0755, and opens it. An existing folder is
/// opened.
///
/// # Errors
/// As [`open`].
pub fn create_directory(path: &str) -> Result<MountSource> {
    backend::host_paths::create_directory(path).map(MountSource::new).map_err(backend::error_in)
}

/// Creates the file with mode 0644 and opens it; its parent must exist. An existing file is opened.
///
/// # Errors
/// As [`open`].
pub fn create_file(path: &str) -> Result<MountSource> {
    backend::host_paths::create_file(path).map(MountSource::new).map_err(backend::error_in)
}
