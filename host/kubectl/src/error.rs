//! Why a command failed.

use std::io;

use thiserror::Error;
use volhost_cluster_client::ConnectionError;

/// Why a command failed.
#[derive(Debug, Error)]
pub(crate) enum PluginError {
    /// There are no threads.
    #[error("cannot start: {0}")]
    Runtime(#[source] io::Error),
    /// There is no cluster to ask.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The API server did not give a list.
    #[error("cannot list {kind}: {reason}")]
    List {
        /// Of what.
        kind: String,
        /// In the API server's words.
        reason: String,
    },
    /// The API server did not give an object that the command is about.
    #[error("cannot read {kind} {name}: {reason}")]
    Read {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// In the API server's words.
        reason: String,
    },
    /// The object is not there.
    #[error("{kind} {namespace}/{name} does not exist; `kubectl get {kind} -n {namespace}` lists them")]
    Missing {
        /// Its kind.
        kind: &'static str,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The command is not understood.
    #[error("{0:?} is no pod and no claim; write pod NAME or pvc NAME")]
    Target(String),
    /// Standard output is closed or full.
    #[error("cannot write: {0}")]
    Output(#[source] io::Error),
    /// What is to be printed has no JSON.
    #[error("cannot write JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl PluginError {
    /// 2 for what the user has to write in another way, otherwise 1.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Connection(_) | Self::Target(_) => 2,
            _ => 1,
        }
    }
}
