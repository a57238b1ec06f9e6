//! Views for users. The API transports them, the command line prints them; no decision depends on
//! them.
//!
//! Times are microseconds since the Unix epoch, sizes are bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The phase of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PodPhase {
    /// Some of its volumes are not ready yet.
    Mounting,
    /// Every volume its containers use is ready.
    Mounted,
    /// It is gone, and its volumes are being unmounted.
    Unmounting,
}

impl PodPhase {
    /// The word that users read.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mounting => "Mounting",
            Self::Mounted => "Mounted",
            Self::Unmounting => "Unmounting",
        }
    }
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PodView {
    /// Its uid.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its phase.
    pub phase: PodPhase,
    /// Its volumes that are ready.
    pub ready: u32,
    /// Its volumes in all.
    pub total: u32,
    /// When the host first heard of it.
    pub since: u64,
    /// When its last volume became ready; none while one is not.
    pub ready_at: Option<u64>,
    /// Its volumes.
    pub volumes: Vec<VolumeView>,
    /// Why volumes of it are not resolved, for a person to act on.
    pub errors: Vec<String>,
    /// Its labels; empty when only its uid is known.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// The state of one volume of one pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum VolumeState {
    /// Wanted, but what it refers to cannot be resolved.
    Unresolved,
    /// Wanted; nothing has been done, or the last try failed and changed nothing.
    Pending,
    /// Waits for its attachment.
    Attaching,
    /// An operation is setting it up.
    Mounting,
    /// Ready for use.
    Mounted,
    /// It may be mounted: the last operation did not say. It is repeated or undone.
    Uncertain,
    /// An operation is taking it away.
    Unmounting,
    /// No pod uses it, but it is still attached or staged.
    Unused,
}

impl VolumeState {
    /// The word that users read.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unresolved => "Unresolved",
            Self::Pending => "Pending",
            Self::Attaching => "Attaching",
            Self::Mounting => "Mounting",
            Self::Mounted => "Mounted",
            Self::Uncertain => "Uncertain",
            Self::Unmounting => "Unmounting",
            Self::Unused => "Unused",
        }
    }
}

/// A volume, of a pod or, when no pod uses it any more, alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeView {
    /// The name in the pod; empty when no pod wants it.
    pub name: String,
    /// The name in the pod's folder.
    pub spec_name: String,
    /// The unique name; empty while unresolved.
    pub unique_name: String,
    /// The plugin's name; empty while unresolved.
    pub plugin: String,
    /// The pod, `namespace/name`; its uid when that is all that is known; empty for an unused
    /// volume.
    pub pod: String,
    /// The pod's uid; empty for an unused volume.
    pub pod_uid: String,
    /// Its state.
    pub state: VolumeState,
    /// The pod's path to it, below the root folder; empty when there is none.
    pub path: String,
    /// The claim that it comes by, `namespace/name`; empty for others.
    pub claim: String,
    /// Whether it is read-only.
    pub read_only: bool,
    /// When it became wanted.
    pub since: u64,
    /// When it became ready.
    pub ready_at: Option<u64>,
    /// The last failure that has not been made good.
    pub failure: Option<Failure>,
    /// When the next try is due; none when nothing waits for a back-off.
    pub retry_at: Option<u64>,
    /// How often in a row it failed.
    pub failures: u32,
    /// Who attached it to the node, `host` or `controller`; empty when it is not attached for
    /// certain, or need not be.
    #[serde(default)]
    pub attached_by: String,
    /// The device's path, or the controller's name for the attachment; empty when it is not known.
    #[serde(default)]
    pub attached_as: String,
    /// The other node that has it, or may, which is why it could not be attached to this one; empty
    /// when none is known to.
    #[serde(default)]
    pub attached_elsewhere: String,
    /// The SELinux label that it is mounted with; empty when it has none.
    #[serde(default)]
    pub selinux_label: String,
    /// How the pod's containers use it, container by container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub container_mounts: Vec<ContainerMountView>,
    /// The other volumes of the pod that it is made of, by their names in the pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made_of: Vec<String>,
    /// The fields of its PersistentVolume that were edited since it was mounted, and apply at its
    /// next mount; empty when none was.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pending_edit: String,
    /// The size of its storage in bytes, as the file system has been grown to; none when it is not
    /// known, or has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The size in bytes that its plugin refuses to give it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_size: Option<u64>,
    /// How full it is, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Box<UsageView>>,
}

