//! The last resort for a volume whose storage does not answer: a lazy unmount.

use std::path::PathBuf;

use volhost_kernel::{Detach, KernelError};

use super::node_folders::NodeFolders;

/// The result of a forced unmount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forced {
    /// The connection to the server of the FUSE file system was ended.
    pub server_ended: bool,
}

/// Unmounts the mount at the first of these paths that has one lazily, whatever uses it. Before, if asked to, ends the connection
/// to its server. A folder that is not a mount stays if it contains anything (rule R5). `begins` is
/// called just before the unmount.
///
/// # Errors
/// The kernel's error. The connection may have been ended.
pub(super) fn unmount(
    folders: &NodeFolders,
    paths: &[PathBuf],
    end_server: bool,
    begins: impl FnOnce(),
) -> Result<Forced, KernelError> {
    let nothing = Forced { server_ended: false };
    let Some(path) = paths.iter().find(|path| matches!(folders.mount_at(path), Ok(Some(_)))).or(paths.first()) else {
        return Ok(nothing);
    };
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(nothing) };
    let Some(folder) = folders.open(folder)? else { return Ok(nothing) };
    let server_ended = end_server && folders.kernel().end_server(&folder, name)?;
    begins();
    folders.kernel().detach(&folder, name, Detach::Lazy)?;
    Ok(Forced { server_ended })
}
