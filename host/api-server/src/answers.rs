//! Requests and answers of the node's loop as messages.

use std::time::{SystemTime, UNIX_EPOCH};

use volhost_api::pb;
use volhost_core::{VolumeStatus, WaitFailure};
use volhost_model::view::UsageView;
use volhost_node::event_loop::manifest_text::FieldValidation;
use volhost_node::event_loop::requests::{
    AddedObject, AddedPod, ComparedObject, MountView, MountedVolume, Planned, PodSelector, RequestError,
};
use volhost_objects::DeviceUse;
use volhost_plan::{PlannedOperation, PlannedPod, WaitingVolume};
use volhost_volume_ops::stats::MeteredVolume;

/// Reads the pod that a request names.
///
/// # Errors
/// [`RequestError::Invalid`] if it names none.
pub(super) fn selected_pod(pod: pb::PodSelector) -> Result<PodSelector, RequestError> {
    if !pod.uid.is_empty() {
        return Ok(PodSelector::Uid(pod.uid));
    }
    if pod.name.is_empty() {
        return Err(RequestError::Invalid("the request names no pod: give its uid, or its namespace and name".into()));
    }
    let namespace = if pod.namespace.is_empty() { "default".into() } else { pod.namespace };
    Ok(PodSelector::Name { namespace, name: pod.name })
}

/// Reads what to do about unknown fields.
///
/// # Errors
/// [`RequestError::Invalid`] if no level has the number.
pub(super) fn field_validation(number: i32) -> Result<FieldValidation, RequestError> {
    match pb::FieldValidation::try_from(number) {
        Ok(pb::FieldValidation::Strict) => Ok(FieldValidation::Strict),
        Ok(pb::FieldValidation::Unspecified | pb::FieldValidation::Warn) => Ok(FieldValidation::Warn),
        Ok(pb::FieldValidation::Ignore) => Ok(FieldValidation::Ignore),
        Err(_) => Err(RequestError::Invalid(format!("field_validation: {number} is no FieldValidation"))),
    }
}

/// A wait that failed now.
pub(super) fn wait_failure(failure: WaitFailure) -> pb::WaitFailure {
    let now_us = now_us();
    pb::WaitFailure {
        pod: failure.pod,
        timed_out: failure.timed_out,
        unknown_pod: failure.unknown_pod,
        volumes: failure.volumes.into_iter().map(|volume| unfinished_volume(volume, now_us)).collect(),
    }
}

/// The clock of the loop's times, in microseconds.
pub(super) fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

fn unfinished_volume(status: VolumeStatus, now_us: u64) -> pb::UnfinishedVolume {
    pb::UnfinishedVolume {
        name: status.name,
        state: pb::VolumeState::from(status.state).into(),
        step: status.step,
        failure: status.failure.map(Into::into),
        reason: status.reason,
        retry_in_ms: status.retry_at.map(|at| at.saturating_sub(now_us) / 1000),
    }
}

/// The measured usage of a volume.
pub(super) fn volume_stats(volume: &MeteredVolume, usage: UsageView) -> pb::VolumeStats {
    pb::VolumeStats {
        pod_uid: volume.pod.to_string(),
        unique_name: volume.volume.to_string(),
        capacity_bytes: usage.capacity,
        available_bytes: usage.available,
        used_bytes: usage.used,
        inodes: usage.inodes,
        inodes_free: usage.inodes_free,
        inodes_used: usage.inodes_used,
        measured_at_us: usage.measured_at,
        asked_at_us: usage.asked_at,
        abnormal: usage.abnormal,
        problem: usage.problem,
    }
}

/// One mount of a pod's volume.
pub(super) fn mount(mount: MountView) -> pb::Mount {
    pb::Mount {
        point: mount.point,
        fs_type: mount.fs_type,
        source: mount.source,
        root: mount.root,
        options: mount.options,
    }
}

/// A mounted volume of a pod.
pub(super) fn mounted_volume(volume: MountedVolume) -> pb::MountedVolume {
    pb::MountedVolume {
        outer_name: volume.outer_name,
        unique_name: volume.unique_name,
        spec_name: volume.spec_name,
        path: volume.path,
        read_only: volume.read_only,
        container_mounts: volume.container_mounts.into_iter().map(Into::into).collect(),
        container_devices: volume.container_devices.into_iter().map(container_device).collect(),
    }
}

fn container_device(device: DeviceUse) -> pb::ContainerDevice {
    let DeviceUse { container, index, device_path } = device;
    pb::ContainerDevice { container, index, device_path }
}

/// An object that a request has added.
pub(super) fn added_object(object: AddedObject) -> pb::AddedObject {
    let AddedObject { key, uid, resource_version } = object;
    let (kind, namespace, name) = (key.kind.name().to_owned(), key.namespace, key.name);
    pb::AddedObject { kind, namespace, name, uid, resource_version }
}

/// An object as it is, and as it would be.
pub(super) fn compared_object(object: ComparedObject) -> pb::ComparedObject {
    let ComparedObject { key, present, applied } = object;
    pb::ComparedObject { kind: key.kind.name().to_owned(), namespace: key.namespace, name: key.name, present, applied }
}

/// A plan.
pub(super) fn planned(Planned { plan, warnings }: Planned) -> pb::PlanResponse {
    let operation = |operation: PlannedOperation| pb::PlannedOperation {
        round: operation.round,
        name: operation.name.to_string(),
        again: operation.is_again,
        volume: operation.volume.to_string(),
        spec_name: operation.spec_name,
        pod: operation.pod,
        plugin: operation.plugin.to_string(),
    };
    let pod = |pod: PlannedPod| pb::PlannedPod {
        name: pod.name,
        phase: pod.phase.map_or(pb::PodPhase::Unspecified, Into::into).into(),
        ready: pod.ready,
        total: pod.total,
    };
    let waiting = |volume: WaitingVolume| pb::WaitingVolume {
        pod: volume.pod,
        volume: volume.volume,
        state: pb::VolumeState::from(volume.state).into(),
        reason: volume.reason,
        retry_at_us: volume.retry_at.unwrap_or_default(),
    };
    pb::PlanResponse {
        operations: plan.operations.into_iter().map(operation).collect(),
        pods: plan.pods.into_iter().map(pod).collect(),
        waiting: plan.waiting.into_iter().map(waiting).collect(),
        warnings,
        running: u32::try_from(plan.running).unwrap_or(u32::MAX),
        cut: plan.is_cut,
    }
}

/// A pod that a request has added.
pub(super) fn added_pod(pod: AddedPod) -> pb::AddedPod {
    pb::AddedPod { uid: pod.uid.into(), full_name: pod.full_name }
}
