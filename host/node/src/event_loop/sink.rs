//! Log lines and events of a plugin during an operation. The operation's span names the volume,
//! pod, plugin and operation.

use std::sync::Arc;

use tokio::sync::mpsc;
use tracing::{debug, error, info, warn};
use volhost_model::names::UniqueVolumeName;
use volhost_model::view::EventKind;
use volhost_runtime::{CallSink, LogLevel};

use volhost_volume_ops::events::NewEvent;

use super::reports::WorkerReport;

/// Receives one operation's log lines and events.
#[derive(Debug)]
pub(super) struct OperationSink {
    /// The pod as logs name it; empty for an operation on the volume alone.
    pod: Arc<str>,
    volume: UniqueVolumeName,
    reports: mpsc::UnboundedSender<WorkerReport>,
}

impl OperationSink {
    /// Creates a sink for an operation on this volume of this pod.
    pub(super) const fn new(
        pod: Arc<str>,
        volume: UniqueVolumeName,
        reports: mpsc::UnboundedSender<WorkerReport>,
    ) -> Self {
        Self { pod, volume, reports }
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
            WorkerReport::Event(NewEvent { kind, reason: reason.to_owned(), object, message: message.to_owned() });
        // The loop ends only with the process.
        let _ = self.reports.send(event);
    }
}
