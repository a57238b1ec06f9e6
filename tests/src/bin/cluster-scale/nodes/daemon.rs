//! A node's daemon: all of it but its process, over a kernel in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use volhost_api_server::ApiServeError;
use volhost_images::RegistryProgram;
use volhost_kernel::Propagation;
use volhost_node::event_loop::{Bounds, NodeHandle};
use volhost_node::node::{Node, NodeOptions};
use volhost_objects::populate::NodeIdentity;
use volhost_process::Launcher;
use volhost_runtime::{Compiler, Signatures};
use volhost_testing_kernel::InMemoryKernel;
use volhost_tests::artifacts;

/// The options that daemons have when none is given, on a machine with two processors.
const OPERATION_DEADLINE: Duration = Duration::from_secs(120);
const PLUGIN_CPU_TIME: Duration = Duration::from_secs(5);
const MAX_OPERATIONS: usize = 16;
const MINUTE: Duration = Duration::from_secs(60);

/// Where a daemon has what is not in its kernel.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// The plugins, the same of all nodes.
    pub(crate) plugins: PathBuf,
    /// The compiled plugins, the same of all nodes.
    pub(crate) cache: PathBuf,
    /// The node's own folder, for sockets. Below it, in memory alone, lies the root folder.
    pub(crate) own: PathBuf,
}

impl Places {
    /// The daemon's socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.own.join("volhost.sock")
    }

    /// The folder of drivers' sockets.
    pub(crate) fn registry(&self) -> PathBuf {
        self.own.join("registry")
    }

    /// The root folder.
    pub(crate) fn root(&self) -> PathBuf {
        self.own.join("root")
    }
}

/// A running daemon.
pub(crate) struct Daemon {
    node: Node,
    serving: JoinHandle<Result<(), ApiServeError>>,
    stop: CancellationToken,
}

impl Daemon {
    /// Starts the daemon of this node, on what an earlier one has left in the kernel. Needs a tokio
    /// runtime.
    pub(crate) async fn start(name: String, kernel: InMemoryKernel, places: Places) -> Self {
        let listener = volhost_api_server::bind(&places.socket()).expect("a socket");
        let node = Node::start(options(&name, kernel, &places)).await;
        let node = node.unwrap_or_else(|error| panic!("the daemon of {name} does not start: {error}"));
        let stop = CancellationToken::new();
        let serving = tokio::spawn(volhost_api_server::serve(listener, node.handle(), None, stop.clone()));
        Self { node, serving, stop }
    }

    pub(crate) fn handle(&self) -> NodeHandle {
        self.node.handle()
    }

    /// Ends it. Its mounts stay.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.node.stop().await;
        let served = self.serving.await.expect("the API has served");
        served.expect("the API has served");
    }
}

fn options(name: &str, kernel: InMemoryKernel, places: &Places) -> NodeOptions {
    let hostname = BTreeMap::from([("kubernetes.io/hostname".to_owned(), name.to_owned())]);
    NodeOptions {
        root: places.root(),
        plugins: places.plugins.clone(),
        manifests: None,
        plugin_registry: Some(places.registry()),
        manifest_grace: Duration::ZERO,
        identity: NodeIdentity::new(name, hostname),
        grants: artifacts::builtin_grants(),
        grant_file: None,
        cluster_plugins: None,
        signatures: Signatures::default(),
        controller_attaches: true,
        controller_attaches_for: BTreeSet::new(),
        verify_attached: MINUTE,
        refresh_period: MINUTE,
        flex_driver_dir: None,
        flex_drivers: Default::default(),
        nodes_out_of_service: BTreeSet::new(),
        attach_limits: BTreeMap::new(),
        cache: places.cache.clone(),
        compiler: Compiler { program: artifacts::volhostd(), args: vec!["internal".into(), "compile-plugin".into()] },
        launcher: Launcher::volhost(artifacts::volhostd()),
        image_client: RegistryProgram::new(artifacts::volhost(), Vec::new()),
        propagation: Propagation::Shared,
        bounds: Bounds { overdue_after: OPERATION_DEADLINE, plugin_time: PLUGIN_CPU_TIME, max_workers: MAX_OPERATIONS },
        tokens: None,
        provision: false,
        reclaim_grace: MINUTE,
        watchdog: None,
        kernel: Arc::new(kernel),
    }
}

/// What is left of pods' volumes in a kernel: folders of pods, and mounts.
pub(crate) fn leftovers(kernel: &InMemoryKernel, root: &Path) -> Vec<String> {
    let pods = kernel.list(root.join("pods")).unwrap_or_default();
    let mut left: Vec<String> = pods.iter().map(|pod| format!("pods/{}", pod.display())).collect();
    let root = root.strip_prefix("/").unwrap_or(root);
    let below = ["pods", "plugins"].map(|folder| root.join(folder));
    let mounts = kernel.mounts();
    let of_volumes = mounts.iter().filter(|mount| below.iter().any(|folder| mount.point.starts_with(folder)));
    left.extend(of_volumes.map(|mount| format!("a mount at /{}", mount.point.display())));
    left
}
