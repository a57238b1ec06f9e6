//! One call of a plugin: who watches it, what bounds it, and what it is about beside its arguments.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use volhost_kernel::Directory;

use crate::budget::VolumeAccount;
use crate::cancellation::Cancellation;
use crate::environment::{Environment, NodeFacts};
use crate::host_calls::HostCalls;
use crate::progress::Progress;
use crate::sink::{CallSink, HostLog};
use crate::target::Attachment;
use volhost_model::objects::{KeyedObject, Objects};

/// The circumstances of one call, beside the arguments of the function.
///
/// A new call reports to the host's own log, is not cancelled, and is about no device, attachment
/// or secret.
#[derive(Debug, Clone)]
pub struct Call {
    environment: Arc<Environment>,
    sink: Arc<dyn CallSink>,
    plugin_time: Duration,
    progress: Arc<Progress>,
    cancellation: Arc<Cancellation>,
    account: Arc<VolumeAccount>,
    host_calls: Option<Arc<dyn HostCalls>>,
    volume: VolumeFacts,
}

/// The host's knowledge of the call's volume, for the calls that need it.
#[derive(Debug, Clone, Default)]
struct VolumeFacts {
    device_places: Option<DevicePlaces>,
    attached_as: Option<String>,
    attachment_metadata: BTreeMap<String, String>,
    /// The volume is published for the pod already.
    is_refresh: bool,
    mount_group: Option<u32>,
    /// The namespace of the pod for which the volume is mounted now.
    mount_namespace: Option<String>,
    secrets: KeyedObject,
    provisioning: Option<Arc<ProvisioningCall>>,
}

impl Call {
    /// Creates a call in this environment. The plugin's own code may run for `plugin_time`; time in
    /// host calls is not counted, because a slow disk is not the plugin's fault.
    #[must_use]
    pub fn new(environment: Arc<Environment>, plugin_time: Duration) -> Self {
        Self {
            environment,
            sink: Arc::new(HostLog),
            plugin_time,
            progress: Arc::default(),
            cancellation: Arc::default(),
            account: Arc::default(),
            host_calls: None,
            volume: VolumeFacts::default(),
        }
    }

    /// Creates a call in an environment that provides nothing.
    #[must_use]
    pub fn bare(plugin_time: Duration) -> Self {
        Self::new(Arc::default(), plugin_time)
    }

    /// Sets how long the plugin's own code may run.
    #[must_use]
    pub fn with_plugin_time(mut self, plugin_time: Duration) -> Self {
        self.plugin_time = plugin_time;
        self
    }

    /// Sets where log lines and events go.
    #[must_use]
    pub fn with_sink(mut self, sink: Arc<dyn CallSink>) -> Self {
        self.sink = sink;
        self
    }

    /// Sets where the call's current step is shown.
    #[must_use]
    pub fn with_progress(mut self, progress: Arc<Progress>) -> Self {
        self.progress = progress;
        self
    }

    /// Sets what ends the call early once its result is no longer wanted.
    #[must_use]
    pub fn with_cancellation(mut self, cancellation: Arc<Cancellation>) -> Self {
        self.cancellation = cancellation;
        self
    }

    /// Sets the account of what is bounded per volume.
    #[must_use]
    pub fn with_account(mut self, account: Arc<VolumeAccount>) -> Self {
        self.account = account;
        self
    }

    /// Sets who watches the host calls, and may make them fail.
    #[must_use]
    pub fn with_host_calls(mut self, host_calls: Arc<dyn HostCalls>) -> Self {
        self.host_calls = Some(host_calls);
        self
    }

    /// Makes it a call for this node instead of the environment's.
    #[must_use]
    pub fn with_node(mut self, node: Arc<NodeFacts>) -> Self {
        self.environment = Arc::new(Environment::clone(&self.environment).with_node(node));
        self
    }

    /// Lets the call find these objects instead of the environment's.
    #[must_use]
    pub fn with_objects(mut self, objects: Arc<dyn Objects>) -> Self {
        self.environment = Arc::new(Environment::clone(&self.environment).with_objects(objects));
        self
    }

    /// Sets where an external driver makes devices of the volume appear.
    #[must_use]
    pub fn with_device_places(mut self, places: DevicePlaces) -> Self {
        self.volume.device_places = Some(places);
        self
    }

    /// Sets what the volume is attached as, and what the controller's report says of that
    /// attachment, if it is attached.
    #[must_use]
    pub fn with_attachment(mut self, attachment: Option<&Attachment>) -> Self {
        self.volume.attached_as = attachment.map(|attachment| attachment.attached_as.clone());
        self.volume.attachment_metadata = attachment.map(|attachment| attachment.metadata.clone()).unwrap_or_default();
        self
    }

