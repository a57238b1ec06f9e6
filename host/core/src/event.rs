//! The events that the state machine handles.
//!
//! They are written into recordings, which a later version replays: a new field that an earlier
//! version does not write has `#[serde(default)]`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use volhost_model::names::{OuterName, PluginName, PodUid, SpecName, UniqueVolumeName};
use volhost_model::{ContainerMount, Failure, NeededVolume, Pod, VolumeSpec};

/// Microseconds since the Unix epoch, never running backwards: the caller adds a monotonic clock to
/// the time it started at.
pub type Time = u64;

/// An event. The only input of [`Core::step`](crate::Core::step).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// A source reports that the pod exists, with these volumes. Replaces an earlier report.
    PodDesired(DesiredPod),
    /// The pod is known to be gone or finished: its volumes are to be unmounted.
    PodGone {
        /// The pod.
        uid: PodUid,
    },
    /// Every source has been read completely once: a recovered volume whose pod no source has named
    /// belongs to no pod. Until then no recovered volume is unmounted (rule R2).
    SourcesSynced,
    /// Found at start, before any other event: something is mounted, or may be, in a pod's folder.
    Recovered(RecoveredVolume),
    /// Found at start, before any other event: a volume is attached or staged, or may be, and
    /// mounted in no pod's folder (the process died between the pod's unmount and the device's).
    RecoveredDevice(RecoveredDevice),
    /// A plugin was loaded or replaced: operations that failed because it was missing may be tried
    /// again at once.
    PluginChanged {
        /// Its name.
        plugin: PluginName,
    },
    /// These volumes' storage answers again: failed operations on them may be tried before their
    /// waits are over. Unlike after [`Event::PluginChanged`], their failures count on.
    StorageAnswers(Vec<UniqueVolumeName>),
    /// An operation that a [`CoreCommand::Start`](crate::CoreCommand::Start) began has ended.
    OperationDone {
        /// The operation.
        id: OperationId,
        /// Its end.
        report: OperationReport,
    },
    /// An operation has passed its deadline and has not ended: its key stays taken, and users get
    /// an event.
    OperationOverdue {
        /// The operation.
        id: OperationId,
        /// The step at which it hangs.
        message: String,
    },
    /// The time of [`CoreCommand::ArmTimer`](crate::CoreCommand::ArmTimer) has come.
    Timer,
    /// A caller waits until every volume the pod uses is mounted.
    WaitMounted {
        /// The caller.
        waiter: WaiterId,
        /// The pod.
        uid: PodUid,
        /// When to give up.
        deadline: Time,
    },
    /// A caller waits until nothing of the pod is mounted any more, or may be.
    WaitUnmounted {
        /// The caller.
        waiter: WaiterId,
        /// The pod.
        uid: PodUid,
        /// When to give up.
        deadline: Time,
    },
    /// The caller has gone away.
    WaitCancelled {
        /// The caller.
        waiter: WaiterId,
    },
    /// The pod's mount of the volume is gone, and no operation unmounted it.
    Vanished {
        /// The pod.
        pod: PodUid,
        /// The volume.
        volume: UniqueVolumeName,
    },
    /// The staging mount of the volume is gone, and no operation unmounted it.
    DeviceVanished {
        /// The volume.
        volume: UniqueVolumeName,
    },
    /// The sources of the pod's volumes may have changed: volumes that follow their source are
    /// remounted, at once even if that has just failed.
    SourceChanged {
        /// The pod.
        uid: PodUid,
    },
    /// It is time to remount the volumes that are refreshed at intervals. A volume that has just
    /// failed waits for its back-off.
    Refresh,
    /// The node's status now reports exactly these volumes as in use.
    ReportedInUse(Vec<UniqueVolumeName>),
    /// The controller's report: exactly these volumes are attached to this node, at these device
    /// paths.
    NodeAttachments(Vec<(UniqueVolumeName, String)>),
    /// A part of the controller's report, while not all of it could be read: these volumes are
    /// attached to this node, at these device paths. Other volumes may be attached, too.
    AttachmentsSoFar(Vec<(UniqueVolumeName, String)>),
    /// The controller's report: exactly these volumes could not be attached to this node, and why.
    AttachFailures(Vec<(UniqueVolumeName, String)>),
    /// Their plugins looked, and do not find these volumes, which were attached, attached to this
    /// node.
    NotAttached(Vec<UniqueVolumeName>),
    /// From now on no pod wants a volume: every volume is unmounted, regardless of sources, until
    /// the process ends or the drain is ended.
    Drain,
    /// Volumes are mounted again for the pods that want them.
    DrainEnded,
}

