//! The driver: a plugin, the kernel, and what its calls share.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tracing::warn;
use volhost_fuse_servers::FuseServerProcesses;
use volhost_kernel::{Directory, Durability, Kernel, KernelError, RootLock};
use volhost_model::names::check_dns_subdomain;
use volhost_model::spec::is_pod_source;
use volhost_process::Launcher;
use volhost_runtime::{
    Call, CallError, Capability, DevicePlaces, Environment, FuseServers, NodeFacts, Plugin, PluginInfo,
};

use crate::catalog::Catalog;
use crate::in_flight::{InFlight, RunningCalls};
use crate::node_records::NodeRecords;
use crate::places::{CoFolder, CoPaths};
use crate::publish_records::PublishRecords;
use crate::records::RecordFolder;
use crate::refusal::Refusal;
use crate::secrets::RequestSecrets;
use crate::source::{ServedSource, name_of};
use volhost_proto::csi::Topology;
use volhost_volume_ops::steps::{StepError, Steps};

/// The lock file in the folder of records.
const LOCK: &str = "lock";
/// Below the folder of records: the devices of external drivers, and the private folders of
/// volumes.
const DEVICES: &str = "devices";
pub(crate) const PRIVATE: &str = "private";
/// Below the folder of records: where inline volumes of pods are staged.
pub(crate) const OWN_STAGING: &str = "ephemeral";
/// Below the folder of records: those of FUSE servers.
const FUSE_SERVERS: &str = "fuse-servers";
/// The folder's mode: only the driver reads it.
const FUSE_SERVERS_MODE: u32 = 0o700;

/// How often FUSE servers without a mount are ended: as often as the daemon does it.
const SETTLE_INTERVAL: Duration = Duration::from_secs(60);

/// What a driver is made of.
#[derive(Debug)]
pub struct DriverOptions {
    /// The plugin.
    pub plugin: Arc<Plugin>,
    /// Where the plugin's primitives go.
    pub kernel: Arc<dyn Kernel>,
    /// The driver's name, as volumes name it; without, the plugin's source says it.
    pub name: Option<String>,
    /// This node's name.
    pub node_id: String,
    /// Where this node is; volumes that are made here can be reached from there. Empty: from
    /// everywhere.
    pub topology: BTreeMap<String, String>,
    /// The folder that the CO's paths lie below; absolute.
    pub co_folder: PathBuf,
    /// The folder of records; absolute, made if it is missing.
    pub state_dir: PathBuf,
    /// The controller publishes volumes to nodes.
    pub attach: bool,
    /// The controller publishes volumes to nodes of every name, not to this one alone.
    pub any_node: bool,
    /// How many volumes a node takes; none for as many as one likes.
    pub max_volumes: Option<u32>,
    /// How long the plugin's own code may run in one call.
    pub plugin_time: Duration,
    /// How FUSE servers are started.
    pub launcher: Launcher,
}

/// Why there is no driver.
#[derive(Debug, Error)]
pub enum DriverStartError {
    /// The folder of records cannot be used.
    #[error("the folder for records {folder}: {source}; see --state-dir")]
    State {
        /// The folder.
        folder: PathBuf,
        /// The kernel's words.
        #[source]
        source: KernelError,
    },
    /// The name is no driver's.
    #[error("the driver's name: {0}; see --driver-name")]
    Name(String),
    /// The plugin serves no source that a volume of a CSI driver can have.
    #[error("plugin {plugin} cannot be served as a CSI driver: {why}; use it with `volhost run`")]
    Plugin {
        /// The plugin's name.
        plugin: String,
        /// What is wrong with each of its sources.
        why: String,
    },
    /// The node's name is none.
    #[error("the node's name has to have 1 to 192 bytes without control characters; see --node-id")]
    NodeId,
}

/// A volume plugin as a CSI driver.
#[derive(Debug)]
pub struct ServedPlugin {
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) kernel: Arc<dyn Kernel>,
    pub(crate) name: String,
    pub(crate) node_id: String,
    pub(crate) topology: BTreeMap<String, String>,
    pub(crate) attach: bool,
    pub(crate) any_node: bool,
    pub(crate) max_volumes: Option<u32>,
    pub(crate) source: ServedSource,
    co: CoFolder,
    pub(crate) in_flight: InFlight,
    pub(crate) running: RunningCalls,
    pub(crate) on_node: NodeRecords,
    pub(crate) catalog: Catalog,
    pub(crate) publish_records: PublishRecords,
    pub(crate) state: Arc<Directory>,
    state_path: PathBuf,
    environment: Arc<Environment>,
    pub(crate) fuse_servers: Arc<dyn FuseServers>,
    plugin_time: Duration,
    _lock: RootLock,
}

