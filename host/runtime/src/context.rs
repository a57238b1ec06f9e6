//! What surrounds one call: the node, the operation's log, its deadline, and the place where the volume goes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use volhost_kernel::Directory;
use volhost_model::view::EventKind;
use volhost_model::{PodUid, SpecName};

use crate::progress::Progress;

/// Facts of this node that plugins may ask for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// The node's name.
    pub name: String,
    /// Memory that pods may use, in bytes.
    pub allocatable_memory: u64,
    /// The node's labels.
    pub labels: BTreeMap<String, String>,
}

/// How grave a line of a plugin is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something is not as it should be.
    Warn,
    /// Something worth knowing.
    Info,
    /// For the plugin's author.
    Debug,
}

/// Where a call's log lines and events go. The implementation attaches volume, pod, operation and plugin. It is called from the
/// thread that makes the call, and must not block. Texts are one line each, bounded, and free of control characters.
pub trait CallSink: Send + Sync + Debug {
    /// A log line.
    fn log(&self, level: LogLevel, message: &str);
    /// An event on the pod. `reason` is one CamelCase word.
    fn event(&self, kind: EventKind, reason: &str, message: &str);
}

/// What one call needs beside its arguments.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// The node.
    pub node: Arc<NodeFacts>,
    /// Where log lines and events go.
    pub sink: Arc<dyn CallSink>,
    /// How long the plugin's own code may run. Time inside host calls is not counted: a slow disk is not the plugin's fault.
    pub deadline: Duration,
    /// Where the call stands, for others to read.
    pub progress: Arc<Progress>,
}

/// The one place where a volume stands for a pod: a name in a folder that the host holds open.
#[derive(Debug)]
pub struct Target {
    /// The folder.
    pub parent: Directory,
    /// The name in it.
    pub name: OsString,
    /// The pod.
    pub pod_uid: PodUid,
    /// The volume's name in the pod's folder.
    pub spec_name: SpecName,
}

/// For calls about no volume, such as `describe`: lines go to the host's own log.
#[derive(Debug)]
pub(crate) struct HostLog;

impl CallSink for HostLog {
    fn log(&self, level: LogLevel, message: &str) {
        match level {
            LogLevel::Error => tracing::error!(target: "volhost::plugin", "{message}"),
            LogLevel::Warn => tracing::warn!(target: "volhost::plugin", "{message}"),
            LogLevel::Info => tracing::info!(target: "volhost::plugin", "{message}"),
            LogLevel::Debug => tracing::debug!(target: "volhost::plugin", "{message}"),
        }
    }

    fn event(&self, kind: EventKind, reason: &str, message: &str) {
        tracing::info!(target: "volhost::plugin", ?kind, reason, "{message}");
    }
}
