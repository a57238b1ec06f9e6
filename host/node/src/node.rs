//! A node: root folder, plugins, sources and event loop, started in an order that loses no volume.
//!
//! ```text
//!  lock the root folder -> make it a mount of its own -> the tmpfs for records, if it is of this layout
//!    -> load plugins whose code is cached -> recover the volumes in the pods' folders -> read every source -> serve
//! ```
//!
//! Nothing is mounted or unmounted before recovery, and no recovered volume is unmounted before every source has
//! reported.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::{Notify, broadcast, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};
use volhost_core::{Attaching, Config, Core};
use volhost_fuse_servers::FuseServerProcesses;
use volhost_kernel::{Detach, Directory, Entry, FsOption, Kernel, KernelError, Propagation, RootLock};
use volhost_model::PluginName;
use volhost_process::Launcher;
use volhost_runtime::{Environment, GrantPolicy, NodeFacts, Runtime, RuntimeConfig, RuntimeError, Signatures};

use crate::engine::EngineHandle;
use crate::engine::event_loop::{self, Inputs};
use crate::engine::executor::Executor;
use crate::engine::node_state::{FirstManifests, NodeState, Parts};
use crate::engine::object_files::ObjectFiles;
use crate::engine::provisioning::Provisioning;
use crate::engine::reports::WorkerReport;
use crate::engine::sources::Sources;
use crate::engine::world::World;
use crate::engine::{Bounds, fuse_servers, vanished};
use crate::provision::{ProvisionRecordError, ProvisionRecords, Runner};
use crate::root_place::{self, PlaceError};
use volhost_csi::CsiDrivers;
use volhost_driver_table::DriverTable;
use volhost_flex_drivers::{DriverPolicies, FlexDrivers};
use volhost_manifests::ManifestFolder;
use volhost_metrics::Exposition;
use volhost_model::clock::Clock;
use volhost_objects::payload::{Issuer, SharedObjects, renewals};
use volhost_objects::populate::NodeIdentity;
use volhost_plugin_folder::{Approvals, PluginRegistry};
use volhost_volume_ops::events::EventSink;
use volhost_volume_ops::layout_version::LayoutError;
use volhost_volume_ops::sizes;
use volhost_volume_ops::stats::VolumeMeter;
use volhost_volume_ops::volume_ops::{NodeParts, VolumeOps};
use volhost_volume_ops::{layout, layout_version};

/// Requests that may wait for the engine; more callers wait before they have asked.
const REQUEST_QUEUE: usize = 1024;
/// Changes that a watcher may lag behind before it must list again.
const CHANGE_QUEUE: usize = 256;
/// The records' tmpfs: 40,000 volumes need less than half of it.
const STATE_BYTES: u64 = 512 << 20;

/// How long a start waits for the first reading of the manifest folder before it serves without:
/// far longer than a local disk takes.
const MANIFESTS_TIME: Duration = Duration::from_secs(5);

