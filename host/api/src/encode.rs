//! Views as messages, for the daemon.

use volhost_model::view::{
    ClaimView, ContainerMountView, DriverKind, DriverState, DriverView, EventKind, EventView, OperationView,
    PersistentVolumeView, PluginView, PodPhase, PodView, VolumeState, VolumeView,
};
use volhost_model::{Failure, FailureClass};

use crate::pb;

impl From<ClaimView> for pb::Claim {
    fn from(claim: ClaimView) -> Self {
        Self {
            namespace: claim.namespace,
            name: claim.name,
            phase: claim.phase,
            volume: claim.volume,
            capacity_bytes: claim.capacity,
            requested_bytes: claim.requested,
            access_modes: claim.access_modes,
            storage_class: claim.storage_class,
            reason: claim.reason,
            labels: claim.labels.into_iter().collect(),
        }
    }
}

impl From<PersistentVolumeView> for pb::PersistentVolume {
    fn from(volume: PersistentVolumeView) -> Self {
        Self {
            name: volume.name,
            phase: volume.phase,
            claim: volume.claim,
            capacity_bytes: volume.capacity,
            access_modes: volume.access_modes,
            storage_class: volume.storage_class,
            reclaim_policy: volume.reclaim_policy,
            provisioner: volume.provisioner,
            reason: volume.reason,
            labels: volume.labels.into_iter().collect(),
        }
    }
}

impl From<PodPhase> for pb::PodPhase {
    fn from(phase: PodPhase) -> Self {
        match phase {
            PodPhase::Mounting => Self::Mounting,
            PodPhase::Mounted => Self::Mounted,
            PodPhase::Unmounting => Self::Unmounting,
        }
    }
}

impl From<VolumeState> for pb::VolumeState {
    fn from(state: VolumeState) -> Self {
        match state {
            VolumeState::Unresolved => Self::Unresolved,
            VolumeState::Pending => Self::Pending,
            VolumeState::Attaching => Self::Attaching,
            VolumeState::Mounting => Self::Mounting,
            VolumeState::Mounted => Self::Mounted,
            VolumeState::Uncertain => Self::Uncertain,
            VolumeState::Unmounting => Self::Unmounting,
            VolumeState::Unused => Self::Unused,
        }
    }
}

impl From<FailureClass> for pb::FailureClass {
    fn from(class: FailureClass) -> Self {
        match class {
            FailureClass::Final => Self::Final,
            FailureClass::Uncertain => Self::Uncertain,
            FailureClass::Transient => Self::Transient,
        }
    }
}

impl From<EventKind> for pb::EventKind {
    fn from(kind: EventKind) -> Self {
        match kind {
            EventKind::Normal => Self::Normal,
            EventKind::Warning => Self::Warning,
        }
    }
}

impl From<Failure> for pb::Failure {
    fn from(failure: Failure) -> Self {
        Self {
            class: pb::FailureClass::from(failure.class).into(),
            step: failure.step,
            plugin: failure.plugin,
            message: failure.message,
        }
    }
}

impl From<PodView> for pb::Pod {
    fn from(pod: PodView) -> Self {
        Self {
            uid: pod.uid,
            namespace: pod.namespace,
            name: pod.name,
            phase: pb::PodPhase::from(pod.phase).into(),
            ready: pod.ready,
            total: pod.total,
            since_us: pod.since,
            ready_at_us: pod.ready_at,
            volumes: pod.volumes.into_iter().map(Into::into).collect(),
            errors: pod.errors,
            labels: pod.labels.into_iter().collect(),
        }
    }
}

impl From<VolumeView> for pb::Volume {
    fn from(volume: VolumeView) -> Self {
        Self {
            name: volume.name,
            spec_name: volume.spec_name,
            unique_name: volume.unique_name,
            plugin: volume.plugin,
            pod: volume.pod,
            pod_uid: volume.pod_uid,
            state: pb::VolumeState::from(volume.state).into(),
            path: volume.path,
            claim: volume.claim,
            read_only: volume.read_only,
            since_us: volume.since,
            ready_at_us: volume.ready_at,
            failure: volume.failure.map(Into::into),
            retry_at_us: volume.retry_at,
            failures: volume.failures,
            attached_by: volume.attached_by,
            attached_as: volume.attached_as,
            attached_elsewhere: volume.attached_elsewhere,
            selinux_label: volume.selinux_label,
            container_mounts: volume.container_mounts.into_iter().map(Into::into).collect(),
            made_of: volume.made_of,
            pending_edit: volume.pending_edit,
            size_bytes: volume.size,
            refused_size_bytes: volume.refused_size,
        }
    }
}

impl From<ContainerMountView> for pb::ContainerMount {
    fn from(mount: ContainerMountView) -> Self {
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

impl From<OperationView> for pb::Operation {
    fn from(operation: OperationView) -> Self {
        Self {
            id: operation.id,
            name: operation.name,
            volume: operation.volume,
            pod: operation.pod,
            plugin: operation.plugin,
            running: operation.running,
            step: operation.step,
            since_us: operation.since,
            overdue: operation.overdue,
            failures: operation.failures,
            retry_at_us: operation.retry_at,
            failure: operation.failure.map(Into::into),
        }
    }
}

impl From<PluginView> for pb::Plugin {
    fn from(plugin: PluginView) -> Self {
        Self {
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
        }
    }
}

impl From<DriverKind> for pb::DriverKind {
    fn from(kind: DriverKind) -> Self {
        match kind {
            DriverKind::Flex => Self::Flex,
            DriverKind::Csi => Self::Csi,
        }
    }
}

impl From<DriverState> for pb::DriverState {
    fn from(state: DriverState) -> Self {
        match state {
            DriverState::Starting => Self::Starting,
            DriverState::Ready => Self::Ready,
            DriverState::Failed => Self::Failed,
            DriverState::Gone => Self::Gone,
        }
    }
}

impl From<DriverView> for pb::Driver {
    fn from(driver: DriverView) -> Self {
        Self {
            name: driver.name,
            kind: pb::DriverKind::from(driver.kind).into(),
            plugin: driver.plugin,
            version: driver.version,
            state: pb::DriverState::from(driver.state).into(),
            error: driver.error,
            since_us: driver.since,
            capabilities: driver.capabilities,
            location: driver.location,
            volume_limit: driver.volume_limit,
            topology: driver.topology.into_iter().collect(),
            node_id: driver.node_id,
        }
    }
}

impl From<EventView> for pb::Event {
    fn from(event: EventView) -> Self {
        Self {
            sequence: event.sequence,
            at_us: event.at,
            kind: pb::EventKind::from(event.kind).into(),
            reason: event.reason,
            object: event.object,
            message: event.message,
            count: event.count,
        }
    }
}
