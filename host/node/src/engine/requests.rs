//! What others ask of the engine. Each request carries the channel for its answer; an answer that nobody waits for is dropped.
#![deny(clippy::disallowed_methods)]

use std::time::Duration;

use thiserror::Error;
use tokio::sync::oneshot;
use volhost_core::{VolumeCounts, WaitFailure};
use volhost_model::names::PodUid;
use volhost_model::view::{
    ClaimView, ContainerMountView, DriverView, EventView, OperationView, PersistentVolumeView, PluginView, PodView,
    VolumeView,
};

use super::forced::ForceTarget;
use super::manifest_text::Manifest;
use volhost_objects::ObjectKey;
use volhost_objects::populate::SelinuxCensus;
use volhost_volume_ops::forced::Forced;

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

/// What a request has added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Added {
    /// The pods among the objects.
    pub pods: Vec<AddedPod>,
    /// What volhost does not use of the objects: fields that a kind does not have, for example.
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
    /// It was tried, and failed.
    #[error("{0}")]
    Failed(String),
    /// What the next start has to know cannot be written.
    #[error("{message}")]
    NotKept {
        /// What, and the kernel's words.
        message: String,
        /// The disk is full.
        is_full: bool,
    },
    /// This node is not one that does such a thing.
    #[error("{0}")]
    Precondition(String),
    /// The engine is ending.
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

/// A mounted volume of a pod, for whoever starts its containers (`GetMountedVolumesForPod`).
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
    /// What each container gets of it, the paths absolute.
    pub container_mounts: Vec<ContainerMountView>,
}

/// All that can be listed, at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Pods with their volumes, by namespace and name.
    pub pods: Vec<PodView>,
    /// Volumes that no pod uses any more.
    pub unused_volumes: Vec<VolumeView>,
    /// Operations that run or wait for a retry.
    pub operations: Vec<OperationView>,
    /// Plugins.
    pub plugins: Vec<PluginView>,
    /// Drivers outside.
    pub drivers: Vec<DriverView>,
}

/// The claims and the PersistentVolumes, at one moment.
#[derive(Debug, Clone, Default)]
pub struct Claims {
    /// Claims, by namespace and name.
    pub claims: Vec<ClaimView>,
    /// PersistentVolumes, by name.
    pub volumes: Vec<PersistentVolumeView>,
}

/// A request and where its answer goes.
#[derive(Debug)]
pub enum Request {
    /// Add or replace the objects of a manifest.
    AddObjects {
        /// YAML or JSON, perhaps several documents; read already, so that the engine has no text to work through.
        manifest: Manifest,
        /// What was added.
        answer: oneshot::Sender<Result<Added, RequestError>>,
    },
    /// Forget a pod that was added by request.
    RemovePod {
        /// Which.
        pod: PodSelector,
        /// Done.
        answer: oneshot::Sender<Result<(), RequestError>>,
    },
    /// Forget an object that was added by request, a missing claim, or a released volume.
    RemoveObject {
        /// Which.
        key: ObjectKey,
        /// What happens now, in words.
        answer: oneshot::Sender<Result<String, RequestError>>,
    },
    /// Wait until the pod's volumes are mounted.
    WaitMounted {
        /// Which; one that nobody has named yet is waited for too.
        pod: PodSelector,
        /// At most this long.
        timeout: Duration,
        /// How it ended.
        answer: oneshot::Sender<Result<Result<(), WaitFailure>, RequestError>>,
    },
    /// Wait until nothing of the pod is mounted.
    WaitUnmounted {
        /// Which; an unknown pod is unmounted already.
        pod: PodSelector,
        /// At most this long.
        timeout: Duration,
        /// How it ended.
        answer: oneshot::Sender<Result<Result<(), WaitFailure>, RequestError>>,
    },
    /// Everything that can be listed.
    Snapshot(oneshot::Sender<Snapshot>),
    /// The claims and the PersistentVolumes.
    Claims(oneshot::Sender<Claims>),
    /// How many volumes and operations there are.
    Census(oneshot::Sender<(VolumeCounts, SelinuxCensus)>),
    /// Events after this sequence number, oldest first.
    Events {
        /// The last sequence number the caller has seen; 0 for all that are kept.
        after: u64,
        /// The events.
        answer: oneshot::Sender<Vec<EventView>>,
    },
    /// The mounts of a pod as the kernel reports them.
    Mounts {
        /// Which.
        pod: PodSelector,
        /// The mounts.
        answer: oneshot::Sender<Result<Vec<MountView>, RequestError>>,
    },
    /// Volumes of the pod that are mounted, or also those that may be.
    MountedVolumes {
        /// Which.
        pod: PodSelector,
        /// Include uncertain ones.
        possibly: bool,
        /// The volumes.
        answer: oneshot::Sender<Result<Vec<MountedVolume>, RequestError>>,
    },
    /// Groups that the pod's PersistentVolumes ask for.
    ExtraSupplementalGroups {
        /// Which.
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
        /// Unique names, and what each is attached as.
        attachments: Vec<(String, String)>,
        /// Done.
        answer: oneshot::Sender<Result<(), RequestError>>,
    },
    /// Whether the volume is attached.
    VolumeIsAttached {
        /// Unique name.
        volume: String,
        /// Whether.
        answer: oneshot::Sender<bool>,
    },
    /// Whether recovery is complete and every source has been read once.
    StatesSynced(oneshot::Sender<bool>),
    /// Take a volume's mount out of sight, whoever uses it.
    ForceUnmount {
        /// Which.
        target: ForceTarget,
        /// End the connection to the server of a FUSE file system first.
        end_server: bool,
        /// Done.
        answer: oneshot::Sender<Result<Forced, RequestError>>,
    },
    /// Every pod that clients want was added.
    SourcesReady(oneshot::Sender<()>),
    /// Mount volumes again after a drain; answers whether there was one.
    EndDrain(oneshot::Sender<bool>),
    /// Take every volume away; answered when nothing is left or the time is over.
    Drain {
        /// At most this long.
        timeout: Duration,
        /// What is left, as `namespace/name: volume: reason`.
        answer: oneshot::Sender<Vec<String>>,
    },
}