    /// Makes it a call that refreshes a published volume.
    #[must_use]
    pub fn with_refresh(mut self) -> Self {
        self.volume.is_refresh = true;
        self
    }

    /// Sets the group of the pod for which the volume is staged, if it has one.
    #[must_use]
    pub fn with_mount_group(mut self, group: Option<u32>) -> Self {
        self.set_mount_group(group);
        self
    }

    /// Sets the namespace of the pod for which the volume is staged.
    #[must_use]
    pub fn with_mount_namespace(mut self, namespace: &str) -> Self {
        self.set_mount_namespace(namespace);
        self
    }

    /// Sets the secrets that came with the request for the call (`provisioning.call-secret`);
    /// texts.
    #[must_use]
    pub fn with_secrets(mut self, secrets: KeyedObject) -> Self {
        self.volume.secrets = secrets;
        self
    }

    /// Sets what the StorageClass says of a call that makes, grows or deletes a volume.
    #[must_use]
    pub fn with_provisioning(mut self, provisioning: ProvisioningCall) -> Self {
        self.volume.provisioning = Some(Arc::new(provisioning));
        self
    }

    /// Returns what the host provides to the call.
    #[must_use]
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Returns where log lines and events go.
    #[must_use]
    pub fn sink(&self) -> &Arc<dyn CallSink> {
        &self.sink
    }

    /// Returns where the call's current step is shown.
    #[must_use]
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Returns what ends the call early.
    #[must_use]
    pub fn cancellation(&self) -> &Arc<Cancellation> {
        &self.cancellation
    }

    pub(crate) fn plugin_time(&self) -> Duration {
        self.plugin_time
    }

    pub(crate) fn account(&self) -> &VolumeAccount {
        &self.account
    }

    pub(crate) fn host_calls(&self) -> Option<&dyn HostCalls> {
        self.host_calls.as_deref()
    }

    pub(crate) fn device_places(&self) -> Option<&DevicePlaces> {
        self.volume.device_places.as_ref()
    }

    pub(crate) fn attached_as(&self) -> Option<&str> {
        self.volume.attached_as.as_deref()
    }

    pub(crate) fn attachment_metadata(&self) -> &BTreeMap<String, String> {
        &self.volume.attachment_metadata
    }

    pub(crate) fn is_refresh(&self) -> bool {
        self.volume.is_refresh
    }

    pub(crate) fn mount_group(&self) -> Option<u32> {
        self.volume.mount_group
    }

    pub(crate) fn set_mount_group(&mut self, group: Option<u32>) {
        self.volume.mount_group = group;
    }

    pub(crate) fn mount_namespace(&self) -> Option<&str> {
        self.volume.mount_namespace.as_deref()
    }

    pub(crate) fn set_mount_namespace(&mut self, namespace: &str) {
        self.volume.mount_namespace = Some(namespace.to_owned());
    }

    pub(crate) fn secrets(&self) -> &KeyedObject {
        &self.volume.secrets
    }

    pub(crate) fn provisioning(&self) -> Option<&ProvisioningCall> {
        self.volume.provisioning.as_deref()
    }
}

/// The places of a volume at which an external driver stages devices and makes them appear.
#[derive(Debug, Clone)]
pub struct DevicePlaces {
    /// The host's root folder.
    pub root: Arc<Directory>,
    /// The folder of the places, below the root; made when it is needed.
    pub folder: PathBuf,
    /// What begins the plugin's names for the places in the folder. The rest is the place's name
    /// there. Empty: the plugin's names are theirs.
    pub prefix: &'static str,
    /// The places that are not in the folder, by the plugin's names: paths below the root.
    pub others: BTreeMap<&'static str, PathBuf>,
}

impl DevicePlaces {
    /// Creates places that are all in one folder below the root, under the plugin's names for them.
    pub fn in_folder(root: Arc<Directory>, folder: PathBuf) -> Self {
        Self { root, folder, prefix: "", others: BTreeMap::new() }
    }

    /// Returns the folder below the root and the name in it of a place; none if the volume has no
    /// place that the plugin can call so.
    pub fn at<'a>(&'a self, name: &'a str) -> Option<(&'a Path, &'a OsStr)> {
        match self.others.get(name) {
            Some(path) => Some((path.parent()?, path.file_name()?)),
            None => Some((&self.folder, OsStr::new(name.strip_prefix(self.prefix)?))),
        }
    }
}

/// The settings of a StorageClass for a call that makes, grows or deletes a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProvisioningCall {
    /// The driver that is meant.
    pub provisioner: String,
    /// Namespace and name of the secret for the call.
    pub secret: Option<(String, String)>,
    /// Where the volume may be: in one of these places, which have for each key one of its values.
    /// None: anywhere.
    pub allowed_places: Vec<BTreeMap<String, Vec<String>>>,
    /// What the volume is to be mounted with.
    pub mount_options: Vec<String>,
}
