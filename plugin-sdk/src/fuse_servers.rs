//! FUSE file systems, served by programs that the operator has granted: *FUSE servers*. The host
//! makes the mount; the server gets the connection to it and no privilege. The operator decides its
//! command line; the plugin fills in the placeholders (*slots*) in it.
//!
//! A plugin that calls this needs the grant `fuse-servers`, which names the servers; one that does
//! not call it does not request it.
//!
//! ```
//! # use volhost_plugin_sdk::prelude::*;
//! # use volhost_plugin_sdk::fuse_servers::FuseServer;
//! # use volhost_plugin_sdk::testing::TestHost;
//! # let host = TestHost::new();
//! # host.fuse_server("sshfs", &["server", "keys"]).grant("/srv").directory("/srv/keys");
//! # fn example(target: &MountTarget) -> Result<()> {
//! let server = FuseServer::open("sshfs")?;
//! server.set("server", "files.example.com")?;
//! server.set_source("keys", &host_paths::open("/srv/keys")?)?;
//! target.attach(server.serve(false)?)
//! # }
//! # example(&host.target("volume").handle())?;
//! # assert_eq!(host.target("volume").mount().unwrap().option("server"), Some("files.example.com"));
//! # Ok::<(), Error>(())
//! ```

use std::fmt;

use crate::backend;
use crate::error::Result;
use crate::files::Content;
use crate::mounts::{DetachedMount, MountSource};

/// A FUSE server that is about to be started. Setting a slot again replaces its value.
pub struct FuseServer(backend::FuseServer);

impl FuseServer {
    /// The FUSE server that the operator granted under this name.
    ///
    /// # Errors
    /// [`PermissionDenied`](crate::Error::PermissionDenied) when there is none.
    pub fn open(name: &str) -> Result<Self> {
        backend::fuse_servers::open(name).map(Self).map_err(backend::error_in)
    }

    /// Puts a text into a slot. Every user of the machine can read it in the process's arguments:
    /// never a secret.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::Error::InvalidArgument) for a slot that the server does not have,
    /// and for a text that could be more than a value: it begins with `-`, has `..` in a path, or
    /// contains a comma, a blank, a control character, a quotation mark, a backslash or `=`;
    /// [`PermissionDenied`](crate::Error::PermissionDenied) for one that the grant does not allow
    /// there.
    pub fn set(&self, slot: &str, value: &str) -> Result<()> {
        self.0.set(slot, value).map_err(backend::error_in)
    }

    /// Puts the path of a file with this content into a slot. The file is in memory, only the
    /// server's user can read it, and it ends with the server. Where the grant has the slot in a
    /// file of several (`files`), the content itself is put there, without the end of its line.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::Error::InvalidArgument) for a slot that the server does not have,
    /// for more than 1 MiB, and for a slot in a file of several when the content is empty or more
    /// than one line.
    pub fn set_secret(&self, slot: &str, content: &Content) -> Result<()> {
        self.0.set_secret(slot, content.handle()).map_err(backend::error_in)
    }

    /// Puts the path of this folder or file into a slot.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::Error::InvalidArgument) for a slot that the server does not have,
    /// or something else than a folder or file;
    /// [`PermissionDenied`](crate::Error::PermissionDenied) for a read-only source.
    pub fn set_source(&self, slot: &str, source: &MountSource) -> Result<()> {
        self.0.set_source(slot, source.handle()).map_err(backend::error_in)
    }

    /// Starts the server, waits until it serves, and returns the mount, detached; its file-system
    /// type is `fuse.NAME`. With `read_only` nothing can be written. The server ends when no
    /// process has the mount any more, and [`MountTarget::detach`](crate::MountTarget::detach)
    /// waits for that: then it has written out what was written to the volume.
    ///
    /// # Errors
    /// [`Precondition`](crate::Error::Precondition) for a slot that was not set and is needed, or
    /// when the program cannot be started; [`Retryable`](crate::Error::Retryable) when it ended or
    /// did not serve in time, with its last output.
    pub fn serve(self, read_only: bool) -> Result<DetachedMount> {
        self.0.serve(read_only).map(DetachedMount::new).map_err(backend::error_in)
    }
}

impl fmt::Debug for FuseServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FuseServer")
    }
}
