//! The nodes: a daemon over a kernel in memory each, all in this process, and an agent each, which
//! is a process of its own.

mod agent;
mod daemon;
mod inotify;
mod placement;
mod storage;

use std::fs;
use std::path::{Path, PathBuf};

use tokio::runtime::Runtime;
use volhost_model::view::{PodPhase, PodView};
use volhost_node::event_loop::requests::PodSelector;
use volhost_testing_kernel::InMemoryKernel;
use volhost_tests::artifacts;
use volhost_tests::cluster::Cluster;
use volhost_tests::wait::TIMEOUT;

use crate::driver::ScaleDriver;
use crate::interruption::{self, eventually};
use crate::objects::node_name;
use crate::process::Memory;
use agent::Agent;
use daemon::{Daemon, Places, leftovers};
use inotify::InotifyInstances;
pub(crate) use placement::Placement;
use storage::NodeStorage;

/// The plugins that pods' volumes need.
const PLUGINS: [&str; 3] = ["config-map", "csi", "projected"];
/// How many daemons are started or stopped at once.
const TOGETHER: usize = 8;
/// How many pods that are not mounted a message names.
const NAMED: usize = 3;

/// One node.
struct SimulatedNode {
    name: String,
    kernel: InMemoryKernel,
    places: Places,
    daemon: Option<Daemon>,
    agent: Option<Agent>,
}

/// All nodes.
pub(crate) struct Nodes {
    threads: Runtime,
    nodes: Vec<SimulatedNode>,
    kubeconfig: PathBuf,
    _inotify: InotifyInstances,
}

impl Nodes {
    /// Starts the daemons, the driver on each node, and the agents.
    pub(crate) fn start(cluster: &Cluster, driver: &ScaleDriver, count: usize) -> Self {
        let folder = cluster.node().folder().join("nodes");
        let (plugins, cache) = (folder.join("plugins"), folder.join("cache"));
        fs::create_dir_all(&plugins).expect("a folder");
        for plugin in PLUGINS.map(artifacts::plugin) {
            fs::copy(&plugin, plugins.join(plugin.file_name().expect("a file"))).expect("the plugin is copied");
        }
        let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let threads = threads.expect("a runtime");
        let node = |node| {
            let own = folder.join(node_name(node));
            let places = Places { plugins: plugins.clone(), cache: cache.clone(), own };
            fs::create_dir_all(places.registry()).expect("a folder");
            let kernel = InMemoryKernel::new();
            let storage = NodeStorage::new(&node_name(node), &kernel, driver);
            threads.block_on(async { storage.serve(&places.registry().join("scale.sock")) });
            SimulatedNode { name: node_name(node), kernel, places, daemon: None, agent: None }
        };
        let nodes = (0..count).map(node).collect();
        let inotify = InotifyInstances::enough_for(count);
        let kubeconfig = agent::deploy(cluster);
        let mut started = Self { threads, nodes, kubeconfig, _inotify: inotify };
        // The first one compiles the plugins for all.
        started.start_daemons(&[0]);
        started.wait_plugins();
        started.start_daemons(&(1..count).collect::<Vec<_>>());
        started.start_agents();
        started
    }

    fn wait_plugins(&self) {
        let ready = || {
            let handle = self.nodes.first().and_then(|node| node.daemon.as_ref()).expect("it runs").handle();
            let plugins = self.threads.block_on(handle.plugins()).expect("it answers");
            plugins.iter().filter(|plugin| plugin.state == "Ready").count() == PLUGINS.len()
        };
        assert!(eventually(ready), "plugins are not loaded");
    }

    fn start_daemons(&mut self, which: &[usize]) {
        for some in which.chunks(TOGETHER) {
            interruption::check();
            let starting = some.iter().map(|node| {
                let SimulatedNode { name, kernel, places, .. } = &self.nodes[*node];
                Daemon::start(name.clone(), kernel.clone(), places.clone())
            });
            let daemons = self.all(starting);
            for (node, daemon) in some.iter().zip(daemons) {
                self.nodes[*node].daemon = Some(daemon);
            }
        }
    }

    fn start_agents(&mut self) {
        for node in &mut self.nodes {
            let log = node.places.own.join("agent.log");
            node.agent = Some(Agent::start(&node.name, &self.kubeconfig, &node.places.socket(), &log));
        }
    }

    /// Kills every agent, and starts others.
    pub(crate) fn kill_agents(&mut self) {
        for node in &mut self.nodes {
            node.agent = None;
        }
        self.start_agents();
    }

