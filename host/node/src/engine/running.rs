//! What is kept of an operation while it runs.

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
pub struct Running {
    /// When it becomes overdue.
    pub(super) due: Time,
    /// Where it stands.
    pub(super) progress: Arc<Progress>,
    /// Ends it early.
    pub(super) cancellation: Arc<Cancellation>,
    /// The pod, if it is an unmount.
    pub(super) unmounts: Option<PodUid>,
    /// The pod and the volume, if it makes a volume ready that was not.
    pub(super) mounts: Option<(PodUid, UniqueVolumeName)>,
    /// The pod for which it sets something up, anew or again: its result is not wanted once the pod
    /// is gone.
    pub(super) sets_up_for: Option<PodUid>,
    /// Its name in metrics.
    pub(super) name: &'static str,
    /// Its plugin.
    pub(super) plugin: PluginName,
    /// When it was decided on.
    pub(super) begun: Instant,
    /// Everything that is logged within belongs to the operation; the root of its trace.
    pub(super) span: Span,
}

impl Running {
    /// An operation that begins now.
    pub(super) fn new(operation: &Operation, due: Time, progress: Arc<Progress>) -> Self {
        let sets_up = matches!(operation.kind, OperationKind::Mount { .. } | OperationKind::Map { .. });
        let first = matches!(operation.kind, OperationKind::Mount { remount: false, .. } | OperationKind::Map { .. });
        let last = matches!(operation.kind, OperationKind::Unmount | OperationKind::Unmap);
        Self {
            due,
            progress,
            cancellation: Arc::default(),
            sets_up_for: operation.pod_uid.clone().filter(|_| sets_up),
            unmounts: operation.pod_uid.clone().filter(|_| last),
            mounts: operation.pod_uid.clone().filter(|_| first).map(|pod| (pod, operation.volume.clone())),
            name: operation.kind.name().as_str(),
            plugin: operation.plugin.clone(),
            begun: Instant::now(),
            span: span(operation),
        }
    }

    /// Shows the operation as failed in its trace.
    pub(super) fn mark_failed(span: &Span, failure: &Failure) {
        // The names by which traces know a failed span.
        span.record("otel.status_code", "ERROR");
        span.record("otel.status_description", tracing::field::display(failure));
    }
}

/// A span's name is part of the place in the code that makes it, so each kind of operation has such a place.
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

fn span(operation: &Operation) -> Span {
    let pod = operation.pod.as_ref().map(|pod| pod.full_name());
    let pod = pod.or_else(|| operation.pod_uid.as_ref().map(ToString::to_string)).unwrap_or_default();
    span_named!(
        operation, pod,
        "volume_attach" "volume_detach" "verify_controller_attached_volume" "volume_mount" "volume_unmount"
        "unmount_device" "map_volume" "unmap_volume" "unmap_device" "volume_fs_resize"
    )
}
