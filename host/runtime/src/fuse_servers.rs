//! Programs that serve FUSE file systems for plugins: who starts and watches them implements it.

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

/// A helper that is to be started, as the operator granted it and the plugin filled it in.
#[derive(Debug)]
pub struct HelperStart {
    /// Its name in the grant: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Its program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<HelperArgument>,
    /// Its environment, and nothing besides.
    pub environment: BTreeMap<String, String>,
    /// What it may do.
    pub rights: HelperRights,
    /// How long it may take.
    pub bounds: HelperBounds,
    /// What it gets besides the connection, by number from 1 on ([`HelperPart::Descriptor`]).
    pub descriptors: Vec<HelperDescriptor>,
    /// The kernel holds accesses against the modes that the helper tells.
    pub default_permissions: bool,
    /// Nothing can be written.
    pub read_only: bool,
    /// The SELinux label of what is mounted.
    pub label: Option<String>,
}

/// One word of a command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelperArgument(pub Vec<HelperPart>);

/// A part of such a word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HelperPart {
    /// As it is.
    Text(String),
    /// The path of what the helper gets under this number; 0 is the connection.
    Descriptor(usize),
}

/// What a helper is, and may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelperRights {
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

/// How long a helper may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelperBounds {
    /// Until it serves.
    pub start: Duration,
    /// From when nobody has its file system any more to its end; then it is ended.
    pub stop: Duration,
}

/// Something that a helper gets.
pub enum HelperDescriptor {
    /// A file in memory that holds this, and that only its user can read.
    Secret(Bytes),
    /// A folder or file.
    Source(OwnedFd),
}

impl fmt::Debug for HelperDescriptor {
    /// Without what is in it (rule R10).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secret(_) => "Secret",
            Self::Source(_) => "Source",
        })
    }
}

/// A file system that a helper serves.
#[derive(Debug)]
pub struct Served {
    /// The mount, unseen.
    pub mount: DetachedMount,
    /// The helper's name among all of the node: the mount's source.
    pub id: String,
}

/// Why there is no file system. The text is for the person who reads the pod's events.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HelperError {
    /// Helpers cannot be started here, or not this one.
    #[error("{0}")]
    Unusable(String),
    /// It ended, or did not serve in time. Nothing of it is left.
    #[error("{0}")]
    Failed(String),
}

/// Starts helpers and sees to their end. Called from threads that run calls, many at once.
pub trait FuseServers: Send + Sync + fmt::Debug {
    /// Starts a helper, and waits until it serves.
    ///
    /// # Errors
    /// [`HelperError`]; then nothing runs.
    fn serve(&self, start: HelperStart) -> Result<Served, HelperError>;

    /// Fails if the helper of this name has ended since, with the reason.
    ///
    /// # Errors
    /// [`HelperError::Failed`].
    fn still_serves(&self, id: &str) -> Result<(), HelperError>;

    /// Sees to the end of the helper of this name, unless somebody still has its file system: waits for it as long as is granted,
    /// and ends it then. One that is not known has ended.
    fn settle(&self, id: &str);
}

/// No helpers: where none can be started.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHelpers;

impl FuseServers for NoHelpers {
    fn serve(&self, start: HelperStart) -> Result<Served, HelperError> {
        Err(HelperError::Unusable(format!("the helper {} cannot be started: this host starts none", start.name)))
    }

    fn still_serves(&self, _: &str) -> Result<(), HelperError> {
        Ok(())
    }

    fn settle(&self, _: &str) {}
}

/// The helpers that one call has started. When the call's handles are gone, those whose mounts it did not attach are seen to their end.
#[derive(Debug)]
pub(crate) struct Started {
    helpers: Arc<dyn FuseServers>,
    ids: Vec<String>,
}

impl Started {
    pub(crate) fn new(helpers: Arc<dyn FuseServers>) -> Self {
        Self { helpers, ids: Vec::new() }
    }

    pub(crate) fn push(&mut self, id: String) {
        self.ids.push(id);
    }

    /// Fails if one of them has ended.
    pub(crate) fn still_serve(&self) -> Result<(), HelperError> {
        self.ids.iter().try_for_each(|id| self.helpers.still_serves(id))
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.ids.iter().for_each(|id| self.helpers.settle(id));
    }
}
