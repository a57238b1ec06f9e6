//! The blocking part of a start: the root folder, the runtime, and the recovery.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;
use tracing::warn;
use volhost_csi::CsiDrivers;
use volhost_flex_drivers::FlexDrivers;
use volhost_fuse_servers::FuseServerProcesses;
use volhost_kernel::{Directory, Entry, FsOption, Kernel, KernelError, RootLock};
use volhost_kubelet_root::claim;
use volhost_objects::payload::SharedObjects;
use volhost_plugin_folder::{Approvals, ClusterFolder, PluginRegistry};
use volhost_runtime::{Environment, Runtime, RuntimeConfig};
use volhost_volume_ops::recovery::Recovery;
use volhost_volume_ops::volume_ops::{NodeParts, VolumeOps};
use volhost_volume_ops::{layout, layout_version};

use super::{NodeOptions, StartError};
use crate::event_loop::fuse_servers;
use crate::event_loop::object_files::{ObjectFiles, StoredObjects};
use crate::event_loop::reports::WorkerReport;
use crate::root_place::{self, PlaceError};

/// The records' tmpfs: 40,000 volumes need less than half of it.
const STATE_BYTES: u64 = 512 << 20;

/// The parts of a node before the recovery.
pub(super) struct BegunNode {
    pub(super) lock: RootLock,
    pub(super) inside: Directory,
    pub(super) volume_ops: Arc<VolumeOps>,
    pub(super) registry: Arc<PluginRegistry>,
    pub(super) cluster: Option<Arc<ClusterFolder>>,
    pub(super) memory: u64,
    pub(super) disk: u64,
    /// The SELinux label of containers' files, if the node has SELinux.
    pub(super) label: Option<String>,
    pub(super) flex: Option<Arc<FlexDrivers>>,
    pub(super) servers: FuseServerProcesses,
}

/// What the node finds of an earlier run.
#[derive(Debug)]
pub(super) struct EarlierRun {
    pub(super) recovery: Recovery,
    pub(super) stored: StoredObjects,
}

/// Finds the volumes and reads the objects of an earlier run. Blocks on the disk.
pub(super) fn recover(volume_ops: &VolumeOps, files: &ObjectFiles, root: &Path) -> Result<EarlierRun, StartError> {
    let recovery = volume_ops.recover();
    let recovery = recovery.map_err(|source| StartError::Recovery { root: root.to_owned(), source })?;
    Ok(EarlierRun { recovery, stored: StoredObjects::read(files) })
}

/// All that blocks, up to the recovery.
pub(super) fn begin(
    options: &NodeOptions,
    (objects, drivers): (Arc<SharedObjects>, Arc<CsiDrivers>),
    ended: mpsc::UnboundedSender<WorkerReport>,
) -> Result<BegunNode, StartError> {
    let kernel = &options.kernel;
    std::fs::read_dir(&options.plugins)
        .map_err(|source| StartError::Plugins { folder: options.plugins.clone(), source })?;
    let label = kernel.container_file_label().unwrap_or_else(|error| {
        warn!(%error, "what SELinux labels containers have is not known; volumes are mounted without labels");
        None
    });
    let memory = kernel.total_memory().map_err(StartError::Memory)?;
    check_place(options)?;
    claim::check(kernel.as_ref(), &options.root)?;
    let (lock, root) = lock_and_prepare(options)?;
    let state = state_folder(kernel.as_ref(), &root)
        .map_err(|source| StartError::State { path: options.root.join(layout::STATE), source })?;
    layout_version::check(kernel.as_ref(), &state, &options.root.join(layout::STATE))?;
    let cluster = cluster_folder(options, &root)?;
    let grants = match &cluster {
        Some(folder) => options.grants.clone().with_cluster(folder.grants()),
        None => options.grants.clone(),
    };
    let runtime = Runtime::new(
        RuntimeConfig {
            cache_dir: options.cache.clone(),
            limits: volhost_runtime::Limits::default(),
            compiler: options.compiler.clone(),
            grants,
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
    let registry =
        PluginRegistry::new(runtime, approvals).limiting(options.attach_limits.clone()).with_cluster(cluster.clone());
    let registry = Arc::new(registry.with_environment(environment));
    let inside = root.clone();
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
    let volume_ops = Arc::new(VolumeOps::new(parts));
    // Before recovery: a dead mount is no volume.
    fuse_servers::unmount_when_ended(&servers, kernel.clone(), Arc::clone(volume_ops.root()), ended);
    servers.adopt();
    let disk = kernel.usage(&inside, OsStr::new(layout::LOCK)).map(|usage| usage.capacity).unwrap_or_default();
    Ok(BegunNode { lock, inside, volume_ops, registry, cluster, memory, disk, label, flex, servers })
}

/// The folder of plugins that the cluster installs, if it may.
fn cluster_folder(options: &NodeOptions, root: &Directory) -> Result<Option<Arc<ClusterFolder>>, StartError> {
    let Some(bound) = options.cluster_plugins.clone() else { return Ok(None) };
    let folder = ClusterFolder::open(options.kernel.clone(), root, &options.root, bound);
    folder.map(|folder| Some(Arc::new(folder))).map_err(StartError::ClusterPlugins)
}

/// Refuses a root folder that lies among what volhost reads, or inside or around another one's.
fn check_place(options: &NodeOptions) -> Result<(), PlaceError> {
    let mut folders = vec![("plugin folder", options.plugins.as_path()), ("cache folder", options.cache.as_path())];
    folders.extend(options.manifests.as_deref().map(|folder| ("manifest folder", folder)));
    folders.extend(options.plugin_registry.as_deref().map(|folder| ("plugin registry", folder)));
    folders.extend(options.flex_driver_dir.as_deref().map(|folder| ("folder of FlexVolume drivers", folder)));
    // By the name that was given, and by the one it leads to through links.
    let resolved = std::fs::canonicalize(&options.root).ok().filter(|resolved| *resolved != options.root);
    for root in std::iter::once(&options.root).chain(&resolved) {
        root_place::check_folders(root, &folders)?;
        root_place::check_others(options.kernel.as_ref(), root)?;
    }
    Ok(())
}

/// The lock first, so that a second volhost changes nothing of the first one's mounts. Only a
/// folder that is not there yet is made before.
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
        Ok(existing) => {
            let lock = lock(&existing)?;
            let root = if stays_in_place(kernel.as_ref(), &existing) { existing } else { prepare()? };
            Ok((lock, root))
        }
        Err(_) => {
            let root = prepare()?;
            Ok((lock(&root)?, root))
        }
    }
}

/// Returns whether the root folder is an adopted one with the kubelet's mounts in it. Bound on
/// itself, it would show copies of them, and the kubelet's own would stay below, hidden, when the
/// copies are unmounted.
fn stays_in_place(kernel: &dyn Kernel, root: &Directory) -> bool {
    // A table that cannot be read stops the recovery, before anything is unmounted.
    claim::is_adopted(kernel, root) && kernel.points_below(root, None).map_or(true, |points| !points.is_empty())
}

/// The folder for records: a tmpfs of the host's own, so that records are exactly as lasting as the
/// mounts they describe.
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
