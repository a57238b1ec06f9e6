//! The commands of the state machine. The caller executes them in order and reports back with
//! events.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use volhost_model::names::{PluginName, PodUid, SpecName, UniqueVolumeName};
use volhost_model::view::{EventKind, VolumeState};
use volhost_model::{ContainerMount, Failure, NeededVolume, Pod, VolumeSpec};

use crate::event::{OperationId, Time, WaiterId};

/// A command to the caller.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum CoreCommand {
    /// Begin this operation and answer with exactly one
    /// [`OperationDone`](crate::Event::OperationDone).
    Start(Operation),
    /// Send [`Timer`](crate::Event::Timer) at this time. Replaces the timer that was armed before.
    ArmTimer(Time),
    /// Publish this event to users.
    Publish(Notice),
    /// Release the waiting caller.
    Answer {
        /// The caller.
        waiter: WaiterId,
        /// Success, or the status of each volume that is not ready.
        result: Result<(), WaitFailure>,
    },
}

/// An operation on one volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Its name in [`OperationDone`](crate::Event::OperationDone).
    pub id: OperationId,
    /// The kind of operation.
    pub kind: OperationKind,
    /// The volume.
    pub volume: UniqueVolumeName,
    /// Its plugin.
    pub plugin: PluginName,
    /// The name in the pod's folder.
    pub spec_name: SpecName,
    /// The pod; none for operations on the volume alone.
    pub pod_uid: Option<PodUid>,
    /// The pod's object; always there for mounts, unknown for unmounts of what recovery found.
    #[serde(with = "crate::shared::option")]
    pub pod: Option<Arc<Pod>>,
    /// The volume's spec; always there for mounts, perhaps unknown for unmounts.
    #[serde(with = "crate::shared::option")]
    pub spec: Option<Arc<VolumeSpec>>,
    /// The device's path if the volume is attached, or the controller's name for the attachment.
    pub device_path: Option<String>,
    /// The volume has to be attached to be used.
    pub attachable: bool,
    /// The volume is staged: mounted once on the node, then once for each pod.
    pub stageable: bool,
    /// For mounts: the pod's container mounts of it.
    #[serde(with = "crate::shared::list")]
    pub container_mounts: Arc<[ContainerMount]>,
    /// For mounts: the volumes of the pod that it is made of; they are mounted.
    #[serde(with = "crate::shared::list")]
    pub needs: Arc<[NeededVolume]>,
}

/// The kind of an operation, with its details.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OperationKind {
    /// `volume_attach`
    Attach,
    /// `volume_detach`
    Detach,
    /// `verify_controller_attached_volume`
    VerifyControllerAttached,
    /// `volume_mount`: the device if the volume has one and it is not mounted, then the pod's
    /// mount.
    Mount {
        /// The device is mounted already.
        staged: bool,
        /// The pod's mount exists; its content is to be refreshed.
        remount: bool,
    },
    /// `volume_unmount`
    Unmount,
    /// `unmount_device`
    UnmountDevice,
    /// `map_volume`
    Map {
        /// The device is staged already.
        staged: bool,
    },
    /// `unmap_volume`
    Unmap,
    /// `unmap_device`
    UnmapDevice,
    /// `volume_fs_resize`
    Expand {
        /// The size it has, in bytes.
        from: u64,
        /// The size wanted, in bytes.
        to: u64,
    },
}

impl OperationKind {
    /// Whether it mounts a pod's volume on a device that was mounted already when it began.
    pub const fn found_device(self) -> bool {
        matches!(self, Self::Mount { staged: true, .. } | Self::Map { staged: true })
    }

    /// Returns its name, without details.
    pub const fn name(self) -> OperationName {
        match self {
            Self::Attach => OperationName::Attach,
            Self::Detach => OperationName::Detach,
            Self::VerifyControllerAttached => OperationName::VerifyControllerAttached,
            Self::Mount { .. } => OperationName::Mount,
            Self::Unmount => OperationName::Unmount,
            Self::UnmountDevice => OperationName::UnmountDevice,
            Self::Map { .. } => OperationName::Map,
            Self::Unmap => OperationName::Unmap,
            Self::UnmapDevice => OperationName::UnmapDevice,
            Self::Expand { .. } => OperationName::Expand,
        }
    }
}

/// The name of an operation: an [`OperationKind`] without its details.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum OperationName {
    /// `volume_attach`
    Attach,
    /// `volume_detach`
    Detach,
    /// `verify_controller_attached_volume`
    VerifyControllerAttached,
    /// `volume_mount`
    Mount,
    /// `volume_unmount`
    Unmount,
    /// `unmount_device`
    UnmountDevice,
    /// `map_volume`
    Map,
    /// `unmap_volume`
    Unmap,
    /// `unmap_device`
    UnmapDevice,
    /// `volume_fs_resize`
    Expand,
}

impl OperationName {
    /// Returns the kubelet's name for it, as metrics and `volhost get operations` show it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Attach => "volume_attach",
            Self::Detach => "volume_detach",
            Self::VerifyControllerAttached => "verify_controller_attached_volume",
            Self::Mount => "volume_mount",
            Self::Unmount => "volume_unmount",
            Self::UnmountDevice => "unmount_device",
            Self::Map => "map_volume",
            Self::Unmap => "unmap_volume",
            Self::UnmapDevice => "unmap_device",
            Self::Expand => "volume_fs_resize",
        }
    }
}

impl fmt::Display for OperationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An event for users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// Normal or Warning.
    pub kind: EventKind,
    /// The kubelet's reasons (`FailedMount`), and `FailedUnmount`, `SuccessfulMount`,
    /// `SuccessfulUnmount` where the kubelet emits no event.
    pub reason: &'static str,
    /// The pod, if it concerns one.
    pub pod_uid: Option<PodUid>,
    /// The pod, `namespace/name`, as far as known.
    pub pod: String,
    /// The volume; none for one that could not be resolved, which has no unique name yet.
    pub volume: Option<UniqueVolumeName>,
    /// The message: `MountVolume.SetUp failed for volume "data": …`.
    pub message: String,
}

/// The failure of a wait, with every volume that did not meet its condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WaitFailure {
    /// The pod, `namespace/name`, or its uid.
    pub pod: String,
    /// The deadline passed; otherwise it cannot succeed.
    pub timed_out: bool,
    /// The host does not know the pod.
    pub unknown_pod: bool,
    /// The volumes.
    pub volumes: Vec<VolumeStatus>,
}

/// The status of one volume that a caller waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VolumeStatus {
    /// The name in the pod, or the folder's name when that is all that is known.
    pub name: String,
    /// Its state.
    pub state: VolumeState,
    /// The step it is at, as the kubelet's messages name it: `waiting for volume_mount`,
    /// `MountVolume.SetUp`.
    pub step: String,
    /// The last failure.
    pub failure: Option<Failure>,
    /// Why it is not resolved, or the step at which a running operation hangs.
    pub reason: String,
    /// When the next try is due.
    pub retry_at: Option<Time>,
    /// The running operation, and its start. Only its thread knows its step.
    pub running: Option<(OperationId, Time)>,
}
