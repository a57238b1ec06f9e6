//! The cluster with its two nodes: the stock kubelet's, and volhost's own.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use volhost_tests::cluster::{Api, Cluster, NODE};
use volhost_tests::csi_serve::CsiServe;
use volhost_tests::wait::eventually;
use volhost_tests::{Node, artifacts};

use crate::pods::CreatedPod;
use crate::side::Side;

/// The driver that `csi-serve` serves.
pub(crate) const CSI_DRIVER: &str = "folders.bench.test";
/// The ConfigMap that pods show.
pub(crate) const CONFIG_MAP: &str = "bench";
/// The RuntimeClass that no container runtime serves.
pub(crate) const NO_RUNTIME: &str = "none";
/// The node of volhost's own.
const OWN_NODE: &str = "volhost-node";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// The cluster, its nodes and the driver. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct World {
    agent: Option<Child>,
    own: Node,
    _served: CsiServe,
    api: Api,
    cluster: Cluster,
}

impl World {
    /// Starts all of it.
    pub(crate) fn start() -> Self {
        let cluster = Cluster::start_stock();
        let registry = cluster.registry().display().to_string();
        let arguments = ["--driver-name", CSI_DRIVER, "--registration-dir", &registry, "--log-level", "warn"];
        let served = CsiServe::start_in(cluster.node(), "bench", &artifacts::plugin("host-path"), &arguments);
        cluster.apply(&format!(
            "apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {{ name: {CSI_DRIVER} }}
spec: {{ attachRequired: false, podInfoOnMount: true, volumeLifecycleModes: [Ephemeral] }}
---
{{ apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {{ name: {NO_RUNTIME} }}, handler: {NO_RUNTIME} }}
---
{{ apiVersion: v1, kind: ConfigMap, metadata: {{ name: {CONFIG_MAP} }}, data: {{ text: some }} }}
---
{{ apiVersion: v1, kind: Node, metadata: {{ name: {OWN_NODE} }} }}
"
        ));
        let registered = || cluster.kubectl(&["get", "csinodes", "-o", "jsonpath={.items[*].spec.drivers[*].name}"]);
        assert!(eventually(|| registered().contains(CSI_DRIVER)), "{}", served.log());
        let own = Node::builder()
            .name(OWN_NODE)
            .plugin(artifacts::plugin("config-map"))
            .config("[grants.\"kubernetes.io/host-path\"]\nhost-paths = [\"$NODE/disk\"]\n")
            .arguments(&["--controller-attaches", "--log-level", "warn"])
            .start();
        let api = cluster.api();
        let mut world = Self { agent: None, own, _served: served, api, cluster };
        world.start_agent();
        world
    }

    fn start_agent(&mut self) {
        let log = fs::File::options().create(true).append(true).open(self.agent_log()).expect("a log");
        let agent = Command::new(artifacts::volhost())
            .args(["node-agent", "--node-name", OWN_NODE, "--log-level", "warn", "--kubeconfig"])
            .arg(self.cluster.kubeconfig())
            .arg("--socket")
            .arg(self.own.socket())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a handle"))
            .stderr(log)
            .spawn();
        self.agent = Some(agent.expect("volhost runs"));
    }

    fn agent_log(&self) -> PathBuf {
        self.own.folder().join("node-agent.log")
    }

    /// The node whose name a pod of this side names.
    pub(crate) fn node_name(side: Side) -> &'static str {
        if side == Side::Volhost { OWN_NODE } else { NODE }
    }

    /// A folder of the node, for hostPath volumes.
    pub(crate) fn disk(&self, side: Side) -> PathBuf {
        let node = if side == Side::Volhost { &self.own } else { self.cluster.node() };
        node.folder().join("disk")
    }

    /// Creates a pod.
    pub(crate) fn create(&self, pod: &Value, side: Side, name: &str) -> CreatedPod {
        let root = match side {
            Side::Volhost => self.own.path(&self.own.root()),
            Side::Kubelet | Side::CsiServe => self.cluster.node().path(&self.cluster.kubelet()),
        };
        CreatedPod::new(&root, side, name, &self.api.create(PODS, pod))
    }

    /// Deletes a pod.
    pub(crate) fn delete(&self, pod: &CreatedPod) {
        self.api.delete(&format!("{PODS}/{}", pod.name));
    }

    /// Waits until the containers of the pods whose names begin so run.
    pub(crate) fn wait_running(&self, begin: &str) {
        let waiting = || {
            let pods: Value =
                serde_json::from_str(&self.cluster.kubectl(&["get", "pods", "-o", "json"])).expect("JSON");
            let of_name = |pod: &&Value| pod["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(begin));
            let pods = pods["items"].as_array().cloned().unwrap_or_default();
            pods.iter().filter(of_name).filter(|pod| pod["status"]["phase"] != "Running").count()
        };
        assert!(eventually(|| waiting() == 0), "{} do not run\n{}", waiting(), self.known());
    }

    /// The processes of a node's program.
    pub(crate) fn processes(&self, side: Side) -> Vec<u32> {
        match side {
            Side::Volhost => vec![self.own.pid(), self.agent.as_ref().expect("the agent runs").id()],
            Side::Kubelet | Side::CsiServe => vec![self.cluster.component_pid("kubelet")],
        }
    }

    /// Kills a node's program between two instructions. Its volumes stay mounted.
    pub(crate) fn kill(&mut self, side: Side) {
        if side == Side::Volhost {
            self.end_agent();
            self.own.kill();
        } else {
            self.cluster.kill_component("kubelet");
        }
    }

    /// Starts a node's program, and waits until it serves.
    pub(crate) fn start_again(&mut self, side: Side) {
        if side == Side::Volhost {
            assert!(self.own.start_at_once().is_ready(), "{}", self.own.log());
            self.start_agent();
        } else {
            self.cluster.start_component("kubelet");
        }
    }

    fn end_agent(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }

    /// What a measurement shows that has failed.
    pub(crate) fn known(&self) -> String {
        let agent = fs::read_to_string(self.agent_log()).unwrap_or_default();
        let events = self.cluster.try_kubectl(&["get", "events", "--sort-by=.lastTimestamp"]);
        format!(
            "{}\n{agent}\n{}\n{}",
            events.unwrap_or_else(|error| error),
            self.own.log(),
            self.cluster.log_end("kubelet")
        )
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.end_agent();
    }
}
