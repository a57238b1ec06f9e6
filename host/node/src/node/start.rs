//! The start of a node: its tasks, its sources, and its event loop.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, broadcast, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::error;
use volhost_core::{AttachPolicy, Config, Core};
use volhost_csi::CsiDrivers;
use volhost_driver_table::DriverTable;
use volhost_fc::HostAdapters;
use volhost_images::{ImageStore, ImageStoreOptions};
use volhost_iscsi::{OpenIscsi, Places};
use volhost_kernel::Directory;
use volhost_manifests::ManifestFolder;
use volhost_metrics::{CsiCalls, Exposition, NodeDisks};
use volhost_model::clock::Clock;
use volhost_objects::payload::{SharedObjects, renewals};
use volhost_plugin_folder::{GrantFile, PluginFolders};
use volhost_runtime::{Environment, NodeFacts};
use volhost_volume_ops::events::EventSink;
use volhost_volume_ops::stats::VolumeMeter;
use volhost_volume_ops::{layout, sizes};

use super::begin::{BegunNode, EarlierRun, begin, recover};
use super::{Node, NodeOptions, StartError};
use crate::event_loop::executor::Executor;
use crate::event_loop::node_state::{FirstManifests, NodeState, StateParts};
use crate::event_loop::object_files::ObjectFiles;
use crate::event_loop::provisioning::Provisioning;
use crate::event_loop::reports::WorkerReport;
use crate::event_loop::run::{Inputs, run};
use crate::event_loop::sources::Sources;
use crate::event_loop::world::World;
use crate::event_loop::{NodeHandle, vanished};
use crate::provision::{ProvisionRecordError, ProvisionRecords, Runner};

/// Requests that may wait for the event loop; more callers wait before they have asked.
const REQUEST_QUEUE: usize = 1024;
/// Changes that a watcher may lag behind before it must list again.
const CHANGE_QUEUE: usize = 256;

/// How long a start waits for the first reading of the manifest folder before it serves without:
/// far longer than a local disk takes.
const MANIFESTS_TIME: Duration = Duration::from_secs(5);

/// How long running operations may take to end when the node stops: under the 90 s that systemd
/// gives a service.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// When more than this of the disk of images is taken, those that nothing uses are removed, in
/// percent: the kubelet's default.
const IMAGES_HIGH: u8 = 85;
/// Until no more than this is taken, in percent.
const IMAGES_LOW: u8 = 80;

