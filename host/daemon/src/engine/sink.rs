//! What a plugin says during an operation, with the volume, pod and operation attached.

use tokio::sync::mpsc;
use tracing::{debug, error, info, warn};
use volhost_core::Operation;
use volhost_model::view::EventKind;
use volhost_runtime::{CallSink, LogLevel};

use super::executor::FromOperation;

/// Where one operation's log lines and events go.
#[derive(Debug)]
pub struct OperationSink {
    operation: &'static str,
    id: u64,
    volume: String,
    plugin: String,
    pod: String,
    events: mpsc::UnboundedSender<FromOperation>,
}

impl OperationSink {
    /// A sink for this operation.
    pub fn new(operation: &Operation, events: mpsc::UnboundedSender<FromOperation>) -> Self {
        let pod = operation.pod.as_ref().map(|pod| pod.full_name());
        Self {
            operation: operation.kind.name(),
            id: operation.id,
            volume: operation.volume.to_string(),
            plugin: operation.plugin.to_string(),
            pod: pod.or_else(|| operation.pod_uid.as_ref().map(ToString::to_string)).unwrap_or_default(),
            events,
        }
    }
}

impl CallSink for OperationSink {
    fn log(&self, level: LogLevel, message: &str) {
        let Self { operation, id, volume, plugin, pod, .. } = self;
        match level {
            LogLevel::Error => error!(operation, id, volume, plugin, pod, "{message}"),
            LogLevel::Warn => warn!(operation, id, volume, plugin, pod, "{message}"),
            LogLevel::Info => info!(operation, id, volume, plugin, pod, "{message}"),
            LogLevel::Debug => debug!(operation, id, volume, plugin, pod, "{message}"),
        }
    }

    fn event(&self, kind: EventKind, reason: &str, message: &str) {
        let object = format!("pod {}", self.pod);
        let event = FromOperation::Event { kind, reason: reason.to_owned(), object, message: message.to_owned() };
        // Nobody listens any more only when the process ends.
        let _ = self.events.send(event);
    }
}
