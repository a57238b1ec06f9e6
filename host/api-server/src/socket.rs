//! The socket file.
//!
//! A lock file beside it (`volhost.sock.lock`) says whether a living volhost owns the socket: the
//! kernel drops the lock with the process, however it ends. So a socket that a dead daemon left is
//! replaced without guessing, and two daemons that start at the same time cannot both win.
//!
//! ```text
//! lock taken? --no--> InUse
//!     | yes
//! a file there? --no-----------------------------> bind, mode 0600, listen
//!     | a socket, no answer ------> unlinked ---^
//!     | a socket, an answer -------> InUse
//!     | anything else --------------> NotASocket
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::unistd::Group;
use rustix::fs::{AtFlags, CWD, FlockOperation, Gid, Mode, OFlags, chmod, chownat, flock};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use thiserror::Error;

/// The longest path of a unix socket: the kernel's `sun_path` has 108 bytes, and the last is the
/// closing NUL.
pub const MAX_SOCKET_PATH_BYTES: usize = 107;
/// Connections that may wait to be accepted; more callers than that get an error instead of a place
/// in the queue.
const BACKLOG: i32 = 128;
/// Only the owner may connect.
const SOCKET_MODE: u32 = 0o600;
/// The owner and a group may connect.
const GROUP_SOCKET_MODE: u32 = 0o660;

/// Why the socket could not be made. Each names the path and the way out.
#[derive(Debug, Error)]
pub enum SocketBindError {
    /// The path does not fit into the kernel's address.
    #[error(
        "the socket path {path} has {bytes} bytes, {MAX_SOCKET_PATH_BYTES} at most; choose a shorter one with --socket"
    )]
    PathTooLong {
        /// The path.
        path: String,
        /// Its length.
        bytes: usize,
    },
    /// The path names no file.
    #[error("the socket path {path} names no file; give a path such as /run/volhost/volhost.sock with --socket")]
    NoFileName {
        /// The path.
        path: String,
    },
    /// The folder could not be made.
    #[error("cannot make the folder of the socket {path}: {source}")]
    Folder {
        /// The socket.
        path: String,
        /// The kernel's words.
        source: io::Error,
    },
    /// The lock file could not be opened or locked.
    #[error("cannot lock {path}, which guards the socket: {source}")]
    Lock {
        /// The lock file.
        path: String,
        /// The kernel's words.
        source: io::Error,
    },
    /// The group that may connect does not exist, or cannot be looked up.
    #[error(
        "socket-group: {problem}; make it (groupadd --system {group}), or leave socket-group out so that only root may use the socket"
    )]
    Group {
        /// The group.
        group: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Another process serves it.
    #[error(
        "the socket {path} is in use by another volhost{owner}; end that one, or choose another socket with --socket"
    )]
    InUse {
        /// The socket.
        path: String,
        /// ` (process N)`, if it is known.
        owner: String,
    },
    /// Something exists there that volhost did not create.
    #[error(
        "{path} exists and is not a socket; volhost does not replace it: move it away, or choose another path with --socket"
    )]
    NotASocket {
        /// The path.
        path: String,
    },
    /// What exists there could not be examined or removed.
    #[error("cannot replace the old socket {path}: {source}")]
    Replace {
        /// The socket.
        path: String,
        /// The kernel's words.
        source: io::Error,
    },
    /// The socket could not be made.
    #[error("cannot listen at the socket {path}: {step}: {source}")]
    Listen {
        /// The socket.
        path: String,
        /// The step that failed.
        step: &'static str,
        /// The kernel's words.
        source: io::Error,
    },
}

/// A bound socket. Dropping it removes the file, if it is still the one that was made, and then the
/// lock.
#[derive(Debug)]
pub struct ApiListener {
    socket: Option<UnixListener>,
    has_group: bool,
    path: PathBuf,
    identity: (u64, u64),
    lock_path: PathBuf,
    _lock: File,
}

impl ApiListener {
    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the members of a group may connect too.
    pub(super) const fn has_group(&self) -> bool {
        self.has_group
    }

    /// The listening socket; none when it was taken before.
    pub(super) fn take_socket(&mut self) -> Option<UnixListener> {
        self.socket.take()
    }
}