/// How long running operations may take to end when the node stops: under the 90 s that systemd gives a service.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// The options of a node.
#[derive(Debug)]
pub struct NodeOptions {
    /// The root folder.
    pub root: PathBuf,
    /// The plugin folder.
    pub plugins: PathBuf,
    /// The manifest folder, if there is one.
    pub manifests: Option<PathBuf>,
    /// The folder of registration sockets of CSI drivers, if any may register.
    pub plugin_registry: Option<PathBuf>,
    /// How long what vanishes from it is kept, for it may be put back.
    pub manifest_grace: Duration,
    /// The node's name and labels.
    pub identity: NodeIdentity,
    /// The grants of plugins.
    pub grants: GrantPolicy,
    /// The file that grants are read from again when it changes, if there is one.
    pub grant_file: Option<PathBuf>,
    /// Whose plugins are taken.
    pub signatures: Signatures,
    /// A controller attaches volumes, not the host.
    pub controller_attaches: bool,
    /// The plugins whose volumes a controller attaches in any case.
    pub controller_attaches_for: BTreeSet<PluginName>,
    /// How often plugins are asked which volumes are attached.
    pub verify_attached: Duration,
    /// How often volumes are remounted whose content is to be refreshed.
    pub refresh_period: Duration,
    /// The folder of FlexVolume drivers, if they are looked for.
    pub flex_driver_dir: Option<PathBuf>,
    /// The limits of FlexVolume drivers.
    pub flex_drivers: DriverPolicies,
    /// Nodes that are out of service, by the storage's names for them.
    pub nodes_out_of_service: BTreeSet<String>,
    /// How many volumes of a plugin may be attached at once.
    pub attach_limits: BTreeMap<PluginName, u32>,
    /// Compiled plugins are kept here.
    pub cache: PathBuf,
    /// How plugins are compiled.
    pub compiler: volhost_runtime::Compiler,
    /// How FUSE servers are started.
    pub launcher: Launcher,
    /// Whether mounts appear in the mount namespaces of containers that were started before.
    pub propagation: Propagation,
    /// The limits of operations.
    pub bounds: Bounds,
    /// The issuer of service account tokens, if there is one.
    pub tokens: Option<Issuer>,
    /// Volumes are made for claims.
    pub provision: bool,
    /// The volume of a claim that is missing and was not deleted is kept this long.
    pub reclaim_grace: Duration,
    /// The primitives.
    pub kernel: Arc<dyn Kernel>,
}

