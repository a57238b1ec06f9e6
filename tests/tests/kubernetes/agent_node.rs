//! A node of the shared cluster whose volumes volhost mounts, without a kubelet.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use serde_json::Value;
use volhost_tests::Node;
use volhost_tests::artifacts;
use volhost_tests::cluster::{Cluster, NODE};
use volhost_tests::wait::eventually;

use crate::controllers::{assert_permitted, deploy, kubeconfig};
use crate::faults::Faults;
use crate::proxy::Proxy;

const NAMESPACE: &str = "volhost-node";
const ACCOUNT: &str = "volhost-node-agent";

/// A node of its own in the shared cluster: a daemon and an agent.
pub(crate) struct AgentNode {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) node: Node,
    pub(crate) proxy: Proxy,
    name: &'static str,
    pub(crate) kubeconfig: PathBuf,
    agent: Option<Child>,
    /// Whether the Node object is of this test alone.
    own: bool,
}

impl AgentNode {
    pub(crate) fn start(name: &'static str) -> Self {
        let mut started = Self::prepare(name);
        started.node.add_arguments(&["--controller-attaches"]);
        started.node.start();
        started.start_agent();
        started
    }

    /// A daemon that starts its agent itself, with these options.
    pub(crate) fn start_as_one(name: &'static str, options: &[&str]) -> Self {
        let mut started = Self::prepare(name);
        let kubeconfig = started.kubeconfig.display().to_string();
        started.node.add_arguments(&["--kubernetes", "--kubeconfig", &kubeconfig]);
        started.node.add_arguments(options);
        started.node.start();
        started
    }

    /// The same as [`AgentNode::start_as_one`] beside the cluster's kubelet, on its node.
    pub(crate) fn start_beside_kubelet(options: &[&str]) -> Self {
        let mut started = Self::prepare_on(NODE, &[]);
        started.own = false;
        let kubeconfig = started.kubeconfig.display().to_string();
        started.node.add_arguments(&["--kubernetes", "--kubeconfig", &kubeconfig]);
        started.node.add_arguments(options);
        started.node.start();
        started
    }

    pub(crate) fn prepare(name: &'static str) -> Self {
        Self::prepare_with(name, &[])
    }

    /// A node of its own, not started, whose daemon has these variables in its environment.
    pub(crate) fn prepare_with(name: &'static str, variables: &[(&str, &str)]) -> Self {
        // Held until the node has it: the last one that lets go of a cluster ends it, and its Nodes.
        let cluster = Cluster::shared();
        cluster.apply(&format!(
            "{{ apiVersion: v1, kind: Node, metadata: {{ name: {name}, labels: {{ zone: of-{name} }} }} }}"
        ));
        Self::prepare_on(name, variables)
    }

    fn prepare_on(name: &'static str, variables: &[(&str, &str)]) -> Self {
        let cluster = Cluster::shared();
        deploy(&cluster, "node-agent", &[]);
        let mut builder = Node::builder().name(name);
        for (variable, value) in variables {
            builder = builder.variable(variable, Path::new(value));
        }
        for plugin in ["config-map", "csi", "secret", "projected"] {
            builder = builder.plugin(artifacts::plugin(plugin));
        }
        let mut node = builder.config("[grants.\"kubernetes.io/host-path\"]\nhost-paths = [\"$NODE/disk\"]\n[cluster-grants]\nhost-paths = [\"$NODE/disk\"]\n").build();
        let registry = node.folder().join("registry");
        fs::create_dir(&registry).unwrap();
        node.add_arguments(&["--plugin-registry", registry.to_str().unwrap()]);
        let kubeconfig = kubeconfig(&cluster, name, NAMESPACE, ACCOUNT);
        let mut config: Value = serde_json::from_str(&fs::read_to_string(&kubeconfig).unwrap()).unwrap();
        let server = &mut config["clusters"][0]["cluster"]["server"];
        let port = server.as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
        let proxy = Proxy::start(port);
        *server = format!("https://127.0.0.1:{}", proxy.port()).into();
        fs::write(&kubeconfig, config.to_string()).unwrap();
        Self { cluster, node, proxy, name, kubeconfig, agent: None, own: true }
    }

