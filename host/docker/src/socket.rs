//! The socket file, which the engines find by its name.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tokio::net::UnixListener;

/// Only root may connect: a volume's content is root's.
const SOCKET_MODE: u32 = 0o600;

/// Why there is no socket.
#[derive(Debug, Error)]
pub enum PluginSocketError {
    /// The folder cannot be created.
    #[error("cannot create the folder of {}: {source}", path.display())]
    Folder {
        /// The socket.
        path: PathBuf,
        /// The kernel's message.
        source: io::Error,
    },
    /// Another process serves it.
    #[error("another process listens at {}; end it, or name another socket with --listen", .0.display())]
    InUse(PathBuf),
    /// There is a file that is no socket.
    #[error("{} is no socket; name another path with --listen", .0.display())]
    NoSocket(PathBuf),
    /// An old socket cannot be removed, or a new one created.
    #[error("cannot listen at {}: {source}", path.display())]
    Listen {
        /// The socket.
        path: PathBuf,
        /// The kernel's message.
        source: io::Error,
    },
}

/// A socket that the engines connect to. Dropped, it removes the file.
#[derive(Debug)]
pub struct PluginSocket {
    path: PathBuf,
    pub(crate) listener: UnixListener,
}

impl PluginSocket {
    /// Listens at a path. A socket that no process serves any more is replaced. Must be called in a
    /// tokio runtime.
    ///
    /// # Errors
    /// [`PluginSocketError`].
    pub fn bind(path: &Path) -> Result<Self, PluginSocketError> {
        let failed = |source| PluginSocketError::Listen { path: path.to_path_buf(), source };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)
                .map_err(|source| PluginSocketError::Folder { path: path.to_path_buf(), source })?;
        }
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => return Err(PluginSocketError::NoSocket(path.to_path_buf())),
            Ok(_) if UnixStream::connect(path).is_ok() => return Err(PluginSocketError::InUse(path.to_path_buf())),
            Ok(_) => fs::remove_file(path).map_err(failed)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE)).map_err(failed)?;
        Ok(Self { path: path.to_path_buf(), listener })
    }
}

impl Drop for PluginSocket {
    fn drop(&mut self) {
        // Another process may have removed it.
        let _ = fs::remove_file(&self.path);
    }
}
