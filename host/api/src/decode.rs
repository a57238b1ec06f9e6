//! Messages as views, for the command line. A value that this build does not know, from a newer
//! daemon, is an error that names it.

use thiserror::Error;
use volhost_model::view::{
    ClaimView, ContainerMountView, DriverKind, DriverState, DriverView, EventKind, EventView, OperationView,
    PersistentVolumeView, PluginView, PodPhase, PodView, UsageView, VolumeState, VolumeView,
};
use volhost_model::{Failure, FailureClass};

use crate::pb;

/// The daemon sent a value that this command line does not know.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the daemon's answer has {what} {value}, which this volhost does not know; use the command line of the daemon's version"
)]
pub struct DecodeError {
    what: &'static str,
    value: i32,
}

impl From<pb::Claim> for ClaimView {
    fn from(claim: pb::Claim) -> Self {
        Self {
            namespace: claim.namespace,
            name: claim.name,
            phase: claim.phase,
            volume: claim.volume,
            capacity: claim.capacity_bytes,
            requested: claim.requested_bytes,
            access_modes: claim.access_modes,
            storage_class: claim.storage_class,
            reason: claim.reason,
            labels: claim.labels.into_iter().collect(),
        }
    }
}

impl From<pb::PersistentVolume> for PersistentVolumeView {
    fn from(volume: pb::PersistentVolume) -> Self {
        Self {
            name: volume.name,
            phase: volume.phase,
            claim: volume.claim,
            capacity: volume.capacity_bytes,
            access_modes: volume.access_modes,
            storage_class: volume.storage_class,
            reclaim_policy: volume.reclaim_policy,
            provisioner: volume.provisioner,
            reason: volume.reason,
            labels: volume.labels.into_iter().collect(),
        }
    }
}

impl TryFrom<pb::PodPhase> for PodPhase {
    type Error = DecodeError;
    fn try_from(phase: pb::PodPhase) -> Result<Self, DecodeError> {
        match phase {
            pb::PodPhase::Mounting => Ok(Self::Mounting),
            pb::PodPhase::Mounted => Ok(Self::Mounted),
            pb::PodPhase::Unmounting => Ok(Self::Unmounting),
            pb::PodPhase::Unspecified => Err(DecodeError { what: "the pod phase", value: phase.into() }),
        }
    }
}

impl TryFrom<pb::VolumeState> for VolumeState {
    type Error = DecodeError;
    fn try_from(state: pb::VolumeState) -> Result<Self, DecodeError> {
        match state {
            pb::VolumeState::Unresolved => Ok(Self::Unresolved),
            pb::VolumeState::Pending => Ok(Self::Pending),
            pb::VolumeState::Attaching => Ok(Self::Attaching),
            pb::VolumeState::Mounting => Ok(Self::Mounting),
            pb::VolumeState::Mounted => Ok(Self::Mounted),
            pb::VolumeState::Uncertain => Ok(Self::Uncertain),
            pb::VolumeState::Unmounting => Ok(Self::Unmounting),
            pb::VolumeState::Unused => Ok(Self::Unused),
            pb::VolumeState::Unspecified => Err(DecodeError { what: "the volume state", value: state.into() }),
        }
    }
}

impl TryFrom<pb::FailureClass> for FailureClass {
    type Error = DecodeError;
    fn try_from(class: pb::FailureClass) -> Result<Self, DecodeError> {
        match class {
            pb::FailureClass::Final => Ok(Self::Final),
            pb::FailureClass::Uncertain => Ok(Self::Uncertain),
            pb::FailureClass::Transient => Ok(Self::Transient),
            pb::FailureClass::Unspecified => Err(DecodeError { what: "the failure class", value: class.into() }),
        }
    }
}

impl TryFrom<pb::EventKind> for EventKind {
    type Error = DecodeError;
    fn try_from(kind: pb::EventKind) -> Result<Self, DecodeError> {
        match kind {
            pb::EventKind::Normal => Ok(Self::Normal),
            pb::EventKind::Warning => Ok(Self::Warning),
            pb::EventKind::Unspecified => Err(DecodeError { what: "the event kind", value: kind.into() }),
        }
    }
}

/// Reads an enumeration's number as the message's type, then as ours.
pub(super) fn enumeration<M: TryFrom<i32>, T: TryFrom<M, Error = DecodeError>>(
    what: &'static str,
    value: i32,
) -> Result<T, DecodeError> {
    T::try_from(M::try_from(value).map_err(|_| DecodeError { what, value })?)
}

impl TryFrom<pb::Failure> for Failure {
    type Error = DecodeError;
    fn try_from(failure: pb::Failure) -> Result<Self, DecodeError> {
        let class = enumeration::<pb::FailureClass, _>("the failure class", failure.class)?;
        Ok(Self::new(class, failure.step, failure.message).by(failure.plugin))
    }
}

impl TryFrom<pb::Pod> for PodView {
    type Error = DecodeError;
    fn try_from(pod: pb::Pod) -> Result<Self, DecodeError> {
        Ok(Self {
            uid: pod.uid,
            namespace: pod.namespace,
            name: pod.name,
            phase: enumeration::<pb::PodPhase, _>("the pod phase", pod.phase)?,
            ready: pod.ready,
            total: pod.total,
            since: pod.since_us,
            ready_at: pod.ready_at_us,
            volumes: pod.volumes.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
            errors: pod.errors,
            labels: pod.labels.into_iter().collect(),
        })
    }
}