/// The longest name of a node, in bytes: what Kubernetes keeps of it.
const NODE_ID_BYTES: usize = 192;
/// The longest name of a driver, in bytes: the specification's limit.
const NAME_BYTES: usize = 63;

impl ServedPlugin {
    /// Opens the folder of records, and takes it for this process alone.
    ///
    /// # Errors
    /// [`DriverStartError`].
    pub fn start(options: DriverOptions) -> Result<Self, DriverStartError> {
        let DriverOptions { plugin, kernel, .. } = options;
        let source = served_source(plugin.info())?;
        let name = options.name.unwrap_or_else(|| own_name(&source, plugin.info().name.as_str()));
        check_dns_subdomain("a driver", &name).map_err(|error| DriverStartError::Name(error.to_string()))?;
        if name.len() > NAME_BYTES {
            return Err(DriverStartError::Name(format!("it has {} bytes, {NAME_BYTES} at most", name.len())));
        }
        let node_id = options.node_id;
        if node_id.is_empty() || node_id.len() > NODE_ID_BYTES || node_id.chars().any(char::is_control) {
            return Err(DriverStartError::NodeId);
        }
        let folder = options.state_dir;
        let failed = |source| DriverStartError::State { folder: folder.clone(), source };
        kernel.create_host_directory(&folder, &[PathBuf::from("/")]).map_err(failed)?;
        let state = kernel.open_directory(&folder).map_err(failed)?;
        let lock = kernel.lock_root(&state, OsStr::new(LOCK)).map_err(failed)?;
        let on_node = NodeRecords::open(&kernel, &state).map_err(failed)?;
        // What a controller has promised outlives the machine.
        let catalog = RecordFolder::open(&kernel, &state, "volumes", Durability::Machine).map_err(failed)?;
        let publish_records =
            RecordFolder::open(&kernel, &state, "publications", Durability::Machine).map_err(failed)?;
        let servers = kernel.make_dirs(&state, Path::new(FUSE_SERVERS), FUSE_SERVERS_MODE).map_err(failed)?;
        let servers = FuseServerProcesses::new(Arc::clone(&kernel), options.launcher, Some(servers));
        // The mount stays, and fails every access: only the CO can publish the volume again.
        servers.on_end(|ended| warn!(server = ended.id, "{}", ended.why));
        servers.adopt();
        // The CO unmounts, too. A server that does not end by itself takes long to end, and no call
        // waits for it.
        if let Err(error) = servers.settle_every(SETTLE_INTERVAL) {
            warn!(%error, "FUSE servers without a mount run on until the driver starts again");
        }
        let facts = NodeFacts {
            name: node_id.clone(),
            allocatable_memory: kernel.total_memory().unwrap_or_default(),
            labels: options.topology.clone(),
            ..NodeFacts::default()
        };
        let fuse_servers: Arc<dyn FuseServers> = Arc::new(servers);
        let environment =
            Environment::default().with_node(Arc::new(facts)).with_fuse_servers(Arc::clone(&fuse_servers));
        Ok(Self {
            plugin,
            name,
            node_id,
            topology: options.topology,
            attach: options.attach,
            any_node: options.any_node,
            max_volumes: options.max_volumes,
            source,
            co: CoFolder::new(options.co_folder),
            in_flight: InFlight::default(),
            running: RunningCalls::default(),
            on_node,
            catalog: Catalog::new(catalog),
            publish_records: PublishRecords::new(publish_records),
            state: Arc::new(state),
            state_path: folder.clone(),
            environment: Arc::new(environment),
            plugin_time: options.plugin_time,
            fuse_servers,
            _lock: lock,
            kernel,
        })
    }