    pub(crate) fn start_agent(&mut self) {
        let log = fs::File::options().create(true).append(true).open(self.log_file()).unwrap();
        let agent = Command::new(artifacts::volhost())
            .args(["node-agent", "--node-name", self.name, "--kubeconfig"])
            .arg(&self.kubeconfig)
            .arg("--socket")
            .arg(self.node.socket())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        self.agent = Some(agent.unwrap());
    }

    /// An API server that the test can make answer badly, for the next agent. It speaks no TLS.
    pub(crate) fn faults(&self) -> Faults {
        let faults = Faults::start(&self.kubeconfig);
        let mut config: Value = serde_json::from_str(&fs::read_to_string(&self.kubeconfig).unwrap()).unwrap();
        config["clusters"][0]["cluster"] = serde_json::json!({ "server": faults.url() });
        fs::write(&self.kubeconfig, config.to_string()).unwrap();
        faults
    }

    /// Starts the agent again, with an API server that the test can make answer badly.
    pub(crate) fn reach_the_api_server_by_faults(&mut self) -> Faults {
        let faults = self.faults();
        self.kill_agent();
        self.start_agent();
        faults
    }

    pub(crate) fn kill_agent(&mut self) {
        let mut agent = self.agent.take().unwrap();
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    fn log_file(&self) -> PathBuf {
        self.node.folder().join("node-agent.log")
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// The name of the Node.
    pub(crate) fn name(&self) -> &str {
        self.name
    }

    /// Applies a pod on this node. Returns its uid.
    pub(crate) fn pod(&self, pod: &str, volumes: &str) -> String {
        let names: Vec<String> = volumes
            .split("name: ")
            .skip(1)
            .filter_map(|rest| rest.strip_prefix('v'))
            .map(|rest| format!("{{ name: v{0}, mountPath: /v{0} }}", rest.split([',', ' ']).next().unwrap()))
            .collect();
        self.cluster.apply(&format!(
            "apiVersion: v1
kind: Pod
metadata: {{ name: {pod} }}
spec:
  nodeName: {}
  terminationGracePeriodSeconds: 0
  containers: [{{ name: main, image: none, volumeMounts: [{}] }}]
  volumes: {volumes}
",
            self.name,
            names.join(", ")
        ));
        self.cluster.kubectl(&["get", "pod", pod, "-o", "jsonpath={.metadata.uid}"])
    }

    pub(crate) fn delete_pod(&self, pod: &str) {
        self.cluster.kubectl(&["delete", "pod", pod, "--force", "--grace-period=0", "--wait=false"]);
    }

    /// The file of a pod's volume.
    pub(crate) fn file(&self, uid: &str, plugin: &str, path: &str) -> PathBuf {
        self.node.path(&self.node.root().join("pods").join(uid).join("volumes").join(plugin).join(path))
    }

    pub(crate) fn assert_content(&self, file: &Path, content: &str) {
        let read = || fs::read_to_string(file).unwrap_or_else(|error| error.to_string());
        assert!(
            eventually(|| read() == content),
            "{}: {:?}, not {content:?}\n{}\n{}",
            file.display(),
            read(),
            self.log(),
            self.node.log()
        );
    }

    pub(crate) fn assert_unmounted(&self) {
        let mounts = || self.node.pod_mounts();
        assert!(eventually(|| mounts().is_empty()), "{:?}\n{}\n{}", mounts(), self.log(), self.node.log());
    }

    /// The agent as the API server's log names it.
    pub(crate) fn assert_permitted(&self) {
        let agent = format!("volhost-node-agent/{} ({})", env!("CARGO_PKG_VERSION"), self.name);
        assert_permitted(&self.cluster, &agent);
    }
}

impl Drop for AgentNode {
    fn drop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
        if self.own {
            let _ = self.cluster.try_kubectl(&["delete", "node", self.name, "--wait=false"]);
        }
    }
}

pub(crate) fn config_map(name: &str, text: &str) -> String {
    format!("{{ apiVersion: v1, kind: ConfigMap, metadata: {{ name: {name} }}, data: {{ text: {text} }} }}")
}