impl TryFrom<pb::Volume> for VolumeView {
    type Error = DecodeError;
    fn try_from(volume: pb::Volume) -> Result<Self, DecodeError> {
        Ok(Self {
            name: volume.name,
            spec_name: volume.spec_name,
            unique_name: volume.unique_name,
            plugin: volume.plugin,
            pod: volume.pod,
            pod_uid: volume.pod_uid,
            state: enumeration::<pb::VolumeState, _>("the volume state", volume.state)?,
            path: volume.path,
            claim: volume.claim,
            read_only: volume.read_only,
            since: volume.since_us,
            ready_at: volume.ready_at_us,
            failure: volume.failure.map(TryInto::try_into).transpose()?,
            retry_at: volume.retry_at_us,
            failures: volume.failures,
            usage: None,
            attached_by: volume.attached_by,
            attached_as: volume.attached_as,
            attached_elsewhere: volume.attached_elsewhere,
            selinux_label: volume.selinux_label,
            container_mounts: volume.container_mounts.into_iter().map(Into::into).collect(),
            made_of: volume.made_of,
            pending_edit: volume.pending_edit,
            size: volume.size_bytes,
            refused_size: volume.refused_size_bytes,
        })
    }
}

impl From<pb::VolumeStats> for UsageView {
    fn from(stats: pb::VolumeStats) -> Self {
        Self {
            capacity: stats.capacity_bytes,
            available: stats.available_bytes,
            used: stats.used_bytes,
            inodes: stats.inodes,
            inodes_free: stats.inodes_free,
            inodes_used: stats.inodes_used,
            measured_at: stats.measured_at_us,
            asked_at: stats.asked_at_us,
            abnormal: stats.abnormal,
            problem: stats.problem,
        }
    }
}

impl From<pb::ContainerMount> for ContainerMountView {
    fn from(mount: pb::ContainerMount) -> Self {
        Self {
            container: mount.container,
            index: mount.index,
            mount_path: mount.mount_path,
            sub_path: mount.sub_path,
            path: mount.path,
            read_only: mount.read_only,
            recursive_read_only: mount.recursive_read_only,
            propagation: mount.propagation,
        }
    }
}

impl TryFrom<pb::Operation> for OperationView {
    type Error = DecodeError;
    fn try_from(operation: pb::Operation) -> Result<Self, DecodeError> {
        Ok(Self {
            id: operation.id,
            name: operation.name,
            volume: operation.volume,
            pod: operation.pod,
            plugin: operation.plugin,
            running: operation.running,
            step: operation.step,
            since: operation.since_us,
            overdue: operation.overdue,
            failures: operation.failures,
            retry_at: operation.retry_at_us,
            failure: operation.failure.map(TryInto::try_into).transpose()?,
        })
    }
}

impl TryFrom<pb::Plugin> for PluginView {
    type Error = DecodeError;
    fn try_from(plugin: pb::Plugin) -> Result<Self, DecodeError> {
        Ok(Self {
            name: plugin.name,
            version: plugin.version,
            state: plugin.state,
            file: plugin.file,
            digest: plugin.digest,
            abi: plugin.abi,
            sources: plugin.sources,
            exports: plugin.exports,
            imports: plugin.imports,
            volumes: plugin.volumes,
            error: plugin.error,
            waits_for: plugin.waits_for,
            pending_digest: plugin.pending_digest,
        })
    }
}

impl TryFrom<pb::Driver> for DriverView {
    type Error = DecodeError;
    fn try_from(driver: pb::Driver) -> Result<Self, DecodeError> {
        let kind = match driver.kind() {
            pb::DriverKind::Flex => DriverKind::Flex,
            pb::DriverKind::Csi => DriverKind::Csi,
            pb::DriverKind::Unspecified => {
                return Err(DecodeError { what: "the driver kind", value: driver.kind });
            }
        };
        let state = match driver.state() {
            pb::DriverState::Starting => DriverState::Starting,
            pb::DriverState::Ready => DriverState::Ready,
            pb::DriverState::Failed => DriverState::Failed,
            pb::DriverState::Gone => DriverState::Gone,
            pb::DriverState::Unspecified => {
                return Err(DecodeError { what: "the driver state", value: driver.state });
            }
        };
        Ok(Self {
            name: driver.name,
            kind,
            plugin: driver.plugin,
            version: driver.version,
            state,
            error: driver.error,
            since: driver.since_us,
            capabilities: driver.capabilities,
            location: driver.location,
            volume_limit: driver.volume_limit,
            topology: driver.topology.into_iter().collect(),
            node_id: driver.node_id,
        })
    }
}

impl TryFrom<pb::Event> for EventView {
    type Error = DecodeError;
    fn try_from(event: pb::Event) -> Result<Self, DecodeError> {
        Ok(Self {
            sequence: event.sequence,
            at: event.at_us,
            kind: enumeration::<pb::EventKind, _>("the event kind", event.kind)?,
            reason: event.reason,
            object: event.object,
            message: event.message,
            count: event.count,
        })
    }
}
