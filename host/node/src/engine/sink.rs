//! What a plugin says during an operation; the operation's span says of which volume, pod, plugin and operation it is.

use tokio::sync::mpsc;
use tracing::{debug, error, info, warn};
use volhost_core::Operation;
use volhost_model::view::EventKind;
use volhost_runtime::{CallSink, LogLevel};

use volhost_volume_ops::events::NewEvent;

use super::executor::FromOperation;

/// Where one operation's log lines and events go.
#[derive(Debug)]
pub struct OperationSink {
    pod: String,
    volume: String,
    events: mpsc::UnboundedSender<FromOperation>,
}

impl OperationSink {
    /// A sink for this operation.
    pub fn new(operation: &Operation, events: mpsc::UnboundedSender<FromOperation>) -> Self {
        let pod = operation.pod.as_ref().map(|pod| pod.full_name());
        let pod = pod.or_else(|| operation.pod_uid.as_ref().map(ToString::to_string)).unwrap_or_default();
        Self { pod, volume: operation.volume.to_string(), events }
    }
}

impl CallSink for OperationSink {
    fn log(&self, level: LogLevel, message: &str) {
        // Called within the operation's span, which has the fields.
        match level {
            LogLevel::Error => error!("{message}"),
            LogLevel::Warn => warn!("{message}"),
            LogLevel::Info => info!("{message}"),
            LogLevel::Debug => debug!("{message}"),
        }
    }

    fn event(&self, kind: EventKind, reason: &str, message: &str) {
        let object = if self.pod.is_empty() { format!("volume {}", self.volume) } else { format!("pod {}", self.pod) };
        let event =
            FromOperation::Event(NewEvent { kind, reason: reason.to_owned(), object, message: message.to_owned() });
        // Nobody listens any more only when the process ends.
        let _ = self.events.send(event);
    }
}