/// How full one volume of one pod is, and how well.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageView {
    /// Bytes in all; like each of these figures none when the storage does not have it.
    pub capacity: Option<u64>,
    /// Bytes that the pod may still write.
    pub available: Option<u64>,
    /// Bytes in use.
    pub used: Option<u64>,
    /// Files and folders in all.
    pub inodes: Option<u64>,
    /// Files and folders that may still be made.
    pub inodes_free: Option<u64>,
    /// Files and folders that there are.
    pub inodes_used: Option<u64>,
    /// When this was measured; none while there is no answer.
    pub measured_at: Option<u64>,
    /// Since when the storage owes an answer; none when it owes none.
    pub asked_at: Option<u64>,
    /// Why the volume is unhealthy; empty when it is healthy, or when that is not known.
    pub abnormal: String,
    /// Why the figures, or some, are missing.
    pub problem: String,
}

/// One use of a volume by a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerMountView {
    /// The container.
    pub container: String,
    /// Its place in the container's `volumeMounts`, from 0.
    pub index: u32,
    /// Where the container has it.
    pub mount_path: String,
    /// The part of the volume, `subPathExpr` expanded; none for the whole volume.
    pub sub_path: Option<String>,
    /// The path to mount into the container, below the root folder; empty while it is not ready.
    pub path: String,
    /// The container can only read it.
    pub read_only: bool,
    /// Mounts inside it are read-only too.
    pub recursive_read_only: bool,
    /// `None`, `HostToContainer` or `Bidirectional`.
    pub propagation: String,
}

/// An operation that has ended. Times are microseconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PastOperationView {
    /// Its name in metrics: `volume_mount`.
    pub name: String,
    /// The volume's unique name.
    pub volume: String,
    /// The pod, `namespace/name` or uid; empty when it concerned the volume alone.
    pub pod: String,
    /// The plugin.
    pub plugin: String,
    /// When it began.
    pub began: u64,
    /// When it ended.
    pub ended: u64,
    /// Why it failed; none if it succeeded.
    pub failure: Option<Failure>,
}

/// An operation that runs, or that failed and waits for its next try.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperationView {
    /// Its number, as log lines and traces have it; 0 when it waits for its next try.
    pub id: u64,
    /// Its name in metrics: `volume_mount`.
    pub name: String,
    /// The volume's unique name.
    pub volume: String,
    /// The pod, `namespace/name` or uid; empty when it concerns the volume alone.
    pub pod: String,
    /// The plugin.
    pub plugin: String,
    /// It runs now.
    pub running: bool,
    /// Its current step: `mount-target.attach`, `plugin code`; empty when it does not run.
    pub step: String,
    /// When it began, or last failed.
    pub since: u64,
    /// It has passed its deadline: its thread hangs in the kernel or waits for slow storage.
    pub overdue: bool,
    /// How often in a row it failed.
    pub failures: u32,
    /// When the next try is due.
    pub retry_at: Option<u64>,
    /// The last failure.
    pub failure: Option<Failure>,
}

/// A plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginView {
    /// `vendor/name`, or the file's name when it could not be loaded.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// A word of [`PluginState`].
    pub state: String,
    /// The file it was loaded from.
    pub file: String,
    /// SHA-256 of the file, in hex.
    pub digest: String,
    /// The contract's version it was built for.
    pub abi: String,
    /// The volume sources it serves.
    pub sources: Vec<String>,
    /// The interfaces it exports: what it can do.
    pub exports: Vec<String>,
    /// The interfaces it imports: what it may ask for.
    pub imports: Vec<String>,
    /// Volumes of it that exist or are wanted.
    pub volumes: u32,
    /// Why it could not be loaded; empty when it was.
    pub error: String,
    /// What the plugin, or its file's new version, waits for: interfaces to grant, and
    /// [`APPROVAL`].
    #[serde(default)]
    pub waits_for: Vec<String>,
    /// SHA-256 of the file's content that waits for approval, in hex; empty when none does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pending_digest: String,
}

/// In [`PluginView::waits_for`]: the file's content waits for the operator's approval.
pub const APPROVAL: &str = "approval";

/// Whether a plugin serves volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PluginState {
    /// It serves volumes.
    Ready,
    /// Its file's content waits for a grant or an approval; a version that was loaded before serves
    /// meanwhile.
    PendingApproval,
    /// Its file is gone or its grant was revoked: it serves the volumes that it has, and no new
    /// ones.
    Retired,
    /// It misbehaved too often: likewise.
    Quarantined,
    /// Its file is being compiled.
    Compiling,
    /// Its name or a source is new to the node; it serves when every other file is loaded.
    Waiting,
    /// Its file could not be loaded.
    Failed,
}

impl PluginState {
    /// Every state.
    pub const ALL: [Self; 7] = [
        Self::Ready,
        Self::PendingApproval,
        Self::Retired,
        Self::Quarantined,
        Self::Compiling,
        Self::Waiting,
        Self::Failed,
    ];