/// Why a node could not be started. Nothing is left running.
#[derive(Debug, Error)]
pub enum StartError {
    /// The root folder cannot be used.
    #[error("the root folder {} cannot be prepared: {source}", root.display())]
    Root {
        /// Which.
        root: PathBuf,
        /// Why.
        source: KernelError,
    },
    /// The root folder lies where it must not.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Another volhost has it.
    #[error("the root folder {} cannot be locked: {source}", root.display())]
    Lock {
        /// Which.
        root: PathBuf,
        /// Why, and who has it.
        source: KernelError,
    },
    /// The folder for the records of FUSE servers cannot be made.
    #[error("the folder for the records of FUSE servers cannot be made: {0}")]
    FuseServers(#[source] KernelError),
    /// The tmpfs for records cannot be made.
    #[error("the tmpfs for records at {} cannot be mounted: {source}", path.display())]
    State {
        /// Where.
        path: PathBuf,
        /// Why.
        source: KernelError,
    },
    /// Another version of volhost left what is there.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The plugin folder is not there.
    #[error("the plugin folder {} cannot be read: {source}; make it, or name another with --plugin-dir", folder.display())]
    Plugins {
        /// Which.
        folder: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The runtime cannot be set up.
    #[error("the WebAssembly runtime cannot be set up: {0}")]
    Runtime(#[from] RuntimeError),
    /// The machine's memory is not known.
    #[error("the machine's memory cannot be read: {0}")]
    Memory(#[source] KernelError),
    /// The pods' folders cannot be read.
    #[error("the pods' folders below {} cannot be read, and nothing may be mounted before the existing mounts are known: {source}", root.display())]
    Recovery {
        /// The root folder.
        root: PathBuf,
        /// Why.
        source: KernelError,
    },
    /// The records of volumes that were made for claims cannot be read.
    #[error("{0}; volumes are made for claims only when it is known which there are")]
    Provisioned(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A task ended before it had begun.
    #[error("a task of volhost ended early; its log says why")]
    Ended,
}

/// A running node.
#[derive(Debug)]
pub struct Node {
    handle: EngineHandle,
    reload: Vec<Arc<Notify>>,
    stop: CancellationToken,
    engine: JoinHandle<bool>,
    kernel: Arc<dyn Kernel>,
    root: PathBuf,
    inside: Directory,
    _lock: RootLock,
}

impl Node {
    /// Starts a node. When it returns, what earlier runs left is known, every source has been read
    /// once, and requests are served. Plugins may still be being compiled.
    ///
    /// # Errors
    /// [`StartError`]; then nothing runs, and what was mounted before is as it was.
    pub async fn start(mut options: NodeOptions) -> Result<Self, StartError> {
        let tokens = options.tokens.take();
        // `begin` blocks on the disk, the kernel and the compiler child.
        let (renewal, due) = mpsc::unbounded_channel();
        let objects = Arc::new(SharedObjects::new(tokens, renewal));
        let clock = Clock::start();
        let (changes, _) = broadcast::channel(CHANGE_QUEUE);
        let table = Arc::new(DriverTable::new(changes.clone(), clock));
        let (registered, mut ready) = mpsc::unbounded_channel();
        let drivers = CsiDrivers::new(options.plugin_registry.clone(), table.clone(), objects.clone(), registered);
        let drivers = Arc::new(drivers.with_labels(options.identity.labels.clone()));
        let known = (objects.clone(), drivers.clone());
        let (ended, mut endings) = mpsc::unbounded_channel();
        let (begun, mut options) = tokio::task::spawn_blocking(move || (begin(&options, known, ended), options))
            .await
            .map_err(|_| StartError::Ended)?;
        let Begun { lock, inside, volume_ops, registry, recovery, memory, disk, label, flex, servers } = begun?;
        options.identity = options.identity.with_selinux(label);

        let stop = CancellationToken::new();
        let (reports, workers) = mpsc::unbounded_channel();
        let (plugin_changes, mut plugin_inputs) = mpsc::channel(16);
        let (manifest_changes, mut manifest_inputs) = mpsc::channel(16);
        let (requests, request_inputs) = mpsc::channel(REQUEST_QUEUE);

        let mut reload = vec![Arc::new(Notify::new())];
        registry.set_starting(true);
        tokio::spawn(volhost_plugin_folder::watch(
            options.plugins.clone(),
            registry.clone(),
            options
                .grant_file
                .clone()
                .map(|file| volhost_plugin_folder::GrantFile::new(file, options.grants.shipped().clone())),
            plugin_changes,
            reload.first().cloned().unwrap_or_default(),
            stop.clone(),
        ));
        // Plugins whose code is cached. Others are compiled while the node serves.
        let first_plugins = plugin_inputs.recv().await.ok_or(StartError::Ended)?;

        let first_manifests = match &options.manifests {
            None => FirstManifests::NoFolder,
            Some(folder) => {
                let reread = Arc::new(Notify::new());
                reload.push(reread.clone());
                let folder = ManifestFolder::open(folder.clone()).with_grace(options.manifest_grace);
                let watching = volhost_manifests::watch(folder, reread, manifest_changes, stop.clone());
                tokio::spawn(async move {
                    if let Err(error) = watching.await {
                        error!(%error, "the manifest folder is not watched any more; restart volhost");
                    }
                });
                // Without an answer, as from a server that hangs: what is mounted is served, and
                // stays.
                match timeout(MANIFESTS_TIME, manifest_inputs.recv()).await {
                    Ok(Some(changes)) => FirstManifests::Read(changes),
                    Ok(None) => return Err(StartError::Ended),
                    Err(_) => FirstManifests::Unread(options.manifests.clone().unwrap_or_default()),
                }
            }
        };

        let facts = NodeFacts {
            name: options.identity.name.clone(),
            allocatable_memory: memory,
            allocatable_cpu_thousandths: processors().saturating_mul(1_000),
            allocatable_ephemeral_storage: disk,
            labels: options.identity.labels.clone(),
        };
        let renewed = reports.clone();
        let provisioned = reports.clone();
        tokio::spawn(renewals(due, stop.clone(), move |pod| {
            // The loop ends only with the process.
            let _ = renewed.send(WorkerReport::SourceChanged(pod));
        }));
        if let Some(folder) = &options.plugin_registry {
            tokio::spawn(volhost_csi::watch(folder.clone(), drivers.clone(), stop.clone()));
        }
        let noted = reports.clone();
        let events = event_sink(reports.clone());
        tokio::spawn(async move {
            while let Some(note) = ready.recv().await {
                // The loop ends only with the process.
                let _ = noted.send(WorkerReport::Driver(note));
            }
        });
        tokio::spawn(sizes::measure(Arc::downgrade(&volume_ops), events.clone(), stop.clone()));
        let server_ends = reports.clone();
        tokio::spawn(async move {
            while let Some(ending) = endings.recv().await {
                // The loop ends only with the process.
                let _ = server_ends.send(ending);
            }
        });
        let mut environment = Environment::default()
            .with_node(Arc::new(facts))
            .with_objects(objects.clone())
            .with_drivers(drivers)
            .with_fuse_servers(Arc::new(servers.clone()));
        if let Some(flex) = flex.clone() {
            environment = environment.with_driver_programs(flex);
        }
        let executor =
            Executor::new(volume_ops.clone(), registry.clone(), environment, clock, options.bounds, reports.clone());
        let attaching =
            Attaching::all_by_host(!options.controller_attaches).except(options.controller_attaches_for.clone());
        let provisioning = match options.provision {
            false => None,
            true => {
                let (volume_ops, plugins) = (volume_ops.clone(), registry.clone());
                let (reports, time) = (provisioned, options.bounds.plugin_time);
                let grace = options.reclaim_grace;
                let restoring = move || -> Result<_, ProvisionRecordError> {
                    let records = ProvisionRecords::open(volume_ops.kernel().clone(), volume_ops.root())?;
                    Provisioning::restore(Runner::new(records, plugins, time), grace, reports)
                };
                let restored = tokio::task::spawn_blocking(restoring).await.map_err(|_| StartError::Ended)?;
                Some(restored.map_err(|error| StartError::Provisioned(error.into()))?)
            }
        };
        let world = World::new(
            Core::new(Config::default().with_host_attaches(!options.controller_attaches))
                .with_controllers_for(options.controller_attaches_for),
            clock,
            executor,
            changes.clone(),
        );
        let (driver_news, driver_inputs) = mpsc::channel(16);
        if let Some(flex) = &flex {
            let asked = Arc::new(Notify::new());
            reload.push(asked.clone());
            tokio::spawn(volhost_flex_drivers::watch(
                flex.clone(),
                table.clone(),
                driver_news.clone(),
                asked,
                stop.clone(),
            ));
        }
        let meter = VolumeMeter::new(&volume_ops, options.bounds.plugin_time, events);
        let exposition = Exposition::new(world.operations().clone(), Some(meter))
            .with_drivers(Arc::clone(&table))
            .with_fuse_servers(servers);
        let files = ObjectFiles::new(&volume_ops, provisioning.is_some());
        vanished::start(&volume_ops, reports.clone());
        let mut node = NodeState::new(Parts {
            world,
            sources: Sources::new(files, registry.clone(), options.identity, objects, attaching),
            plugins: registry,
            drivers: table,
            provisioning,
            volume_ops,
            root: options.root.clone(),
            verify_every: options.verify_attached,
            refresh_every: options.refresh_period,
            reports,
        });
        node.add_recovered(recovery);
        node.begin(first_plugins, first_manifests);
        let search = Arc::new(Notify::new());
        reload.push(search.clone());
        let inputs = Inputs {
            requests: request_inputs,
            manifests: manifest_inputs,
            plugins: plugin_inputs,
            drivers: driver_inputs,
            workers,
            reload: search,
        };
        let handle = EngineHandle::new(requests, changes).with_exposition(exposition);
        let engine = tokio::spawn(event_loop::run(node, inputs, stop.clone(), STOP_GRACE));
        Ok(Self { handle, reload, stop, engine, kernel: options.kernel, root: options.root, inside, _lock: lock })
    }

    /// How to talk to it.
    pub fn handle(&self) -> EngineHandle {
        self.handle.clone()
    }

    /// Reads the grants, the plugin folder and the manifest folder again, and looks for what gone pods have left.
    pub fn reload(&self) {
        for reload in &self.reload {
            reload.notify_one();
        }
    }

    /// Ends the node. Running operations are let end, for a while; mounts stay. After a drain that left nothing, the
    /// root folder's own mounts go too.
    pub async fn stop(self) {
        self.stop.cancel();
        let drained = match self.engine.await {
            Ok(drained) => drained,
            Err(error) => {
                error!(%error, "the engine ended early");
                false
            }
        };
        if !drained {
            return;
        }
        let (kernel, root, inside) = (self.kernel, self.root, self.inside);
        let released = tokio::task::spawn_blocking(move || {
            // Lazily: a thread that has just ended may still have a folder of it open. Nothing in it is needed.
            kernel.detach(&inside, OsStr::new(layout::STATE), Detach::Lazy)?;
            drop(inside);
            kernel.release_root(&root)
        });
        match released.await {
            Ok(Ok(())) => info!("nothing is mounted any more; the root folder is a plain folder again"),
            Ok(Err(error)) => warn!(%error, "the root folder's own mounts stay"),
            Err(error) => warn!(%error, "the root folder's own mounts stay"),
        }
    }
}

struct Begun {
    lock: RootLock,
    inside: Directory,
    volume_ops: Arc<VolumeOps>,
    registry: Arc<PluginRegistry>,
    recovery: volhost_volume_ops::recovery::Recovery,
    memory: u64,
    disk: u64,
    /// The SELinux label of containers' files, if the node has SELinux.
    label: Option<String>,
    flex: Option<Arc<FlexDrivers>>,
    servers: FuseServerProcesses,
}

/// All that blocks, up to the recovery.
fn begin(
    options: &NodeOptions,
    (objects, drivers): (Arc<SharedObjects>, Arc<CsiDrivers>),
    ended: mpsc::UnboundedSender<WorkerReport>,
) -> Result<Begun, StartError> {
    let kernel = &options.kernel;
    let root_error = |source| StartError::Root { root: options.root.clone(), source };
    std::fs::read_dir(&options.plugins)
        .map_err(|source| StartError::Plugins { folder: options.plugins.clone(), source })?;
    let label = kernel.container_file_label().unwrap_or_else(|error| {
        warn!(%error, "what SELinux labels containers have is not known; volumes are mounted without labels");
        None
    });
    let memory = kernel.total_memory().map_err(StartError::Memory)?;
    check_place(options)?;
    let (lock, root) = lock_and_prepare(options)?;
    let state = state_folder(kernel.as_ref(), &root)
        .map_err(|source| StartError::State { path: options.root.join(layout::STATE), source })?;
    layout_version::check(kernel.as_ref(), &state, &options.root.join(layout::STATE))?;
    let runtime = Runtime::new(
        RuntimeConfig {
            cache_dir: options.cache.clone(),
            limits: volhost_runtime::Limits::default(),
            compiler: options.compiler.clone(),
            grants: options.grants.clone(),
        },
        kernel.clone(),
    )?
    .trusting(options.signatures.clone());
    let approvals = Arc::new(Approvals::open(kernel.clone(), &root));
    let mut environment = Environment::default().with_objects(objects).with_drivers(drivers);
    let flex =
        options.flex_driver_dir.clone().map(|folder| Arc::new(FlexDrivers::new(folder, options.flex_drivers.clone())));
    if let Some(flex) = flex.clone() {
        environment = environment.with_driver_programs(flex);
    }
    let registry = PluginRegistry::new(runtime, approvals).limiting(options.attach_limits.clone());
    let registry = Arc::new(registry.with_environment(environment));
    let inside = kernel.try_clone(&root).map_err(root_error)?;
    let records = Path::new(layout::STATE).join(layout::FUSE_SERVERS);
    let records = kernel.make_dirs(&root, &records, layout::FOLDER_MODE).map_err(StartError::FuseServers)?;
    let servers = FuseServerProcesses::new(kernel.clone(), options.launcher.clone(), Some(records));
    let parts = NodeParts {
        kernel: kernel.clone(),
        root,
        state,
        plugins: registry.clone(),
        fuse_servers: servers.clone(),
        nodes_out_of_service: options.nodes_out_of_service.clone(),
    };
    let volume_ops = Arc::new(VolumeOps::new(parts).map_err(root_error)?);
    // Before recovery: a dead mount is no volume.
    fuse_servers::unmount_when_ended(&servers, kernel.clone(), Arc::clone(volume_ops.root()), ended);
    servers.adopt();
    let recovery =
        volume_ops.recover().map_err(|source| StartError::Recovery { root: options.root.clone(), source })?;
    let disk = kernel.usage(&inside, OsStr::new(layout::LOCK)).map(|usage| usage.capacity).unwrap_or_default();
    Ok(Begun { lock, inside, volume_ops, registry, recovery, memory, disk, label, flex, servers })
}

/// Passes events on to the loop.
fn event_sink(reports: mpsc::UnboundedSender<WorkerReport>) -> EventSink {
    EventSink::new(move |event| {
        // The loop ends only with the process.
        let _ = reports.send(WorkerReport::Event(event));
    })
}

/// The processors that this process may use, which are the node's.
fn processors() -> u64 {
    std::thread::available_parallelism().map_or(1, |count| u64::try_from(count.get()).unwrap_or(u64::MAX))
}

/// Refuses a root folder that lies among what volhost reads, or inside or around another one's.
fn check_place(options: &NodeOptions) -> Result<(), PlaceError> {
    let mut folders = vec![("plugin folder", options.plugins.as_path()), ("cache folder", options.cache.as_path())];
    folders.extend(options.manifests.as_deref().map(|folder| ("manifest folder", folder)));
    folders.extend(options.plugin_registry.as_deref().map(|folder| ("plugin registry", folder)));
    folders.extend(options.flex_driver_dir.as_deref().map(|folder| ("folder of FlexVolume drivers", folder)));
    // By the name that was given, and by the one it leads to through links.
    let resolved = std::fs::canonicalize(&options.root).ok();
    for root in std::iter::once(&options.root).chain(&resolved) {
        root_place::check_folders(root, &folders)?;
        root_place::check_others(options.kernel.as_ref(), root)?;
    }
    Ok(())
}

/// The lock first, so that a second volhost changes nothing of the first one's mounts. Only a folder that is not there yet is made before.
fn lock_and_prepare(options: &NodeOptions) -> Result<(RootLock, Directory), StartError> {
    let kernel = &options.kernel;
    let lock = |root: &Directory| {
        let locked = kernel.lock_root(root, OsStr::new(layout::LOCK));
        locked.map_err(|source| StartError::Lock { root: options.root.clone(), source })
    };
    let prepare = || {
        let root = kernel.prepare_root(&options.root, options.propagation);
        root.map_err(|source| StartError::Root { root: options.root.clone(), source })
    };
    match kernel.open_directory(&options.root) {
        Ok(existing) => Ok((lock(&existing)?, prepare()?)),
        Err(_) => {
            let root = prepare()?;
            Ok((lock(&root)?, root))
        }
    }
}

/// The folder for records: a tmpfs of the host's own, so that records are exactly as lasting as the mounts they describe.
fn state_folder(kernel: &dyn Kernel, root: &Directory) -> Result<Directory, KernelError> {
    let name = OsStr::new(layout::STATE);
    if !matches!(kernel.entry(root, name)?, Entry::Mount(_)) {
        let options = [FsOption::new("mode", "0700"), FsOption::new("size", STATE_BYTES.to_string())];
        let tmpfs = kernel.tmpfs(&options)?;
        kernel.set_options(&tmpfs, &["nosuid", "nodev", "noexec"], false)?;
        kernel.attach(tmpfs, root, name)?;
    }
    kernel.walk(root, name.as_ref())
}
