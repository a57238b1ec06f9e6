//! Requests to the event loop. Each carries the channel for its answer.
#![deny(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::oneshot;
use volhost_core::WaitFailure;
use volhost_metrics::NodeCounts;
use volhost_model::names::PodUid;
use volhost_model::view::{
    ClaimView, ContainerMountView, DriverView, EventView, OperationView, PastOperationView, PersistentVolumeView,
    PluginView, PodView, VolumeView,
};
use volhost_plan::Plan;
use volhost_recording::Recording;

use super::manifest_text::Manifest;
use volhost_objects::{DeviceUse, ObjectKey, Problem};
use volhost_volume_ops::forced::Forced;

/// The mount that a forced unmount detaches.
#[derive(Debug, Clone)]
pub enum ForceTarget {
    /// A pod's mount of a volume, by the volume's name in the pod, or in the pod's folder.
    OfPod(PodSelector, String),
    /// The staging mount of a volume, by the volume's unique name, or its name in pods' folders.
    OfNode(String),
}

/// A pod as callers name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodSelector {
    /// By uid.
    Uid(String),
    /// By namespace and name.
    Name {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
    },
}

/// A pod that a request has added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedPod {
    /// Its uid.
    pub uid: PodUid,
    /// `namespace/name`.
    pub full_name: String,
}

/// An object that a request has added, now or to an earlier run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedObject {
    /// Its key.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: String,
    /// `metadata.resourceVersion`; empty for an object that no API server has.
    pub resource_version: String,
}

/// The objects that a request has added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Added {
    /// The pods among the objects.
    pub pods: Vec<AddedPod>,
    /// The parts of the objects that volhost does not use, for example unknown fields.
    pub warnings: Vec<String>,
}

/// An object as it is, and as adding it would make it; as JSON. A secret's values are not in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComparedObject {
    /// Its key.
    pub key: ObjectKey,
    /// As it is; none if it is new.
    pub present: Option<String>,
    /// As it would be.
    pub applied: String,
}

/// The objects of a manifest that could be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// In the manifest's order.
    pub objects: Vec<ComparedObject>,
    /// The parts of the objects that volhost does not use, for example unknown fields.
    pub warnings: Vec<String>,
}

/// Why a request was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RequestError {
    /// The text is no valid object; names line and field.
    #[error("{0}")]
    Invalid(String),
    /// No pod of that name or uid is known.
    #[error("no pod {0} is known on this node; `volhost get pods` lists them")]
    UnknownPod(String),
    /// There is no such object.
    #[error("no {0} is known on this node")]
    UnknownObject(String),
    /// The object belongs to another source.
    #[error("{0}")]
    Conflict(String),
    /// The operation failed.
    #[error("{0}")]
    Failed(String),
    /// The files that the next start needs cannot be written.
    #[error("{message}")]
    NotKept {
        /// The file, and the kernel's message.
        message: String,
        /// The disk is full.
        is_full: bool,
    },
    /// The node's configuration does not allow it.
    #[error("{0}")]
    Precondition(String),
    /// The event loop is ending.
    #[error("volhost is shutting down")]
    Stopping,
}

/// One mount of a pod's volume, as the kernel reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountView {
    /// Below the root folder.
    pub point: String,
    /// File-system type.
    pub fs_type: String,
    /// Where it comes from.
    pub source: String,
    /// The folder of the source that is mounted.
    pub root: String,
    /// Options in force.
    pub options: String,
}

/// A mounted volume of a pod, for the program that starts its containers
/// (`GetMountedVolumesForPod`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountedVolume {
    /// The name in the pod.
    pub outer_name: String,
    /// The unique name.
    pub unique_name: String,
    /// The name in the pod's folder.
    pub spec_name: String,
    /// Absolute path on the host.
    pub path: String,
    /// Read-only.
    pub read_only: bool,
    /// Its mounts in containers, with absolute paths.
    pub container_mounts: Vec<ContainerMountView>,
    /// Its devices in containers.
    pub container_devices: Vec<DeviceUse>,
}

/// What would happen.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// Parts of the manifest that volhost does not use.
    pub warnings: Vec<String>,
}

/// The pods and volumes, at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Pods with their volumes, by namespace and name.
    pub pods: Vec<PodView>,
    /// Volumes that no pod uses any more.
    pub unused_volumes: Vec<VolumeView>,
}

/// The claims and the PersistentVolumes, at one moment.
#[derive(Debug, Clone, Default)]
pub struct Claims {
    /// Claims, by namespace and name.
    pub claims: Vec<ClaimView>,
    /// PersistentVolumes, by name.
    pub volumes: Vec<PersistentVolumeView>,
}

/// The node as a whole, at one moment.
#[derive(Debug, Clone, Default)]
pub struct NodeStatus {
    /// The root folder on the host.
    pub root: String,
    /// Recovery is complete, and every source has been read once.
    pub synced: bool,
    /// The node is being drained, or is drained.
    pub draining: bool,
    /// The manifest files that cannot be used, by name.
    pub manifest_problems: Vec<Problem>,
}

