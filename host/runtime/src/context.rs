//! What surrounds one call: the node, the operation's log, its deadline, and the place where the volume goes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use volhost_kernel::{BlockDevice, Directory, KernelError};
use volhost_model::pod_resources::Allocatable;
use volhost_model::view::EventKind;
use volhost_model::{PodUid, SpecName};

use crate::budget::VolumeAccount;
use crate::cancellation::Cancellation;
use crate::driver_programs::{DriverPrograms, NoPrograms};
use crate::drivers::{Drivers, NoDrivers};
use crate::fuse_helpers::{FuseHelpers, NoHelpers};
use crate::host_calls::HostCalls;
use crate::objects::{KeyedObject, NoObjects, Objects};
use crate::private::PrivateFolder;
use crate::progress::Progress;

/// Facts of this node that plugins may ask for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// The node's name.
    pub name: String,
    /// Memory that pods may use, in bytes.
    pub allocatable_memory: u64,
    /// Processors that pods may use, in thousandths.
    pub allocatable_cpu_thousandths: u64,
    /// Disk that pods may use for data of their own, in bytes.
    pub allocatable_ephemeral_storage: u64,
    /// The node's labels.
    pub labels: BTreeMap<String, String>,
}

impl NodeFacts {
    /// What the node gives to pods.
    pub(crate) fn allocatable(&self) -> Allocatable {
        Allocatable {
            cpu_thousandths: self.allocatable_cpu_thousandths,
            memory: self.allocatable_memory,
            ephemeral_storage: self.allocatable_ephemeral_storage,
        }
    }
}

/// How grave a line of a plugin is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something is not as it should be.
    Warn,
    /// Something worth knowing.
    Info,
    /// For the plugin's author.
    Debug,
}

/// Where a call's log lines and events go. The implementation attaches volume, pod, operation and plugin. It is called from the
/// thread that makes the call, and must not block. Texts are one line each, bounded, and free of control characters.
pub trait CallSink: Send + Sync + Debug {
    /// A log line.
    fn log(&self, level: LogLevel, message: &str);
    /// An event on the pod. `reason` is one CamelCase word.
    fn event(&self, kind: EventKind, reason: &str, message: &str);
}

/// What one call needs beside its arguments.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// The node.
    pub node: Arc<NodeFacts>,
    /// The objects that volumes name.
    pub objects: Arc<dyn Objects>,
    /// The drivers outside that have registered.
    pub drivers: Arc<dyn Drivers>,
    /// The drivers outside.
    pub programs: Arc<dyn DriverPrograms>,
    /// The programs that serve file systems.
    pub helpers: Arc<dyn FuseHelpers>,
    /// Where log lines and events go.
    pub sink: Arc<dyn CallSink>,
    /// How long the plugin's own code may run. Time inside host calls is not counted: a slow disk is not the plugin's fault.
    pub deadline: Duration,
    /// Where the call stands, for others to read.
    pub progress: Arc<Progress>,
    /// Ends the call early once its result is no longer wanted.
    pub cancellation: Arc<Cancellation>,
    /// What the volume has taken so far of what is bounded per volume.
    pub account: Arc<VolumeAccount>,
    /// Where a driver outside makes devices of the call's volume appear; none for a call about no device.
    pub device_places: Option<DevicePlaces>,
    /// What the call's volume is attached as, if it is.
    pub attached_as: Option<String>,
    /// What the controller's report says of that attachment.
    pub attachment_metadata: BTreeMap<String, String>,
    /// The group of the pod for whose sake the node mounts the volume, if it does.
    pub mount_group: Option<u32>,
    /// Who watches the call's host calls, if somebody does.
    pub host_calls: Option<Arc<dyn HostCalls>>,
    /// The secrets that whoever asked for the call sent with it (`provisioning.call-secret`); texts.
    pub secrets: KeyedObject,
    /// What the StorageClass says of a call that makes, grows or deletes a volume, if one does.
    pub provisioning: Option<Arc<ProvisioningCall>>,
}