/// Names one operation, for the life of the process.
pub type OperationId = u64;
/// Names one waiting caller.
pub type WaiterId = u64;

/// A pod with its volumes, as far as they could be resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DesiredPod {
    /// The pod.
    #[serde(with = "crate::shared::one")]
    pub pod: Arc<Pod>,
    /// Its resolved volumes, used ones only.
    pub volumes: Vec<DesiredVolume>,
    /// Its other used volumes, and why they could not be resolved. Mounts under these names stay
    /// (rule R2).
    pub unresolved: Vec<UnresolvedVolume>,
}

/// A resolved volume of a pod.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DesiredVolume {
    /// The name in the pod. Two outer names may lead to one volume.
    pub outer_name: OuterName,
    /// The name that is unique on the node.
    pub unique_name: UniqueVolumeName,
    /// The plugin that serves it.
    pub plugin: PluginName,
    /// Its spec.
    #[serde(with = "crate::shared::one")]
    pub spec: Arc<VolumeSpec>,
    /// It must be attached to the node first.
    pub attachable: bool,
    /// It is staged: mounted once on the node, then once for each pod.
    pub stageable: bool,
    /// It is remounted when its source may have changed.
    pub follows_source: bool,
    /// Its file system may be expanded on this node.
    pub expandable: bool,
    /// How many volumes of its plugin may be attached to this node at once; none for no limit.
    /// Counts where the host attaches.
    pub attach_limit: Option<u32>,
    /// How many of those volumes of its plugin may be whose names begin like its own; none for no
    /// limit.
    pub attach_limit_of: Option<NamedLimit>,
    /// It is remounted at each [`Event::Refresh`], if it follows its source.
    pub refreshed: bool,
    /// The pod's container mounts of it. It is ready when every part of it that they name is.
    #[serde(with = "crate::shared::list")]
    pub container_mounts: Arc<[ContainerMount]>,
    /// The other volumes of the pod that it is made of, which need none themselves.
    #[serde(with = "crate::shared::list")]
    pub needs: Arc<[NeededVolume]>,
    /// Why no operation may be started for it: its plugin is not loaded, for example. A mounted
    /// volume stays mounted.
    pub blocked: Option<String>,
    /// The block ends without a user's action: a plugin is being loaded or asked. Users are not
    /// warned.
    pub is_pending: bool,
    /// The spec as its source gives it now, where what is mounted keeps an earlier one until its
    /// next mount.
    #[serde(with = "crate::shared::option")]
    pub declared: Option<Arc<VolumeSpec>>,
}

/// A limit of those volumes of a plugin whose names begin alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedLimit {
    /// How the plugin's own names of them begin.
    pub names: String,
    /// How many of them may be attached to this node at once.
    pub limit: u32,
}

/// A volume that could not be resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnresolvedVolume {
    /// The name in the pod.
    pub outer_name: OuterName,
    /// The reason, for a person to act on.
    pub reason: String,
    /// It will be resolved without a user's action: a plugin is being loaded or asked. Users are
    /// not warned.
    pub is_pending: bool,
    /// The volume it is, where that is known and only its plugin could not be asked.
    #[serde(with = "crate::shared::option")]
    pub spec: Option<Arc<VolumeSpec>>,
    /// The claim it comes by, `namespace/name`, where it comes by one.
    pub claim: Option<String>,
}