/// A request, and the channel for its answer.
#[derive(Debug)]
pub enum Request {
    /// Add or replace the objects of a manifest.
    AddObjects {
        /// YAML or JSON, perhaps several documents; parsed already, because that takes time.
        manifest: Manifest,
        /// The added objects.
        answer: oneshot::Sender<Result<Added, RequestError>>,
    },
    /// Check whether the objects of a manifest could be added, and add nothing.
    CheckObjects {
        /// As for adding.
        manifest: Manifest,
        /// What would be added.
        answer: oneshot::Sender<Result<Added, RequestError>>,
    },
    /// Check likewise, and compare the objects with the present ones.
    CompareObjects {
        /// As for adding.
        manifest: Manifest,
        /// Both forms of each object.
        answer: oneshot::Sender<Result<Compared, RequestError>>,
    },
    /// Check likewise, and plan what would be mounted and unmounted.
    PlanObjects {
        /// As for adding.
        manifest: Manifest,
        /// The plan.
        answer: oneshot::Sender<Result<Planned, RequestError>>,
    },
    /// Plan a drain.
    PlanDrain(oneshot::Sender<Result<Planned, RequestError>>),
    /// Forget a pod that was added by request.
    RemovePod {
        /// The pod.
        pod: PodSelector,
        /// Done.
        answer: oneshot::Sender<Result<(), RequestError>>,
    },
    /// Forget an object that was added by request, a missing claim, or a released volume.
    RemoveObject {
        /// The object.
        key: ObjectKey,
        /// The consequence, for the user.
        answer: oneshot::Sender<Result<String, RequestError>>,
    },
    /// The objects that requests have added, by key.
    Objects(oneshot::Sender<Vec<AddedObject>>),
    /// Set the labels that the cluster gives this node.
    SetNodeLabels {
        /// By key.
        labels: BTreeMap<String, String>,
        /// Done.
        answer: oneshot::Sender<()>,
    },
    /// Wait until the pod's volumes are mounted.
    WaitMounted {
        /// The pod. It may be one that no source has named yet.
        pod: PodSelector,
        /// At most this long.
        timeout: Duration,
        /// Its end.
        answer: oneshot::Sender<Result<Result<(), WaitFailure>, RequestError>>,
    },
    /// Wait until nothing of the pod is mounted.
    WaitUnmounted {
        /// The pod; an unknown pod is unmounted already.
        pod: PodSelector,
        /// At most this long.
        timeout: Duration,
        /// Its end.
        answer: oneshot::Sender<Result<Result<(), WaitFailure>, RequestError>>,
    },
    /// The pods and volumes.
    Snapshot(oneshot::Sender<Snapshot>),
    /// The operations that run or wait for a retry.
    Operations(oneshot::Sender<Vec<OperationView>>),
    /// The plugins.
    Plugins(oneshot::Sender<Vec<PluginView>>),
    /// The external drivers.
    Drivers(oneshot::Sender<Vec<DriverView>>),
    /// The node as a whole.
    Status(oneshot::Sender<NodeStatus>),
    /// The last steps of the state machine.
    Recording(oneshot::Sender<Recording>),
    /// List the last operations that have ended, oldest first.
    History(oneshot::Sender<Vec<PastOperationView>>),
    /// The claims and the PersistentVolumes.
    Claims(oneshot::Sender<Claims>),
    /// What the metrics count.
    Counts(oneshot::Sender<NodeCounts>),
    /// Events after this sequence number, oldest first.
    Events {
        /// The last sequence number the caller has seen; 0 for all that are kept.
        after: u64,
        /// The events.
        answer: oneshot::Sender<Vec<EventView>>,
    },
    /// The mounts of a pod as the kernel reports them.
    Mounts {
        /// The pod.
        pod: PodSelector,
        /// The mounts.
        answer: oneshot::Sender<Result<Vec<MountView>, RequestError>>,
    },
    /// Volumes of the pod that are mounted, or also those that may be.
    MountedVolumes {
        /// The pod.
        pod: PodSelector,
        /// Include uncertain ones.
        possibly: bool,
        /// The volumes.
        answer: oneshot::Sender<Result<Vec<MountedVolume>, RequestError>>,
    },
    /// Groups that the pod's PersistentVolumes ask for.
    ExtraSupplementalGroups {
        /// The pod.
        pod: PodSelector,
        /// The groups.
        answer: oneshot::Sender<Result<Vec<i64>, RequestError>>,
    },
    /// Unique names of attachable volumes that are wanted or attached.
    VolumesInUse(oneshot::Sender<Vec<String>>),
    /// The node's status reports exactly these as in use.
    MarkReportedInUse {
        /// Unique names.
        volumes: Vec<String>,
        /// Done.
        answer: oneshot::Sender<Result<(), RequestError>>,
    },
    /// A controller has attached exactly these to this node.
    SetNodeAttachments {
        /// Unique names and device paths.
        attachments: Vec<(String, String)>,
        /// Done.
        answer: oneshot::Sender<Result<(), RequestError>>,
    },
    /// Whether the volume is attached.
    VolumeIsAttached {
        /// Unique name.
        volume: String,
        /// True if it is attached.
        answer: oneshot::Sender<bool>,
    },
    /// Whether recovery is complete and every source has been read once.
    StatesSynced(oneshot::Sender<bool>),
    /// Unmount a volume lazily, even if it is in use.
    ForceUnmount {
        /// The mount.
        target: ForceTarget,
        /// End the connection to the server of a FUSE file system first.
        end_server: bool,
        /// Done.
        answer: oneshot::Sender<Result<Forced, RequestError>>,
    },
    /// Clients have added all their pods.
    SourcesReady(oneshot::Sender<()>),
    /// Mount volumes again after a drain; answers whether there was one.
    EndDrain(oneshot::Sender<bool>),
    /// Unmount every volume; answered when nothing is left or the time is over.
    Drain {
        /// At most this long.
        timeout: Duration,
        /// The volumes left, as `namespace/name: volume: reason`.
        answer: oneshot::Sender<Vec<String>>,
    },
}
