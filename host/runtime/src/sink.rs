//! Where the log lines and events of a call go.

use std::fmt::Debug;

use volhost_model::view::EventKind;

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

/// Where a call's log lines and events go. The implementation attaches volume, pod, operation and
/// plugin. It is called from the thread that makes the call, and must not block. Texts are one line
/// each, bounded, and free of control characters.
pub trait CallSink: Send + Sync + Debug {
    /// A log line.
    fn log(&self, level: LogLevel, message: &str);
    /// An event on the pod. `reason` is one CamelCase word.
    fn event(&self, kind: EventKind, reason: &str, message: &str);
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
