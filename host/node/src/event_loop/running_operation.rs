//! The state of an operation while it runs.

use std::sync::Arc;
use std::time::Instant;

use tracing::field::Empty;
use tracing::{Span, error_span};
use volhost_core::{Operation, OperationKind, Time};
use volhost_model::Failure;
use volhost_model::names::{PluginName, PodUid, UniqueVolumeName};
use volhost_runtime::{Cancellation, Progress};

/// A running operation.
#[derive(Debug)]
pub(super) struct RunningOperation {
    /// When it becomes overdue.
    pub(super) due: Time,
    /// The step it is at.
    pub(super) progress: Arc<Progress>,
    /// Ends it early.
    pub(super) cancellation: Arc<Cancellation>,
    /// The pod whose volume it unmounts.
    pub(super) unmounts: Option<PodUid>,
    /// The pod and the volume that it mounts for the first time.
    pub(super) mounts: Option<(PodUid, UniqueVolumeName)>,
    /// The pod for which it mounts or remounts a volume: its result is not wanted once the pod is
    /// gone.
    pub(super) mounts_for: Option<PodUid>,
    /// Its volume.
    pub(super) volume: UniqueVolumeName,
    /// Its pod, by the name that users know; empty if it concerns the volume alone.
    pub(super) pod: Arc<str>,
    /// Its name in metrics.
    pub(super) name: &'static str,
    /// Its plugin.
    pub(super) plugin: PluginName,
    /// Its start.
    pub(super) begun: Instant,
    /// The root of its trace. Log lines within it belong to the operation.
    pub(super) span: Span,
}

impl RunningOperation {
    /// Creates the state of an operation that begins now. `pod` is the answer of [`pod_of`].
    pub(super) fn new(operation: &Operation, pod: &Arc<str>, due: Time, progress: Arc<Progress>) -> Self {
        let is_mount = matches!(operation.kind, OperationKind::Mount { .. } | OperationKind::Map { .. });
        let first = matches!(operation.kind, OperationKind::Mount { remount: false, .. } | OperationKind::Map { .. });
        let last = matches!(operation.kind, OperationKind::Unmount | OperationKind::Unmap);
        Self {
            due,
            progress,
            cancellation: Arc::default(),
            mounts_for: operation.pod_uid.clone().filter(|_| is_mount),
            unmounts: operation.pod_uid.clone().filter(|_| last),
            mounts: operation.pod_uid.clone().filter(|_| first).map(|pod| (pod, operation.volume.clone())),
            volume: operation.volume.clone(),
            pod: Arc::clone(pod),
            name: operation.kind.name().as_str(),
            plugin: operation.plugin.clone(),
            begun: Instant::now(),
            span: span(operation, pod),
        }
    }

    /// Marks the operation as failed in its trace.
    pub(super) fn mark_failed(span: &Span, failure: &Failure) {
        // The names by which traces know a failed span.
        span.record("otel.status_code", "ERROR");
        span.record("otel.status_description", tracing::field::display(failure));
    }
}

/// Creates a span by name. A span's name is part of its call site, so each operation has a call
/// site.
macro_rules! span_named {
    ($operation:expr, $pod:expr, $($name:literal)*) => {
        match $operation.kind.name().as_str() {
            $($name => span_named!(@ $name, $name, $operation, $pod),)*
            other => span_named!(@ "operation", other, $operation, $pod),
        }
    };
    (@ $span:literal, $name:expr, $operation:expr, $pod:expr) => {
        // No level of the log may lose the fields: a warning without its volume is worth little.
        error_span!(
            parent: None, $span, operation = $name, id = $operation.id, volume = %$operation.volume,
            plugin = %$operation.plugin, pod = $pod, otel.status_code = Empty, otel.status_description = Empty
        )
    };
}

/// Returns the pod of the operation as logs name it: `namespace/name`, or its uid; empty for an
/// operation on the volume alone.
pub(super) fn pod_of(operation: &Operation) -> Arc<str> {
    let pod = operation.pod.as_ref().map(|pod| pod.full_name().into());
    pod.or_else(|| operation.pod_uid.as_ref().map(|uid| uid.as_str().into())).unwrap_or_default()
}

fn span(operation: &Operation, pod: &str) -> Span {
    span_named!(
        operation, pod,
        "volume_attach" "volume_detach" "verify_controller_attached_volume" "volume_mount" "volume_unmount"
        "unmount_device" "map_volume" "unmap_volume" "unmap_device" "volume_fs_resize"
    )
}
