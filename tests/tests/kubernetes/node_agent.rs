//! `volhost node-agent`: a node of a cluster whose volumes volhost mounts, without a kubelet.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use serde_json::Value;
use volhost_tests::Node;
use volhost_tests::artifacts;
use volhost_tests::cluster::{Cluster, NODE};
use volhost_tests::csi_serve::CsiServe;
use volhost_tests::loop_devices::LoopDevices;
use volhost_tests::wait::eventually;

use crate::controllers::{Controller, assert_permitted, deploy, kubeconfig};
use crate::faults::{Fault, Faults};
use crate::proxy::Proxy;

const NAMESPACE: &str = "volhost-node";
const ACCOUNT: &str = "volhost-node-agent";

/// A node of its own in the shared cluster: a daemon and an agent.
pub(crate) struct AgentNode {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) node: Node,
    proxy: Proxy,
    name: &'static str,
    kubeconfig: PathBuf,
    agent: Option<Child>,
    /// Whether the Node object is of this test alone.
    own: bool,
}

impl AgentNode {
    fn start(name: &'static str) -> Self {
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

    fn prepare(name: &'static str) -> Self {
        Self::prepare_with(name, &[])
    }

    /// A node of its own, not started, whose daemon has these variables in its environment.
    fn prepare_with(name: &'static str, variables: &[(&str, &str)]) -> Self {
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

    fn start_agent(&mut self) {
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
    fn faults(&self) -> Faults {
        let faults = Faults::start(&self.kubeconfig);
        let mut config: Value = serde_json::from_str(&fs::read_to_string(&self.kubeconfig).unwrap()).unwrap();
        config["clusters"][0]["cluster"] = serde_json::json!({ "server": faults.url() });
        fs::write(&self.kubeconfig, config.to_string()).unwrap();
        faults
    }

    /// Starts the agent again, with an API server that the test can make answer badly.
    fn reach_the_api_server_by_faults(&mut self) -> Faults {
        let faults = self.faults();
        self.kill_agent();
        self.start_agent();
        faults
    }

    fn kill_agent(&mut self) {
        let mut agent = self.agent.take().unwrap();
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    fn log_file(&self) -> PathBuf {
        self.node.folder().join("node-agent.log")
    }

    fn log(&self) -> String {
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

#[test]
fn pods_of_a_cluster_have_their_volumes_and_leave_nothing() {
    let node = AgentNode::start("agent-volumes");
    node.cluster.apply(&config_map("agent-map", "one"));
    node.cluster
        .apply("{ apiVersion: v1, kind: Secret, metadata: { name: agent-secret }, stringData: { word: hidden } }");
    let disk = node.node.folder().join("disk");
    fs::write(disk.join("marker"), "of the volume").unwrap();
    // The zone is known by the Node's label alone.
    node.cluster.apply(&format!(
        "apiVersion: v1
kind: PersistentVolume
metadata: {{ name: agent-pv }}
spec:
  capacity: {{ storage: 1Gi }}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ''
  claimRef: {{ namespace: default, name: agent-claim }}
  hostPath: {{ path: {} }}
  nodeAffinity: {{ required: {{ nodeSelectorTerms: [{{ matchExpressions: [{{ key: zone, operator: In, values: [of-agent-volumes] }}] }}] }} }}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{ name: agent-claim }}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: ''
  volumeName: agent-pv
  resources: {{ requests: {{ storage: 1Gi }} }}
",
        disk.display()
    ));
    let uid = node.pod(
        "agent-web",
        "[{ name: vscratch, emptyDir: {} }, { name: vmap, configMap: { name: agent-map } },
    { name: vsecret, secret: { secretName: agent-secret } }, { name: vdata, persistentVolumeClaim: { claimName: agent-claim } },
    { name: vtoken, projected: { sources: [{ serviceAccountToken: { path: token, expirationSeconds: 3600 } }] } }]",
    );
    node.assert_content(&node.file(&uid, "kubernetes.io~configmap", "vmap/text"), "one");
    node.assert_content(&node.file(&uid, "kubernetes.io~secret", "vsecret/word"), "hidden");
    node.assert_content(&node.file(&uid, "kubernetes.io~host-path", "agent-pv/marker"), "of the volume");

    // The API server knows whose token it is.
    let token = node.file(&uid, "kubernetes.io~projected", "vtoken/token");
    assert!(eventually(|| token.exists()), "{}\n{}", node.log(), node.node.log());
    let token = fs::read_to_string(token).unwrap();
    let review = node.cluster.kubectl_with(
        &["create", "-o", "json", "-f", "-"],
        &format!("{{ apiVersion: authentication.k8s.io/v1, kind: TokenReview, spec: {{ token: {token} }} }}"),
    );
    let review: Value = serde_json::from_str(&review).unwrap();
    assert_eq!(review["status"]["authenticated"], true, "{review}");
    assert_eq!(review["status"]["user"]["extra"]["authentication.kubernetes.io/pod-uid"][0], *uid, "{review}");

    node.cluster.apply(&config_map("agent-map", "two"));
    node.assert_content(&node.file(&uid, "kubernetes.io~configmap", "vmap/text"), "two");

    node.delete_pod("agent-web");
    node.assert_unmounted();
    node.assert_permitted();
    // The daemon keeps nothing of what no pod uses.
    let held = || node.node.ok(&["get", "claims,persistentvolumes", "-A", "-o", "name"]);
    assert!(eventually(|| held().is_empty()), "{}", held());
    node.cluster.kubectl(&["delete", "pvc", "agent-claim", "--wait=false"]);
    node.cluster.kubectl(&["delete", "pv", "agent-pv", "--wait=false"]);
}

#[test]
fn a_pod_waits_for_what_it_names_and_says_so_in_the_cluster() {
    let node = AgentNode::start("agent-waiting");
    let uid = node.pod("agent-waits", "[{ name: vmap, configMap: { name: agent-late } }]");
    let events = || {
        let all = [
            "get",
            "events",
            "--field-selector",
            "involvedObject.name=agent-waits",
            "-o",
            "jsonpath={.items[*].message}",
        ];
        node.cluster.kubectl(&all)
    };
    assert!(eventually(|| events().contains("agent-late")), "{}\n{}\n{}", events(), node.log(), node.node.log());
    node.cluster.apply(&config_map("agent-late", "here"));
    node.assert_content(&node.file(&uid, "kubernetes.io~configmap", "vmap/text"), "here");
    node.delete_pod("agent-waits");
    node.assert_unmounted();
}

#[test]
fn without_the_api_server_every_volume_stays_and_what_has_changed_is_done_after_it() {
    let mut node = AgentNode::start("agent-outage");
    node.cluster.apply(&config_map("agent-outage", "before"));
    let volumes = "[{ name: vmap, configMap: { name: agent-outage } }, { name: vscratch, emptyDir: {} }]";
    let (stays, goes) = (node.pod("agent-stays", volumes), node.pod("agent-goes", volumes));
    let text = |uid: &str| node.file(uid, "kubernetes.io~configmap", "vmap/text");
    let (text_of_stays, text_of_goes) = (text(&stays), text(&goes));
    node.assert_content(&text_of_stays, "before");
    node.assert_content(&text_of_goes, "before");

    node.proxy.cut();
    node.cluster.apply(&config_map("agent-outage", "after"));
    node.delete_pod("agent-goes");
    let mounted = node.node.pod_mounts().len();
    // Neither an agent nor a daemon that is started again takes what it cannot ask for as gone.
    node.kill_agent();
    node.start_agent();
    node.node.kill();
    node.node.start();
    assert!(eventually(|| node.log().matches("a session with the daemon begins").count() >= 2), "{}", node.log());
    let seen = node.node.ok(&["get", "pods", "-A", "-o", "name"]);
    assert_eq!(seen.lines().count(), 2, "{seen}");
    assert_eq!(node.node.pod_mounts().len(), mounted, "{}", node.node.log());

    node.proxy.open();
    node.assert_content(&text_of_stays, "after");
    assert!(eventually(|| !text_of_goes.exists()), "{}\n{}", node.log(), node.node.log());
    assert!(text_of_stays.exists());
    node.delete_pod("agent-stays");
    node.assert_unmounted();
    node.assert_permitted();
}

/// What is known is kept while the API server answers badly, an agent that is started then included;
/// what has changed is done when it answers again, or, by lists, before that.
fn stays_mounted_through(fault: Fault, name: &'static str) {
    let mut node = AgentNode::start(name);
    let faults = node.reach_the_api_server_by_faults();
    let map = format!("{name}-map");
    node.cluster.apply(&config_map(&map, "before"));
    let volumes = format!("[{{ name: vmap, configMap: {{ name: {map} }} }}, {{ name: vscratch, emptyDir: {{}} }}]");
    let (web, again) = (format!("{name}-web"), format!("{name}-again"));
    let (stays, goes) = (node.pod(&web, &volumes), node.pod(&again, &volumes));
    let text = |node: &AgentNode, uid: &str| node.file(uid, "kubernetes.io~configmap", "vmap/text");
    for uid in [&stays, &goes] {
        node.assert_content(&text(&node, uid), "before");
    }

    faults.set(fault, "");
    node.cluster.apply(&config_map(&map, "after"));
    // Another pod of the same name.
    node.delete_pod(&again);
    assert!(eventually(|| node.cluster.try_kubectl(&["get", "pod", &again]).is_err()));
    let comes = node.pod(&again, &volumes);
    node.kill_agent();
    node.start_agent();
    node.node.kill();
    node.node.start();
    assert!(eventually(|| faults.answered() >= 8), "{} answers\n{}", faults.answered(), node.log());
    assert!(text(&node, &stays).exists(), "{}", node.node.log());
    let shown = node.node.ok(&["get", "pods", "-A", "-o", "wide"]);
    assert!(shown.contains(&web), "{shown}");
    if matches!(fault, Fault::TooManyRequests | Fault::Broken | Fault::Reset) {
        assert!(text(&node, &goes).exists(), "nobody knows that it is gone\n{}", node.node.log());
    }

    if matches!(fault, Fault::TooManyRequests | Fault::Broken | Fault::Reset) {
        faults.set(Fault::None, "");
    }
    node.assert_content(&text(&node, &comes), "after");
    node.assert_content(&text(&node, &stays), "after");
    assert!(eventually(|| !text(&node, &goes).exists()), "{}\n{}", node.log(), node.node.log());
    faults.set(Fault::None, "");
    for pod in [&web, &again] {
        node.delete_pod(pod);
    }
    node.assert_unmounted();
}

#[test]
fn an_api_server_that_has_too_much_to_do_costs_no_mount() {
    stays_mounted_through(Fault::TooManyRequests, "agent-throttled");
}

#[test]
fn an_api_server_that_is_broken_costs_no_mount() {
    stays_mounted_through(Fault::Broken, "agent-broken");
}

#[test]
fn watches_that_expire_cost_no_mount_and_no_change() {
    stays_mounted_through(Fault::WatchExpired, "agent-expired");
}

#[test]
fn connections_that_break_in_an_answer_cost_no_mount() {
    stays_mounted_through(Fault::Reset, "agent-reset");
}

#[test]
fn slow_answers_cost_no_mount_and_no_change() {
    stays_mounted_through(Fault::Slow, "agent-slow");
}

#[test]
fn a_pod_says_which_object_cannot_be_read_and_why() {
    let mut node = AgentNode::start("agent-unread");
    let faults = node.reach_the_api_server_by_faults();
    node.cluster.apply(&config_map("agent-unread", "here"));
    faults.set(Fault::TooManyRequests, "/configmaps");
    let uid = node.pod("agent-unread", "[{ name: vmap, configMap: { name: agent-unread } }]");
    let said = || node.cluster.kubectl(&["describe", "pod", "agent-unread"]);
    let why = "its volumes wait for what they name: ConfigMap default/agent-unread: the server has too much to do";
    assert!(eventually(|| said().contains(why)), "{}\n{}", said(), node.log());
    faults.set(Fault::None, "");
    node.assert_content(&node.file(&uid, "kubernetes.io~configmap", "vmap/text"), "here");
    node.delete_pod("agent-unread");
    node.assert_unmounted();
}

#[test]
fn a_claim_of_a_csi_driver_is_attached_by_the_cluster_and_detached_after_its_pod() {
    let mut node = AgentNode::start("agent-csi");
    let (cluster, name) = (Arc::clone(&node.cluster), "agent-disk");
    let driver = format!("{name}.test");
    let disk = node.node.folder().join("disk");
    let registry = node.node.folder().join("registry").display().to_string();
    let own = ["--driver-name", &driver, "--registration-dir", &registry, "--enable-attach", "--node-id", "node-7"];
    let topology = format!("{name}.test/node=here");
    let arguments = [&own[..], &["--topology", &topology]].concat();
    let served = CsiServe::start_on(&node.node, name, &artifacts::plugin("loop"), &disk, &arguments);
    let devices = LoopDevices::below(&disk);
    cluster.apply(&format!(
        "apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {{ name: {driver} }}
spec: {{ attachRequired: true, podInfoOnMount: true, fsGroupPolicy: File, volumeLifecycleModes: [Persistent] }}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{ name: {name} }}
provisioner: {driver}
allowVolumeExpansion: true
parameters: {{ csi.storage.k8s.io/fstype: xfs, folder: {} }}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{ name: {name} }}
spec: {{ accessModes: [ReadWriteOnce], storageClassName: {name}, resources: {{ requests: {{ storage: 320Mi }} }} }}
",
        disk.display()
    ));
    let controller = Controller::start_for(&cluster, &served, &driver, name, &[]);
    let get = |object: &[&str], path: &str| {
        cluster.try_kubectl(&[&["get"], object, &["-o", &format!("jsonpath={{{path}}}")]].concat()).unwrap_or_default()
    };
    let known = |node: &AgentNode| format!("{}\n{}\n{}", controller.known(), node.log(), node.node.log());
    assert!(eventually(|| get(&["csinode", "agent-csi"], ".spec.drivers[*].nodeID") == "node-7"), "{}", known(&node));
    assert_eq!(get(&["node", "agent-csi"], ".metadata.labels.agent-disk\\.test/node"), "here");
    let uid = node.pod(name, &format!("[{{ name: vdata, persistentVolumeClaim: {{ claimName: {name} }} }}]"));
    let volume = || get(&["pvc", name], ".spec.volumeName");
    let is_mounted = |node: &AgentNode| {
        let volume = format!("kubernetes.io~csi/{}/mount", volume());
        node.node.all_mounts().iter().any(|mount| mount.point.ends_with(&volume))
    };
    assert!(eventually(|| is_mounted(&node)), "{}", known(&node));
    let in_use = || get(&["node", "agent-csi"], ".status.volumesInUse[*]");
    assert!(in_use().starts_with(&format!("kubernetes.io/csi/{driver}^")), "{}", in_use());
    let attachments =
        || get(&["volumeattachments"], &format!(".items[?(@.spec.attacher==\"{driver}\")].metadata.name"));
    assert!(!attachments().is_empty());

    // Neither an agent nor a daemon that dies lets the volume go.
    node.kill_agent();
    node.node.kill();
    node.node.start();
    node.start_agent();
    assert!(eventually(|| node.log().matches("the daemon has all pods").count() >= 2), "{}", known(&node));
    assert!(is_mounted(&node));
    assert!(!attachments().is_empty(), "{}", known(&node));

    // It grows while it is used, and its claim says so.
    cluster.kubectl(&["patch", "pvc", name, "-p", r#"{"spec":{"resources":{"requests":{"storage":"512Mi"}}}}"#]);
    let status = || get(&["pvc", name], ".status.capacity.storage");
    assert!(eventually(|| status() == "512Mi"), "{}\n{}", get(&["pvc", name], ".status"), known(&node));
    assert_eq!(
        get(&["pvc", name], ".status.conditions") + &get(&["pvc", name], ".status.allocatedResourceStatuses"),
        ""
    );
    let space = rustix::fs::statvfs(node.file(&uid, "kubernetes.io~csi", &format!("{}/mount", volume()))).unwrap();
    assert!(space.f_blocks * space.f_frsize > 400 << 20, "{} blocks", space.f_blocks);

    // While the volume cannot be unmounted, it stays attached, though the pod is gone.
    let busy = node.file(&uid, "kubernetes.io~csi", &format!("{}/mount/busy", volume()));
    fs::write(&busy, "text").unwrap();
    let open = fs::File::open(&busy).unwrap();
    node.delete_pod(name);
    let seen = |words: &str| node.node.log().contains(words);
    assert!(eventually(|| seen("FailedUnMount") || seen("FailedUnmount") || seen("busy")), "{}", known(&node));
    assert!(in_use().starts_with("kubernetes.io/csi/"), "{}", known(&node));
    drop(open);
    assert!(eventually(|| attachments().is_empty() && in_use().is_empty()), "{}", known(&node));
    node.assert_unmounted();
    cluster.kubectl(&["delete", "pvc", name]);
    assert!(
        eventually(|| get(&["pv"], &format!(".items[?(@.spec.csi.driver==\"{driver}\")].metadata.name")).is_empty()),
        "{}",
        known(&node)
    );
    assert!(eventually(|| devices.all().is_empty()), "{:?}", devices.all());
    node.assert_permitted();
    controller.assert_permitted();
}

#[test]
fn more_objects_than_one_connection_has_watches_are_read_and_again_after_an_outage() {
    const OBJECTS: usize = 150;
    let node = AgentNode::start("agent-many");
    let maps: Vec<String> = (0..OBJECTS).map(|at| config_map(&format!("agent-many-{at}"), "here")).collect();
    node.cluster.apply(&maps.join("\n---\n"));
    // From here on there is a connection for the others.
    let first = node.pod("agent-first", "[{ name: vmap, configMap: { name: agent-many-0 } }]");
    node.assert_content(&node.file(&first, "kubernetes.io~configmap", "vmap/text"), "here");
    let sources: Vec<String> = (0..OBJECTS)
        .map(|at| format!("{{ configMap: {{ name: agent-many-{at}, items: [{{ key: text, path: '{at}' }}] }} }}"))
        .collect();
    let uid =
        node.pod("agent-many", &format!("[{{ name: vall, projected: {{ sources: [{}] }} }}]", sources.join(", ")));
    node.assert_content(&node.file(&uid, "kubernetes.io~projected", &format!("vall/{}", OBJECTS - 1)), "here");
    // The last of them by name, whose watch begins last.
    node.cluster.apply(&config_map("agent-many-99", "changed"));
    node.assert_content(&node.file(&uid, "kubernetes.io~projected", "vall/99"), "changed");
    // All these watches end with an error, and begin again. None has something to tell then.
    node.proxy.cut();
    node.proxy.open();
    for at in (0..OBJECTS).step_by(15) {
        node.cluster.apply(&config_map(&format!("agent-many-{at}"), "after it"));
        node.assert_content(&node.file(&uid, "kubernetes.io~projected", &format!("vall/{at}")), "after it");
    }
    node.delete_pod("agent-many");
    node.delete_pod("agent-first");
    node.assert_unmounted();
}

/// A node whose clock differs from the cluster's by this much, as `+26h`.
fn serves_with_a_clock_that_is_wrong(by: &str, name: &'static str) {
    const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
    assert!(Path::new(LIBRARY).exists(), "Debian's package faketime is missing; run `deploy/setup.sh --tests`");
    let variables =
        [("LD_PRELOAD", LIBRARY), ("FAKETIME", by), ("FAKETIME_DONT_FAKE_MONOTONIC", "1"), ("FAKETIME_NO_CACHE", "1")];
    let mut node = AgentNode::prepare_with(name, &variables);
    // Certificates are of the cluster's time, and TLS refuses them on such a node: without it the
    // node's volumes can show whether they depend on the clock, too.
    let faults = node.faults();
    let kubeconfig = node.kubeconfig.display().to_string();
    node.node.add_arguments(&["--kubernetes", "--kubeconfig", &kubeconfig]);
    node.node.start();
    let map = format!("{name}-map");
    node.cluster.apply(&config_map(&map, "before"));
    let uid = node.pod(
        name,
        &format!(
            "[{{ name: vmap, configMap: {{ name: {map} }} }},
    {{ name: vtoken, projected: {{ sources: [{{ serviceAccountToken: {{ path: token, expirationSeconds: 600 }} }}] }} }}]"
        ),
    );
    let text = node.file(&uid, "kubernetes.io~configmap", "vmap/text");
    node.assert_content(&text, "before");
    let token = node.file(&uid, "kubernetes.io~projected", "vtoken/token");
    assert!(eventually(|| token.exists()), "{}", node.node.log());
    let is_good = |token: &Path| {
        let token = fs::read_to_string(token).unwrap();
        let review =
            format!("{{ apiVersion: authentication.k8s.io/v1, kind: TokenReview, spec: {{ token: {token} }} }}");
        let review = node.cluster.kubectl_with(&["create", "-o", "json", "-f", "-"], &review);
        serde_json::from_str::<Value>(&review).unwrap()["status"]["authenticated"] == true
    };
    assert!(is_good(&token));

    // What changes is seen, and a daemon that is started again goes on.
    node.cluster.apply(&config_map(&map, "after"));
    node.assert_content(&text, "after");
    node.node.kill();
    node.node.start();
    node.cluster.apply(&config_map(&map, "again"));
    node.assert_content(&text, "again");
    assert!(is_good(&token));
    // The pod has two tokens, and so has it again after the daemon's start: none is asked for over
    // and over because it seems to have expired.
    let agent = format!("({name})");
    let asks = |request: &&Value| {
        request["objectRef"]["subresource"] == "token"
            && request["userAgent"].as_str().is_some_and(|program| program.ends_with(&agent))
    };
    let asked = node.cluster.requests().iter().filter(asks).count();
    assert!((2..=4).contains(&asked), "{asked} requests for tokens\n{}", node.node.log());
    node.delete_pod(name);
    node.assert_unmounted();
    drop(faults);
}

#[test]
fn a_clock_that_is_a_day_behind_costs_no_mount() {
    serves_with_a_clock_that_is_wrong("-26h", "agent-behind");
}

#[test]
fn a_clock_that_is_a_day_ahead_costs_no_mount() {
    serves_with_a_clock_that_is_wrong("+26h", "agent-ahead");
}