impl Drop for ApiListener {
    fn drop(&mut self) {
        drop(self.socket.take());
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            // Nothing is left to do if it fails: the next start replaces a socket without a server.
            let _ = fs::remove_file(&self.path);
        }
        // With the lock held: a process that opens the file afterwards creates a new one, and a
        // process that has the old one open sees that it is gone.
        let _ = fs::remove_file(&self.lock_path);
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

/// Makes the socket: its folder if it is missing, mode 0600 before a client can connect, an
/// abandoned one replaced.
///
/// # Errors
/// [`SocketBindError`]; nothing that exists is changed then, except that an abandoned socket may be gone.
pub fn bind(path: &Path) -> Result<ApiListener, SocketBindError> {
    bind_for(path, None)
}

/// Makes the socket as [`bind`] does, with mode 0660 for the members of a group, by name or number.
///
/// # Errors
/// [`SocketBindError`], also if there is no such group.
pub fn bind_for(path: &Path, group: Option<&str>) -> Result<ApiListener, SocketBindError> {
    let group = group.map(find_group).transpose()?;
    let shown = path.display().to_string();
    let bytes = path.as_os_str().len();
    if bytes > MAX_SOCKET_PATH_BYTES {
        return Err(SocketBindError::PathTooLong { path: shown, bytes });
    }
    let Some(name) = path.file_name() else {
        return Err(SocketBindError::NoFileName { path: shown });
    };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(|source| SocketBindError::Folder { path: shown.clone(), source })?;
    }
    let mut lock_name = name.to_os_string();
    lock_name.push(".lock");
    let lock_path = path.with_file_name(lock_name);
    let lock = lock(&lock_path, &shown)?;
    clear(path, &shown)?;
    let socket = listen(path, &shown, group)?;
    let identity = identity(path).map_err(|source| SocketBindError::Listen { path: shown, step: "stat", source })?;
    Ok(ApiListener {
        socket: Some(socket),
        has_group: group.is_some(),
        path: path.to_path_buf(),
        identity,
        lock_path,
        _lock: lock,
    })
}

fn find_group(group: &str) -> Result<Gid, SocketBindError> {
    let failed = |problem| SocketBindError::Group { group: group.to_owned(), problem };
    if let Ok(number) = group.parse::<u32>() {
        return Ok(Gid::from_raw(number));
    }
    match Group::from_name(group) {
        Ok(Some(found)) => Ok(Gid::from_raw(found.gid.as_raw())),
        Ok(None) => Err(failed(format!("there is no group {group}"))),
        Err(error) => Err(failed(format!("the group {group} cannot be looked up: {error}"))),
    }
}

/// Takes the lock, and writes our process id into the file for the message of a second daemon.
fn lock(path: &Path, socket: &str) -> Result<File, SocketBindError> {
    let failed = |source| SocketBindError::Lock { path: path.display().to_string(), source };
    loop {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default())
            .open(path)
            .map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut pid = String::new();
                // The number only helps the reader; without it the message still says what to do.
                let _ = Read::take(&file, 16).read_to_string(&mut pid);
                let owner = pid.trim().parse::<u32>().map_or_else(|_| String::new(), |pid| format!(" (process {pid})"));
                return Err(SocketBindError::InUse { path: socket.to_owned(), owner });
            }
            Err(error) => return Err(failed(error.into())),
        }
        let ours = file.metadata().map_err(failed)?;
        // The owner before us may have removed the file between our open and our lock: then our
        // lock guards nothing.
        if identity(path).is_ok_and(|found| found == (ours.dev(), ours.ino())) {
            file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(failed)?;
            return Ok(file);
        }
    }
}

/// Removes a socket without a server. Called with the lock held.
fn clear(path: &Path, shown: &str) -> Result<(), SocketBindError> {
    let replace = |source| SocketBindError::Replace { path: shown.to_owned(), source };
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(replace(error)),
    };
    if !found.file_type().is_socket() {
        return Err(SocketBindError::NotASocket { path: shown.to_owned() });
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(SocketBindError::InUse { path: shown.to_owned(), owner: String::new() }),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path).map_err(replace),
        Err(error) => Err(replace(error)),
    }
}

/// Between `bind` and `listen` the kernel refuses connections, so no client connects before the
/// mode is set.
fn listen(path: &Path, shown: &str, group: Option<Gid>) -> Result<UnixListener, SocketBindError> {
    let failed = |step| {
        move |error: rustix::io::Errno| SocketBindError::Listen { path: shown.to_owned(), step, source: error.into() }
    };
    let address = SocketAddrUnix::new(path).map_err(failed("address"))?;
    let socket: OwnedFd = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )
    .map_err(failed("socket"))?;
    rustix::net::bind(&socket, &address).map_err(failed("bind"))?;
    let mode = match group {
        Some(group) => {
            chownat(CWD, path, None, Some(group), AtFlags::SYMLINK_NOFOLLOW).map_err(failed("chown"))?;
            GROUP_SOCKET_MODE
        }
        None => SOCKET_MODE,
    };
    chmod(path, Mode::from_raw_mode(mode)).map_err(failed("chmod"))?;
    rustix::net::listen(&socket, BACKLOG).map_err(failed("listen"))?;
    Ok(UnixListener::from(socket))
}