/// What a StorageClass says of a call that makes, grows or deletes a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProvisioningCall {
    /// The driver that is meant.
    pub provisioner: String,
    /// Namespace and name of the secret for the call.
    pub secret: Option<(String, String)>,
    /// Where the volume may be: in one of these places, which have for each key one of its values. None: anywhere.
    pub allowed_places: Vec<BTreeMap<String, Vec<String>>>,
    /// What the volume is to be mounted with.
    pub mount_options: Vec<String>,
}

/// The folder of a volume in which a driver outside stages devices and makes them appear.
#[derive(Debug, Clone)]
pub struct DevicePlaces {
    /// The host's root folder.
    pub root: Arc<Directory>,
    /// The folder, below the root; made when it is needed.
    pub folder: PathBuf,
}

impl CallContext {
    /// The surroundings of a call about no operation: lines go to the host's own log, and of the node nothing is told.
    #[must_use]
    pub fn quiet(deadline: Duration) -> Self {
        Self {
            node: Arc::new(NodeFacts::default()),
            objects: Arc::new(NoObjects),
            drivers: Arc::new(NoDrivers),
            programs: Arc::new(NoPrograms),
            helpers: Arc::new(NoHelpers),
            sink: Arc::new(HostLog),
            deadline,
            progress: Arc::new(Progress::default()),
            cancellation: Arc::default(),
            account: Arc::default(),
            device_places: None,
            attached_as: None,
            attachment_metadata: BTreeMap::new(),
            mount_group: None,
            host_calls: None,
            secrets: KeyedObject::default(),
            provisioning: None,
        }
    }
}

/// A name in a folder that the host holds open.
#[derive(Debug)]
pub struct Place {
    /// The folder.
    pub parent: Directory,
    /// The name in it.
    pub name: OsString,
}

/// The one place where a volume stands, for a pod or for the node.
#[derive(Debug)]
pub struct Target {
    /// The folder.
    pub parent: Directory,
    /// The name in it.
    pub name: OsString,
    /// The pod; none for the node's own mount.
    pub pod_uid: Option<PodUid>,
    /// The volume's name in pods' folders.
    pub spec_name: SpecName,
    /// Where the node's own mount of the volume stands, for a pod's target of a volume that has one.
    pub device_mount: Option<Place>,
    /// The folder where the target's note is kept; for a pod's target also the volume's private folder.
    pub private: Option<PrivateFolder>,
    /// Who else has the volume, likewise.
    pub sharers: Option<Arc<dyn Sharers>>,
    /// The pod's other volumes that this one is made of.
    pub needed: Vec<NeededPlace>,
}

/// Where another volume of the pod stands.
#[derive(Debug)]
pub struct NeededPlace {
    /// Its name in the pod.
    pub name: String,
    /// Where.
    pub place: Place,
    /// It was set up as a mount: a folder there is not it.
    pub is_mount: bool,
}

/// The other pods that have a volume which is mounted for the node.
pub trait Sharers: Send + Sync + Debug {
    /// In how many other pods' folders the node's own mount is shown now.
    ///
    /// # Errors
    /// What the kernel said when it was asked for its mounts.
    fn other_pods(&self) -> Result<u32, KernelError>;
}

/// What is known of an attached volume.
#[derive(Debug, Clone)]
pub struct Attachment {
    /// What the plugin answered when it attached the volume, or what the controller reported that did.
    pub attached_as: String,
    /// What the controller's report says of it beside that.
    pub metadata: BTreeMap<String, String>,
    /// Its device, once it was found.
    pub device: Option<Arc<BlockDevice>>,
}

/// For calls about no volume, such as `describe`: lines go to the host's own log.
#[derive(Debug)]
pub(crate) struct HostLog;

impl CallSink for HostLog {
    fn log(&self, level: LogLevel, message: &str) {
        match level {
            LogLevel::Error => tracing::error!(target: "volhost::plugin", "{message}"),
            LogLevel::Warn => tracing::warn!(target: "volhost::plugin", "{message}"),
            LogLevel::Info => tracing::info!(target: "volhost::plugin", "{message}"),
            LogLevel::Debug => tracing::debug!(target: "volhost::plugin", "{message}"),
        }
    }

    fn event(&self, kind: EventKind, reason: &str, message: &str) {
        tracing::info!(target: "volhost::plugin", ?kind, reason, "{message}");
    }
}
