//! FUSE servers: programs that serve file systems for plugins. The crate that starts and watches
//! them implements the trait.

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use volhost_kernel::DetachedMount;

use volhost_model::objects::Bytes;

/// A FUSE server to start, as the operator granted it and the plugin filled it in.
#[derive(Debug)]
pub struct FuseServerStart {
    /// Its name in the grant: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Its program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<FuseServerArgument>,
    /// Its environment, and nothing besides.
    pub environment: BTreeMap<String, String>,
    /// What it may do.
    pub rights: FuseServerRights,
    /// How long it may take.
    pub bounds: FuseServerBounds,
    /// What it gets besides the connection, by number from 1 on ([`FuseServerPart::Descriptor`]).
    pub descriptors: Vec<FuseServerDescriptor>,
    /// The secrets in them, each by itself: no message repeats one.
    pub secrets: Vec<Bytes>,
    /// The kernel checks accesses against the modes that the server reports.
    pub default_permissions: bool,
    /// Nothing can be written.
    pub read_only: bool,
    /// The SELinux label of what is mounted.
    pub label: Option<String>,
}

/// One word of a command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FuseServerArgument(pub Vec<FuseServerPart>);

/// A part of such a word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FuseServerPart {
    /// As it is.
    Text(String),
    /// The path of the server's descriptor of this number; 0 is the connection.
    Descriptor(usize),
}

/// The user of a server, and what it may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FuseServerRights {
    /// The user that it runs as, without further groups.
    pub user: u32,
    /// And the group.
    pub group: u32,
    /// The rights of root that it keeps, if it is root: their bits.
    pub capabilities: u64,
    /// The most memory that it may map, in bytes.
    pub memory: Option<u64>,
    /// The most files that it may have open.
    pub open_files: Option<u64>,
}

/// How long a server may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FuseServerBounds {
    /// Until it serves.
    pub start: Duration,
    /// From the end of its last mount to its own end; then it is killed.
    pub stop: Duration,
}

/// A descriptor that a server gets.
pub enum FuseServerDescriptor {
    /// A file in memory with this content that only its user can read.
    Secret(Bytes),
    /// A folder or file.
    Source(OwnedFd),
}

impl fmt::Debug for FuseServerDescriptor {
    /// Without what is in it (rule R10).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secret(_) => "Secret",
            Self::Source(_) => "Source",
        })
    }
}

/// A file system that is served.
#[derive(Debug)]
pub struct Served {
    /// The mount, not attached yet.
    pub mount: DetachedMount,
    /// The server's unique name on the node: the mount's source.
    pub id: String,
}

/// What has become of a server whose file system was unmounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettledServer {
    /// It has ended by itself: what it had to write out is written. So has one that is not known.
    Ended,
    /// Its file system is mounted elsewhere, or the kernel does not say: it runs on.
    Runs,
    /// It did not end by itself, or ended with an error: what users wrote may be lost. The text
    /// names the server, and has the last of its output.
    Failed(String),
}

/// Why there is no file system. The text is for the person who reads the pod's events.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FuseServerError {
    /// FUSE servers cannot be started here, or not this one.
    #[error("{0}")]
    Unusable(String),
    /// It ended, or did not serve in time. Nothing of it is left.
    #[error("{0}")]
    Failed(String),
}

/// Starts FUSE servers and ends them. Called from threads that run calls, many at once.
pub trait FuseServers: Send + Sync + fmt::Debug {
    /// Starts a server, and waits until it serves.
    ///
    /// # Errors
    /// [`FuseServerError`]; then nothing runs.
    fn serve(&self, start: FuseServerStart) -> Result<Served, FuseServerError>;

    /// Fails if the server of this name has ended since, with the reason.
    ///
    /// # Errors
    /// [`FuseServerError::Failed`].
    fn still_serves(&self, id: &str) -> Result<(), FuseServerError>;

    /// Ends the server of this name if its file system is not mounted any more: waits for it as
    /// long as the grant says, and kills it then.
    fn settle(&self, id: &str) -> SettledServer;

    /// Returns whether a server runs.
    fn has_servers(&self) -> bool;
}

/// No FUSE servers: where none can be started.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFuseServers;

impl FuseServers for NoFuseServers {
    fn serve(&self, start: FuseServerStart) -> Result<Served, FuseServerError> {
        Err(FuseServerError::Unusable(format!("FUSE server {} cannot be started: this host starts none", start.name)))
    }

    fn still_serves(&self, _: &str) -> Result<(), FuseServerError> {
        Ok(())
    }

    fn settle(&self, _: &str) -> SettledServer {
        SettledServer::Ended
    }

    fn has_servers(&self) -> bool {
        false
    }
}

/// The FUSE servers that one call has started. When the call's handles are gone, those whose mounts
/// it did not attach are ended.
#[derive(Debug)]
pub(crate) struct Started {
    servers: Arc<dyn FuseServers>,
    ids: Vec<String>,
}

impl Started {
    pub(crate) fn new(servers: Arc<dyn FuseServers>) -> Self {
        Self { servers, ids: Vec::new() }
    }

    pub(crate) fn push(&mut self, id: String) {
        self.ids.push(id);
    }

    /// Fails if one of them has ended.
    pub(crate) fn still_serve(&self) -> Result<(), FuseServerError> {
        self.ids.iter().try_for_each(|id| self.servers.still_serves(id))
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        for id in &self.ids {
            // Nothing was written: no pod has seen these.
            self.servers.settle(id);
        }
    }
}