    /// The driver's name, as volumes name it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn can(&self, capability: Capability) -> bool {
        self.plugin.exports(capability)
    }

    /// Volumes are staged before they are published.
    pub(crate) fn stages(&self) -> bool {
        [Capability::Attacher, Capability::Stager, Capability::BlockMapper].into_iter().any(|what| self.can(what))
    }

    /// Returns whether the CO leaves the pod's group to the driver. Not for a volume that is staged:
    /// its files are those of an ordinary file system, and the CO changes them by the pod's
    /// `fsGroupChangePolicy`, which a driver does not learn.
    pub(crate) fn takes_mount_group(&self) -> bool {
        self.plugin.info().gives_to_group && !self.can(Capability::Stager)
    }

    /// The CO's paths, for one call.
    pub(crate) fn co(&self) -> CoPaths<'_> {
        self.co.paths(&*self.kernel)
    }

    /// The folder of records can still be reached.
    pub(crate) fn check_state(&self) -> Result<(), Refusal> {
        self.kernel.open_directory(&self.state_path).map(drop).map_err(|error| Refusal::Precondition(error.to_string()))
    }

    /// Where volumes that are made here can be reached from.
    pub(crate) fn reachable_from(&self) -> Vec<Topology> {
        if self.topology.is_empty() {
            return Vec::new();
        }
        vec![Topology { segments: self.topology.clone().into_iter().collect() }]
    }

    /// Creates a call about a volume.
    pub(crate) fn call(&self, volume_id: &str) -> Call {
        Call::new(Arc::clone(&self.environment), self.plugin_time).with_device_places(DevicePlaces::in_folder(
            Arc::clone(&self.state),
            Path::new(DEVICES).join(name_of(volume_id)),
        ))
    }

    /// Creates a call about a volume whose request brought secrets.
    pub(crate) fn call_with(&self, volume_id: &str, secrets: &RequestSecrets) -> Call {
        self.call(volume_id).with_objects(Arc::new(secrets.clone())).with_secrets(secrets.of_call())
    }

    /// Returns the steps that the plugin takes in a call.
    pub(crate) fn steps<'a>(&'a self, call: &'a Call) -> Steps<'a> {
        Steps::new(&*self.kernel, &self.plugin, call)
    }

    /// Turns the error of a step into a refusal.
    pub(crate) fn stepped<T>(
        &self,
        step: &'static str,
        subject: &str,
        outcome: std::result::Result<T, StepError>,
    ) -> Result<T, Refusal> {
        match outcome {
            Ok(done) => Ok(done),
            Err(StepError::Plugin { source, .. }) => self.did(step, subject, Err(*source)),
            Err(StepError::Kernel(source)) => Err(Refusal::kernel(step, crate::check::shown(subject), source)),
        }
    }

    /// Turns the plugin's error into a refusal.
    pub(crate) fn did<T>(
        &self,
        step: &'static str,
        subject: &str,
        outcome: Result<T, CallError>,
    ) -> Result<T, Refusal> {
        outcome.map_err(|source| Refusal::Plugin {
            step,
            subject: crate::check::shown(subject),
            plugin: self.plugin.info().name.as_str().to_owned(),
            source: Box::new(source),
        })
    }
}

/// The source that the driver's volumes have: `csi:NAME` if the plugin serves one, else the first
/// that a PersistentVolume can have.
fn served_source(plugin: &PluginInfo) -> Result<ServedSource, DriverStartError> {
    let mut unfit = Vec::new();
    let mut found = None;
    for source in &plugin.sources {
        match why_unfit(source) {
            Some(why) => unfit.push(format!("{source} {why}")),
            None if source.starts_with("csi:") => return Ok(ServedSource::read(source)),
            None => found = found.or(Some(source)),
        }
    }
    found.map(|source| ServedSource::read(source)).ok_or_else(|| DriverStartError::Plugin {
        plugin: plugin.name.as_str().to_owned(),
        why: if unfit.is_empty() { "it serves no volume source".to_owned() } else { unfit.join("; ") },
    })
}

/// Why no volume of a CSI driver can have this source; none if one can.
fn why_unfit(source: &str) -> Option<&'static str> {
    let field = source.split_once(':').map_or(source, |(field, _)| field);
    match field {
        _ if is_pod_source(field) => {
            Some("is a volume of a pod, whose data goes with the pod: a PersistentVolume of it would lose its data")
        }
        "csi" if field == source => {
            Some("is served by CSI drivers that register with a daemon, and there is none here")
        }
        "flexVolume" => Some("is served by FlexVolume drivers, which only a daemon starts"),
        _ => None,
    }
}

/// The driver's name that the plugin itself suggests: `csi:NAME`, or `vendor/name` turned round.
fn own_name(source: &ServedSource, plugin: &str) -> String {
    match source {
        ServedSource::Csi(driver) => driver.clone(),
        ServedSource::Field(_) => {
            let (vendor, name) = plugin.split_once('/').unwrap_or(("", plugin));
            format!("{name}.{vendor}")
        }
    }
}