    /// As tables and figures show it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::PendingApproval => "PendingApproval",
            Self::Retired => "Retired",
            Self::Quarantined => "Quarantined",
            Self::Compiling => "Compiling",
            Self::Waiting => "Waiting",
            Self::Failed => "Failed",
        }
    }
}

/// The protocol of an external driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DriverKind {
    /// A FlexVolume executable.
    Flex,
    /// A CSI driver.
    Csi,
}

impl DriverKind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Flex, Self::Csi];

    /// A short word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Flex => "flex",
            Self::Csi => "csi",
        }
    }

    /// The volume source that names drivers of this kind.
    #[must_use]
    pub const fn source(self) -> &'static str {
        match self {
            Self::Flex => "flexVolume",
            Self::Csi => "csi",
        }
    }
}

/// Whether an external driver can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DriverState {
    /// It was found and has not answered yet.
    Starting,
    /// It answers.
    Ready,
    /// It does not, or not rightly; it is asked again.
    Failed,
    /// It has gone, and volumes of it may be left.
    Gone,
}

impl DriverState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Starting, Self::Ready, Self::Failed, Self::Gone];

    /// As tables and figures show it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "Starting",
            Self::Ready => "Ready",
            Self::Failed => "Failed",
            Self::Gone => "Gone",
        }
    }
}

/// An external driver that a plugin drives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverView {
    /// `vendor/driver`, or a CSI driver's own name.
    pub name: String,
    /// The protocol it speaks.
    pub kind: DriverKind,
    /// The plugin that drives it; empty when none is loaded that does.
    pub plugin: String,
    /// The version it reports; empty when it reports none.
    pub version: String,
    /// Whether it can be used.
    pub state: DriverState,
    /// Its own words, or the kernel's, when it cannot.
    pub error: String,
    /// Since when it is in this state, in microseconds since the Unix epoch.
    pub since: u64,
    /// The capabilities that it reports, by its protocol's names.
    pub capabilities: Vec<String>,
    /// Where it is: the executable, or the socket.
    pub location: String,
    /// How many volumes it says may be attached to this node at once; none when it says none.
    pub volume_limit: Option<u32>,
    /// Where it says this node is.
    pub topology: BTreeMap<String, String>,
    /// What it calls this node; empty when it says nothing.
    pub node_id: String,
}

/// A PersistentVolumeClaim, and which PersistentVolume it has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimView {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `Pending`, `Bound`, or `Lost` when the PersistentVolume that it names is not there.
    pub phase: String,
    /// The PersistentVolume; empty when it has none.
    pub volume: String,
    /// The PersistentVolume's size in bytes; 0 when it has none.
    pub capacity: u64,
    /// The requested size, in bytes.
    pub requested: u64,
    /// How it is to be used.
    pub access_modes: Vec<String>,
    /// The class that it names; empty when it names none.
    pub storage_class: String,
    /// Why it has no PersistentVolume, or not one of the size that it asks for.
    pub reason: String,
    /// Its labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// A PersistentVolume, and which claim has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersistentVolumeView {
    /// Its name.
    pub name: String,
    /// `Available`, `Bound`, or `Released` when its claim is gone.
    pub phase: String,
    /// The claim that has it or had it, `namespace/name`; empty when none does.
    pub claim: String,
    /// Its size in bytes; 0 when it is not said.
    pub capacity: u64,
    /// How it may be used.
    pub access_modes: Vec<String>,
    /// Its class; empty when it has none.
    pub storage_class: String,
    /// The reclaim policy, for when its claim is deleted: `Delete` or `Retain`.
    pub reclaim_policy: String,
    /// The provisioner that made it for its claim; empty when it was not made here.
    pub provisioner: String,
    /// Why the last thing that was tried with it failed.
    pub reason: String,
    /// Its labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// Whether an event calls for action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EventKind {
    /// Worth knowing.
    Normal,
    /// Worth acting on.
    Warning,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventView {
    /// Grows by one an event.
    pub sequence: u64,
    /// When it last happened.
    pub at: u64,
    /// Normal or Warning.
    pub kind: EventKind,
    /// One CamelCase word, as the kubelet's: `FailedMount`.
    pub reason: String,
    /// The object: `pod NS/NAME`, `volume NAME`, `plugin NAME`, `file NAME`.
    pub object: String,
    /// The message, with the cause.
    pub message: String,
    /// How often, in a row, the same thing happened.
    pub count: u32,
}
/// A kind of thing that has changed; watchers list again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// Pods, their volumes, or operations.
    World,
    /// Plugins.
    Plugins,
    /// Drivers outside.
    Drivers,
    /// There are new events.
    Events,
}