/// Starts a node.
///
/// # Errors
/// [`StartError`]; then nothing runs, and what was mounted before is as it was.
pub(super) async fn start(mut options: NodeOptions) -> Result<Node, StartError> {
    let tokens = options.tokens.take();
    // `begin` blocks on the disk, the kernel and the compiler child.
    let (renewal, due) = mpsc::unbounded_channel();
    let objects = Arc::new(SharedObjects::new(tokens, renewal));
    let clock = Clock::start();
    let (changes, _) = broadcast::channel(CHANGE_QUEUE);
    let table = Arc::new(DriverTable::new(changes.clone(), clock));
    let (registered, mut ready) = mpsc::unbounded_channel();
    let drivers = CsiDrivers::new(options.plugin_registry.clone(), table.clone(), objects.clone(), registered);
    let calls = Arc::new(CsiCalls::default());
    let drivers = drivers.with_labels(options.identity.labels.clone()).with_observer(calls.clone());
    let drivers = Arc::new(drivers);
    let known = (objects.clone(), drivers.clone());
    let (ended, mut endings) = mpsc::unbounded_channel();
    let (begun, mut options) = tokio::task::spawn_blocking(move || (begin(&options, known, ended), options))
        .await
        .map_err(|_| StartError::Ended)?;
    let BegunNode { lock, inside, volume_ops, registry, cluster, memory, disk, label, flex, servers } = begun?;
    options.identity = options.identity.with_selinux(label);

    let stop = CancellationToken::new();
    let (reports, workers) = mpsc::unbounded_channel();
    let (plugin_changes, mut plugin_inputs) = mpsc::channel(16);
    let (manifest_changes, mut manifest_inputs) = mpsc::channel(16);
    let (requests, request_inputs) = mpsc::channel(REQUEST_QUEUE);

    let mut reload = vec![Arc::new(Notify::new())];
    let plugins = Arc::clone(&registry);
    registry.set_starting(true);
    tokio::spawn(volhost_plugin_folder::watch(
        PluginFolders { operator: options.plugins.clone(), cluster: cluster.clone() },
        registry.clone(),
        (options.grant_file.is_some() || cluster.is_some()).then(|| {
            GrantFile::new(options.grant_file.clone(), options.grants.shipped().clone()).with_cluster(cluster.clone())
        }),
        plugin_changes,
        reload.first().cloned().unwrap_or_default(),
        stop.clone(),
    ));
    // Meanwhile, for neither needs the other.
    let files = ObjectFiles::new(&volume_ops, options.provision);
    let recovering = {
        let (volume_ops, files, root) = (volume_ops.clone(), files.clone(), options.root.clone());
        tokio::task::spawn_blocking(move || recover(&volume_ops, &files, &root))
    };
    // Plugins whose code is cached. Others are compiled while the node serves.
    let first_plugins = plugin_inputs.recv().await;
    let first_manifests = match &options.manifests {
        None => Some(FirstManifests::NoFolder),
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
                Ok(changes) => changes.map(FirstManifests::Read),
                Err(_) => Some(FirstManifests::Unread(options.manifests.clone().unwrap_or_default())),
            }
        }
    };
    // Before anything is returned: what runs uses the root folder.
    let earlier = recovering.await.map_err(|_| StartError::Ended).and_then(|recovered| recovered);
    let begun = earlier.and_then(|earlier| {
        first_plugins
            .zip(first_manifests)
            .map(|(plugins, manifests)| (earlier, plugins, manifests))
            .ok_or(StartError::Ended)
    });
    let (EarlierRun { recovery, stored }, first_plugins, first_manifests) = begun.inspect_err(|_| stop.cancel())?;

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
    let images = image_store(&options, &inside);
    let mut environment = Environment::default()
        .with_node(Arc::new(facts))
        .with_objects(objects.clone())
        .with_drivers(drivers.clone())
        .with_fuse_servers(Arc::new(servers.clone()))
        .with_iscsi(Arc::new(OpenIscsi::new(Places::default())))
        .with_fc(Arc::new(HostAdapters::new(volhost_fc::Places::default())))
        .with_images(images.clone());
    if let Some(flex) = flex.clone() {
        environment = environment.with_driver_programs(flex);
    }
    let token_clients = objects.token_clients();
    let executor =
        Executor::new(volume_ops.clone(), registry.clone(), environment, clock, options.bounds, reports.clone());
    let attaching =
        AttachPolicy::all_by_host(!options.controller_attaches).except(options.controller_attaches_for.clone());
    let provisioning = match options.provision {
        false => None,
        true => {
            let (volume_ops, plugins) = (volume_ops.clone(), registry.clone());
            let (reports, time) = (provisioned, options.bounds.plugin_time);
            let grace = options.reclaim_grace;
            let restoring = move || -> Result<_, ProvisionRecordError> {
                let records = ProvisionRecords::open(volume_ops.kernel().clone(), volume_ops.root())?;
                Provisioning::restore(Runner::new(records, plugins, volume_ops, time), grace, reports)
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
        .with_csi(drivers, calls)
        .with_disks(NodeDisks::new(&volume_ops))
        .with_fuse_servers(servers)
        .with_images(images);
    vanished::start(&volume_ops, reports.clone());
    let mut node = NodeState::new(StateParts {
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
    node.begin(first_plugins, stored, first_manifests);
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
    let handle = NodeHandle::new(requests, changes).with_exposition(exposition).with_token_clients(token_clients);
    let event_loop = tokio::spawn(run(node, inputs, options.watchdog, stop.clone(), STOP_GRACE));
    let cluster = cluster.map(|_| plugins);
    Ok(Node {
        handle,
        reload,
        cluster,
        stop,
        event_loop,
        kernel: options.kernel,
        root: options.root,
        inside,
        _lock: lock,
    })
}

/// The store of OCI images, in the root folder. What an earlier run has left is removed in the
/// background; a pull waits for that.
fn image_store(options: &NodeOptions, inside: &Directory) -> Arc<ImageStore> {
    let folder = options.root.join(layout::IMAGES);
    let bounds = ImageStoreOptions { folder, high: IMAGES_HIGH, low: IMAGES_LOW };
    let store = ImageStore::new(options.kernel.clone(), inside.clone(), options.image_client.clone(), bounds);
    let store = Arc::new(store);
    let cleaned = store.clone();
    tokio::task::spawn_blocking(move || cleaned.clean());
    store
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
