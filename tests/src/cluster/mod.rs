//! A real Kubernetes for the tests: one node and its control plane, in a mount namespace of their
//! own.
//!
//! ```text
//!  etcd <-- kube-apiserver <-- controller manager, scheduler
//!                 ^
//!                 '-- kubelet --> containerd --> runc --> containers (busybox)
//!                        '--> plugins_registry/ <-- volhost csi-serve --registration-dir
//! ```
//!
//! `tests/kubernetes/build.sh` builds the programs once. A cluster takes some 5 s to start; tests of
//! one program that run at the same time [share](Cluster::shared) it, each with its own driver.
//! Everything listens on 127.0.0.1, on ports that were free. Pods have the host's network, or none.

mod api;
mod components;
mod configuration;
mod deployment;
mod kubectl;
mod leftovers;
mod tally;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::Node;
use crate::artifacts::workspace;
pub use api::Api;
pub use configuration::Attaching;
use configuration::{Intervals, Ports};
use leftovers::Sysctls;
pub use tally::{Measure, Tally};

/// The node's name, which is its address: all traffic stays on the loopback interface.
pub const NODE: &str = "127.0.0.1";
/// The one image that its containers have: busybox.
pub const IMAGE: &str = "localhost/busybox:1";

/// The cluster that tests share now.
static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());

/// A running cluster. Dropping it ends its processes and containers, and discards its mounts.
#[derive(Debug)]
pub struct Cluster {
    node: Node,
    built: PathBuf,
    ports: Ports,
    intervals: Intervals,
    attaching: Attaching,
    /// Of a cluster with a node: the kubelet changes them.
    sysctls: Option<Sysctls>,
    running: Mutex<Vec<(&'static str, Child)>>,
}

impl Cluster {
    /// The cluster that other tests of this program use now, or a new one. The last test that drops
    /// it ends it.
    ///
    /// # Panics
    /// As [`Cluster::start`].
    pub fn shared() -> Arc<Self> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let cluster = Arc::new(Self::start());
            *shared = Arc::downgrade(&cluster);
            cluster
        })
    }

    fn is_shared(&self) -> bool {
        std::ptr::eq(SHARED.lock().unwrap_or_else(PoisonError::into_inner).as_ptr(), self)
    }

    /// Starts a cluster and waits until its node is ready.
    ///
    /// # Panics
    /// When its programs are not built (`deploy/setup.sh --tests`), or one of them does not start;
    /// the end of its log is in the message.
    pub fn start() -> Self {
        Self::start_with_node(Intervals::Short, Attaching::ByKubernetes)
    }

    /// The same with a kubelet that has Kubernetes' own intervals: for measurements.
    ///
    /// # Panics
    /// As [`Cluster::start`].
    pub fn start_stock() -> Self {
        Self::start_with_node(Intervals::Stock, Attaching::ByKubernetes)
    }

    /// The same with short intervals and without Kubernetes' attach/detach controller.
    ///
    /// # Panics
    /// As [`Cluster::start`].
    pub fn start_without_attach_detach() -> Self {
        Self::start_with_node(Intervals::Short, Attaching::ByAnother)
    }

    fn start_with_node(intervals: Intervals, attaching: Attaching) -> Self {
        let cluster = Self::start_components(Some(Sysctls::read()), intervals, attaching, &components::ALL);
        cluster.wait(&["node", NODE], "condition=Ready");
        // Pods need both, which the controller manager makes.
        cluster.wait(&["serviceaccount", "default"], "create");
        cluster.wait(&["configmap", "kube-root-ca.crt"], "create");
        cluster
    }

    /// Starts a cluster without a node, beside any other one: for tests that change what all share.
    ///
    /// # Panics
    /// As [`Cluster::start`].
    pub fn start_control_plane() -> Self {
        Self::start_control_plane_with(Attaching::ByKubernetes)
    }

    /// The same, with or without Kubernetes' attach/detach controller.
    ///
    /// # Panics
    /// As [`Cluster::start`].
    pub fn start_control_plane_with(attaching: Attaching) -> Self {
        Self::start_components(None, Intervals::Short, attaching, &components::CONTROL_PLANE)
    }

    fn start_components(
        sysctls: Option<Sysctls>,
        intervals: Intervals,
        attaching: Attaching,
        components: &[&'static str],
    ) -> Self {
        let node = Node::builder().prepare(configuration::PREPARE).build();
        let (built, ports, running) = (built(), Ports::free(), Mutex::new(Vec::new()));
        let cluster = Self { node, built, ports, intervals, attaching, sysctls, running };
        configuration::write(&cluster);
        for component in components {
            cluster.start_component(component);
        }
        cluster
    }

    /// The folders and the mount namespace. `csi-serve` starts in it.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The kubelet's root folder.
    pub fn kubelet(&self) -> PathBuf {
        self.node.folder().join("kubelet")
    }

    /// The folder where drivers register with the kubelet.
    pub fn registry(&self) -> PathBuf {
        self.kubelet().join("plugins_registry")
    }

    /// Manifests of Kubernetes' own: `crds`, the custom resources of snapshots; `rbac`, the
    /// permissions of upstream's sidecars.
    pub fn manifests(&self) -> PathBuf {
        self.built.join("manifests")
    }

    /// The folder of the cluster's programs, `kubectl` among them.
    pub fn programs(&self) -> PathBuf {
        self.built.join("bin")
    }

    /// The configuration of kubectl for an administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder().join("admin.kubeconfig")
    }

    /// A program of the cluster's, to run in the node's mount namespace.
    fn program(&self, name: &str) -> Command {
        let mut command = self.node.inside(self.programs().join(name));
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.programs().display()));
        command
    }

    fn folder(&self) -> &Path {
        self.node.folder()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.end_containers();
        self.end_components();
        self.node.end_processes();
        if let Some(sysctls) = &self.sysctls {
            sysctls.restore();
            leftovers::remove_cgroups();
        }
    }
}

/// Where `build.sh` has put the programs.
fn built() -> PathBuf {
    let script = workspace().join("tests/kubernetes/build.sh");
    let output = Command::new(script).arg("--where").output().expect("tests/kubernetes/build.sh runs");
    let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    assert!(
        folder.join("complete").exists(),
        "Kubernetes is not built in {}; run `deploy/setup.sh --tests`",
        folder.display()
    );
    folder
}

/// How many ports after those of the last cluster of this process the next one begins to look.
const PORTS_APART: u16 = 50;

/// Ports that were free a moment ago, below those that the kernel gives to clients.
fn free_ports<const COUNT: usize>() -> [u16; COUNT] {
    static CLUSTERS: AtomicU16 = AtomicU16::new(0);
    // Each program that runs now begins somewhere else, and so does each cluster of one.
    let begin = u16::try_from(std::process::id() % 10_000).expect("it fits");
    let begin = (begin + CLUSTERS.fetch_add(1, Ordering::Relaxed) % 100 * PORTS_APART) % 10_000;
    let mut candidates = (0..10_000).map(|next| 20_000 + (begin + next) % 10_000);
    // Listened at until all are found, so that none is found twice.
    let listeners = [(); COUNT]
        .map(|()| candidates.find_map(|port| TcpListener::bind(("127.0.0.1", port)).ok()).expect("a port is free"));
    listeners.map(|listener| listener.local_addr().expect("it has an address").port())
}