    /// Ends every second daemon, and starts another on what the first has left.
    pub(crate) fn restart_daemons(&mut self) {
        let which: Vec<usize> = (0..self.nodes.len()).step_by(2).collect();
        for some in which.chunks(TOGETHER) {
            let stopping: Vec<_> = some.iter().filter_map(|node| self.nodes[*node].daemon.take()).collect();
            self.all(stopping.into_iter().map(Daemon::stop));
            self.start_daemons(some);
        }
    }

    /// Waits until the daemon of this node has mounted all volumes of a pod.
    pub(crate) fn wait_mounted(&self, node: usize, pod: &str) {
        let handle = self.nodes[node].daemon.as_ref().expect("it runs").handle();
        let selected = PodSelector::Name { namespace: "default".to_owned(), name: pod.to_owned() };
        let mounted = self.threads.block_on(handle.wait_mounted(selected, TIMEOUT));
        mounted.expect("it answers").unwrap_or_else(|error| panic!("{pod} is not mounted: {error:?}"));
    }

    /// The pods that daemons have, node by node.
    fn pods(&self) -> Vec<Vec<PodView>> {
        self.pods_of(&(0..self.nodes.len()).collect::<Vec<_>>())
    }

    /// The pods that the daemons of these nodes have, in the same order.
    fn pods_of(&self, which: &[usize]) -> Vec<Vec<PodView>> {
        let daemons = which.iter().filter_map(|node| self.nodes[*node].daemon.as_ref());
        let handles: Vec<_> = daemons.map(Daemon::handle).collect();
        let asking = handles.into_iter().map(|handle| async move { handle.snapshot().await.expect("it answers").pods });
        self.all(asking)
    }

    /// Does all of it at once. Returns the results in the same order.
    fn all<T: Send + 'static>(&self, work: impl Iterator<Item = impl Future<Output = T> + Send + 'static>) -> Vec<T> {
        let begun: Vec<_> = work.map(|one| self.threads.spawn(one)).collect();
        begun.into_iter().map(|one| self.threads.block_on(one).expect("it ends well")).collect()
    }

    /// The time from a pod's arrival at its daemon until all its volumes are mounted, of every pod.
    pub(crate) fn mount_milliseconds(&self) -> Vec<u128> {
        let pods = self.pods().into_iter().flatten();
        pods.filter_map(|pod| Some(u128::from(pod.ready_at?.saturating_sub(pod.since)) / 1000)).collect()
    }

    /// Some pods that are not mounted, and why.
    pub(crate) fn unmounted(&self) -> String {
        let pods = self.pods().into_iter().flatten();
        let waiting = pods.filter(|pod| pod.phase != PodPhase::Mounted).take(NAMED);
        waiting.map(|pod| format!("{} {:?} {:#?} {:?}\n", pod.name, pod.phase, pod.volumes, pod.errors)).collect()
    }

    /// What volumes have left in the kernels.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let left = |node: &SimulatedNode| {
            let left = leftovers(&node.kernel, &node.places.root());
            left.into_iter().map(|what| format!("{}: {what}", node.name)).collect::<Vec<_>>()
        };
        self.nodes.iter().flat_map(left).collect()
    }

    /// The memory of each agent.
    pub(crate) fn memory_of_agents(&self) -> Vec<Memory> {
        self.nodes.iter().filter_map(|node| node.agent.as_ref()).map(Agent::memory).collect()
    }

    /// The processor time of all agents that run now.
    pub(crate) fn processor_seconds_of_agents(&self) -> f64 {
        self.nodes.iter().filter_map(|node| node.agent.as_ref()).map(Agent::processor_seconds).sum()
    }

    /// The last lines of an agent's log.
    pub(crate) fn log_end(&self) -> String {
        self.nodes.first().map(|node| last_lines(&node.places.own.join("agent.log"))).unwrap_or_default()
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        // Before the daemons, whose end they would report.
        for node in &mut self.nodes {
            node.agent = None;
        }
        let daemons: Vec<_> = self.nodes.iter_mut().filter_map(|node| node.daemon.take()).collect();
        for some in daemons.into_iter().map(|daemon| self.threads.spawn(daemon.stop())).collect::<Vec<_>>() {
            let _ = self.threads.block_on(some);
        }
    }
}

fn is_mounted(pod: &PodView, volumes: u32) -> bool {
    pod.phase == PodPhase::Mounted && pod.ready == volumes && pod.total == volumes
}

fn last_lines(file: &Path) -> String {
    let log = fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