impl UnresolvedVolume {
    /// Creates an unresolved volume of which only the name in the pod is known.
    pub fn new(outer_name: OuterName, reason: impl Into<String>) -> Self {
        Self { outer_name, reason: reason.into(), is_pending: false, spec: None, claim: None }
    }
}

/// A volume that recovery found in a pod's folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecoveredVolume {
    /// The pod's uid: its folder's name.
    pub pod: PodUid,
    /// The pod itself, if its record could be read.
    #[serde(with = "crate::shared::option")]
    pub known_pod: Option<Arc<Pod>>,
    /// The plugin: the folder's name.
    pub plugin: PluginName,
    /// The volume's folder name.
    pub spec_name: SpecName,
    /// The unique name from the record, or the per-pod name.
    pub unique_name: UniqueVolumeName,
    /// The spec from the record. With it, a volume that is mounted as wanted need not be mounted
    /// again.
    #[serde(with = "crate::shared::option")]
    pub spec: Option<Arc<VolumeSpec>>,
    /// The kernel and the record agree that the volume was mounted completely.
    pub intact: bool,
    /// It is mounted at the volume's folder itself, although its plugin's volumes are mounted in a
    /// folder: an earlier version did that.
    #[serde(default)]
    pub at_folder: bool,
    /// It was attached, or may have been.
    pub attachable: bool,
    /// It was staged, or may have been.
    pub stageable: bool,
    /// The uses by containers that it was made ready for, from the record.
    #[serde(with = "crate::shared::list")]
    pub container_mounts: Arc<[ContainerMount]>,
    /// The volumes of the pod that it was made of, from the record.
    #[serde(with = "crate::shared::list")]
    pub needs: Arc<[NeededVolume]>,
}

/// A volume that recovery found outside any pod's folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecoveredDevice {
    /// The plugin.
    pub plugin: PluginName,
    /// The unique name from the record.
    pub unique_name: UniqueVolumeName,
    /// The name of the volume in pods' folders.
    pub spec_name: SpecName,
    /// The spec from the record.
    #[serde(with = "crate::shared::option")]
    pub spec: Option<Arc<VolumeSpec>>,
    /// It was attached, or may have been.
    pub attachable: bool,
    /// It was staged, or may have been.
    pub stageable: bool,
}

/// The end of an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperationReport {
    /// The device was found at this path (attach, verify).
    pub device_path: Option<String>,
    /// The device mount after the operation, whatever the result.
    pub device: Option<DeviceReport>,
    /// The current size of the volume, in bytes, if the operation read or changed it.
    pub size: Option<u64>,
    /// The size, in bytes, that the plugin refuses to give the volume, for good or while it is in
    /// use. The plugin is asked again when another size is wanted, or when the volume is mounted
    /// for another pod.
    pub refused_size: Option<u64>,
    /// The other node that has the volume, which is why it could not be attached to this one.
    pub other_node: Option<String>,
    /// The host cancelled it because its pod is gone: its failure says nothing of the volume.
    pub cancelled: bool,
    /// Success, or the failure.
    pub result: Result<(), Failure>,
}

/// An operation's report of the device mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceReport {
    /// It is mounted.
    Mounted,
    /// It may be.
    Uncertain,
    /// It is not.
    Unmounted,
}

impl OperationReport {
    /// Creates the report of a success without details.
    pub fn done() -> Self {
        Self {
            device_path: None,
            device: None,
            size: None,
            refused_size: None,
            other_node: None,
            cancelled: false,
            result: Ok(()),
        }
    }

    /// Creates the report of a failure.
    pub fn failed(failure: Failure) -> Self {
        Self { result: Err(failure), ..Self::done() }
    }
}
