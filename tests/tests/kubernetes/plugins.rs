//! Plugins from the cluster: a real registry, `volhost plugin-controller`, and a node with its
//! agent.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tempfile::TempDir;
use volhost_tests::artifacts::{self, workspace};
use volhost_tests::cluster::Cluster;
use volhost_tests::manifests::pod;
use volhost_tests::registry::Registry;
use volhost_tests::wait::eventually;

use crate::agent_node::AgentNode;
use crate::controllers::{assert_permitted, kubeconfig};

/// Where `deploy/plugins` puts the controller.
pub(crate) const NAMESPACE: &str = "volhost-plugins";
const ACCOUNT: &str = "volhost-plugin-controller";

/// Applies the definitions and the permissions of `deploy/plugins`; the controllers are the tests'.
pub(crate) fn deploy_definitions(cluster: &Cluster) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = workspace().join("deploy/plugins");
    for file in ["crds.yaml", "rbac.yaml"] {
        let file = folder.join(file).display().to_string();
        cluster.kubectl(&["apply", "--validate=strict", "-f", &file]);
    }
    for kind in ["volumeplugins", "nodeplugins"] {
        cluster.wait(&["crd", &format!("{kind}.volhost.io")], "condition=Established");
    }
}

/// A replica of `volhost plugin-controller`. Dropping it kills it.
pub(crate) struct PluginController {
    cluster: Arc<Cluster>,
    log: std::path::PathBuf,
    process: Child,
}

impl PluginController {
    pub(crate) fn start(cluster: &Arc<Cluster>, name: &str) -> Self {
        let kubeconfig = kubeconfig(cluster, name, NAMESPACE, ACCOUNT);
        let log = cluster.node().folder().join(format!("{name}.log"));
        let to = fs::File::create(&log).unwrap();
        let process = Command::new(artifacts::volhost())
            .args(["plugin-controller", "--namespace", NAMESPACE, "--lease-duration", "5s", "--kubeconfig"])
            .arg(&kubeconfig)
            .stdin(Stdio::null())
            .stdout(to.try_clone().unwrap())
            .stderr(to)
            .spawn()
            .unwrap();
        Self { cluster: Arc::clone(cluster), log, process }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Checks that the permissions of `deploy/plugins` were enough.
    pub(crate) fn assert_permitted(&self) {
        assert_permitted(&self.cluster, &format!("volhost-plugin-controller/{}", env!("CARGO_PKG_VERSION")));
    }
}

impl Drop for PluginController {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The VolumePlugin of this name, as the API server has it.
pub(crate) fn volume_plugin(cluster: &Cluster, name: &str) -> Value {
    serde_json::from_str(&cluster.kubectl(&["get", "volumeplugin", name, "-o", "json"])).unwrap()
}

/// The condition's status, reason and message.
pub(crate) fn condition(object: &Value, kind: &str) -> (String, String, String) {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}

pub(crate) fn phase(cluster: &Cluster, name: &str) -> String {
    volume_plugin(cluster, name)["status"]["phase"].as_str().unwrap_or_default().to_owned()
}

/// A digest of this many equal digits.
pub(crate) fn digest(digit: char) -> String {
    format!("sha256:{}", digit.to_string().repeat(64))
}

#[test]
fn the_api_server_refuses_what_no_node_could_install() {
    let cluster = Cluster::shared();
    deploy_definitions(&cluster);
    let object = |spec: Value| {
        let mut good = json!({
            "plugin": "example.com/archive", "image": "registry.example.com/archive", "digest": digest('a'),
        });
        for (key, value) in spec.as_object().unwrap() {
            good[key] = value.clone();
        }
        json!({
            "apiVersion": "volhost.io/v1alpha1", "kind": "VolumePlugin",
            "metadata": { "name": "refused" }, "spec": good,
        })
        .to_string()
    };
    let apply = |spec: Value| {
        let arguments = ["apply", "--validate=strict", "--dry-run=server", "-f", "-"];
        cluster.try_kubectl_with(&arguments, &object(spec))
    };
    apply(json!({
        "grants": { "host-paths": ["/srv"], "memory": "64Mi", "fuse-servers": { "cow": { "program": "/bin/cow", "arguments": ["{mount}"] } } },
        "settings": { "server": "a", "retries": 3, "mirrors": ["b"] },
        "nodeSelector": { "zone": "a" },
        "rollout": { "maxUnavailable": "20%", "paused": true, "progressDeadlineSeconds": 60 },
    }))
    .unwrap();
    for (spec, words) in [
        (json!({ "digest": "sha256:abc" }), "64 hexadecimal digits"),
        (json!({ "image": format!("r.example/archive@{}", digest('b')) }), "spec.digest has it"),
        (json!({ "image": "archive" }), "names registry and repository"),
        (json!({ "plugin": "archive" }), "vendor/name"),
        (json!({ "plugin": "volhost.io/loop" }), "come with volhost"),
        (json!({ "grants": { "host_paths": ["/srv"] } }), "unknown field \"spec.grants.host_paths\""),
        (json!({ "grants": { "host-paths": "/srv" } }), "spec.grants.host-paths"),
        (json!({ "rollout": { "maxUnavailable": 0 } }), "from 1 on"),
        (json!({ "rollout": { "maxUnavailable": "0%" } }), "from 1% to 100%"),
        (json!({ "rollout": { "progressDeadlineSeconds": 1 } }), "progressDeadlineSeconds"),
    ] {
        let error = apply(spec.clone()).unwrap_err();
        assert!(error.contains(words), "{spec}: {error}");
    }
}

/// A registry with the versions of a plugin.
struct Published {
    registry: Registry,
    home: TempDir,
}

impl Published {
    fn new() -> Self {
        Self { registry: Registry::plain(), home: tempfile::tempdir().unwrap() }
    }

    fn image(&self) -> String {
        self.registry.reference("acme/well-behaved")
    }

    /// Publishes a fixture. Returns its digest.
    fn publish(&self, fixture: &str) -> String {
        let file = artifacts::fixture(&format!("fixture-{fixture}"));
        let reference = format!("{}:{fixture}", self.image());
        let output = self.registry.volhost(self.home.path(), &["publish", &reference, file.to_str().unwrap()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let printed = String::from_utf8(output.stdout).unwrap();
        printed.trim().rsplit('@').next().unwrap().to_owned()
    }

    fn apply(&self, cluster: &Cluster, digest: &str, grants: &Value) {
        let object = json!({
            "apiVersion": "volhost.io/v1alpha1", "kind": "VolumePlugin", "metadata": { "name": "well-behaved" },
            "spec": {
                "plugin": "fixture.volhost/well-behaved", "image": self.image(), "digest": digest, "grants": grants,
                "nodeSelector": { "zone": "of-agent-plugins" },
            },
        });
        cluster.apply(&object.to_string());
    }
}

#[test]
fn a_plugin_reaches_a_node_waits_for_its_grant_and_a_broken_one_is_rolled_back() {
    let published = Published::new();
    let first = published.publish("well-behaved");
    let mut node = AgentNode::start_as_one("agent-plugins", &["--cluster-plugins"]);
    let cluster = Arc::clone(&node.cluster);
    deploy_definitions(&cluster);
    let controller = PluginController::start(&cluster, "plugins-e2e");
    let known = |node: &AgentNode| {
        let objects = cluster.kubectl(&["get", "volumeplugins,nodeplugins", "-o", "yaml"]);
        format!("{objects}\n{}\n{}", controller.log(), node.node.log())
    };
    let wait_phase = |node: &AgentNode, wanted: &str| {
        let is_so = eventually(|| phase(&cluster, "well-behaved") == wanted);
        assert!(is_so, "{wanted}\n{}", known(node));
    };

    // The first version, which a pod uses.
    published.apply(&cluster, &first, &json!({}));
    wait_phase(&node, "Ready");
    let plugins = node.node.ok(&["get", "plugins"]);
    assert!(plugins.contains("fixture.volhost/well-behaved"), "{plugins}");
    let manifest = node.node.folder().join("used.yaml");
    fs::write(&manifest, pod("used", "uid-used", &["name: data, wellBehaved: { size: 1Mi }"])).unwrap();
    node.node.ok(&["apply", "-f", manifest.to_str().unwrap()]);
    node.node.wait_mounted("default/used");
    let columns = cluster.kubectl(&["get", "volumeplugin", "well-behaved"]);
    for word in ["DIGEST", "NODES", "UPDATED", "READY", "STATUS", "AGE", &first["sha256:".len()..][..12]] {
        assert!(columns.contains(word), "{word}: {columns}");
    }

    // One that asks for more than it is granted, then more than the node lets the cluster grant.
    let greedy = published.publish("well-behaved-greedy");
    published.apply(&cluster, &greedy, &json!({}));
    wait_phase(&node, "GrantNeeded");
    let waiting = volume_plugin(&cluster, "well-behaved");
    let (status, reason, message) = condition(&waiting, "GrantNeeded");
    assert_eq!((status.as_str(), reason.as_str()), ("True", "NotGranted"));
    assert!(message.contains("missing: host-paths") && message.contains("kubectl edit volumeplugin"), "{message}");
    assert_eq!(condition(&waiting, "Degraded").0, "False", "it waits, and has not failed");
    published.apply(&cluster, &greedy, &json!({ "host-paths": ["/etc"] }));
    let is_refused = || {
        let (status, reason, message) = condition(&volume_plugin(&cluster, "well-behaved"), "GrantNeeded");
        status == "True"
            && reason == "NotAllowed"
            && message.contains("host-paths /etc")
            && message.contains("[cluster-grants]")
    };
    assert!(eventually(is_refused), "{}", known(&node));
    node.node.wait_mounted("default/used");

    // With a grant that the node allows, it serves.
    let disk = node.node.folder().join("disk").display().to_string();
    let granted = json!({ "host-paths": [disk] });
    published.apply(&cluster, &greedy, &granted);
    wait_phase(&node, "Ready");
    let ready = volume_plugin(&cluster, "well-behaved");
    assert_eq!(condition(&ready, "GrantNeeded").0, "False");
    let described = node.node.ok(&["describe", "plugin", "fixture.volhost/well-behaved"]);
    assert!(described.contains("3.0.0"), "{described}");

    // A broken one goes back by itself, and the pod keeps its volume.
    let broken = published.publish("describe-panic");
    published.apply(&cluster, &broken, &granted);
    wait_phase(&node, "RolledBack");
    let (status, reason, message) = condition(&volume_plugin(&cluster, "well-behaved"), "RolledBack");
    assert_eq!((status.as_str(), reason.as_str()), ("True", "NotLoaded"), "{message}");
    assert!(message.contains("agent-plugins") && message.contains("go back to revision"), "{message}");
    let is_back = || {
        let nodes = cluster.kubectl(&["get", "nodeplugins", node.name(), "-o", "json"]);
        let nodes: Value = serde_json::from_str(&nodes).unwrap();
        nodes["status"]["plugins"][0]["state"] == "Ready" && nodes["status"]["plugins"][0]["digest"] == *greedy
    };
    assert!(eventually(is_back), "{}", known(&node));
    node.node.wait_mounted("default/used");

    // One of another name gets nothing of this name's grants.
    let other = published.publish("misbehaving");
    published.apply(&cluster, &other, &granted);
    let is_named =
        || condition(&volume_plugin(&cluster, "well-behaved"), "RolledBack").2.contains("spec.plugin must be");
    assert!(eventually(is_named), "{}", known(&node));
    published.apply(&cluster, &greedy, &granted);
    wait_phase(&node, "Ready");

    // A daemon that starts again has its plugin without the registry.
    let Published { registry, .. } = published;
    drop(registry);
    node.node.kill();
    node.node.start();
    node.node.wait_mounted("default/used");
    assert!(
        node.node.ok(&["describe", "plugin", "fixture.volhost/well-behaved"]).contains("Ready"),
        "{}",
        known(&node)
    );

    // It is removed when no volume uses it any more.
    cluster.kubectl(&["delete", "volumeplugin", "well-behaved", "--wait=false"]);
    let says_who = || {
        let message = condition(&volume_plugin(&cluster, "well-behaved"), "Ready").2;
        message.contains("volume data of pod default/used")
    };
    assert!(eventually(says_who), "{}", known(&node));
    node.node.ok(&["delete", "-f", manifest.to_str().unwrap()]);
    node.node.wait_unmounted("default/used");
    let is_gone = || cluster.try_kubectl(&["get", "volumeplugin", "well-behaved"]).is_err();
    assert!(eventually(is_gone), "{}", known(&node));
    assert!(fs::read_dir(node.node.path(&node.node.root().join("cluster-plugins"))).unwrap().next().is_none());
    node.assert_unmounted();
    node.assert_permitted();
    controller.assert_permitted();
}

#[test]
fn a_node_whose_operator_does_not_let_it_takes_no_plugin() {
    let node = AgentNode::start_as_one("agent-closed", &[]);
    let cluster = Arc::clone(&node.cluster);
    deploy_definitions(&cluster);
    // What is written later is seen to be done.
    let file = crate::agent_node::config_map("agent-closed", "here");
    cluster.apply(&file);
    let uid = node.pod("agent-closed", "[{ name: vmap, configMap: { name: agent-closed } }]");
    node.assert_content(&node.file(&uid, "kubernetes.io~configmap", "vmap/text"), "here");
    assert!(cluster.try_kubectl(&["get", "nodeplugins", "agent-closed"]).is_err(), "{}", node.node.log());
    assert!(!node.node.path(&node.node.root().join("cluster-plugins")).exists());
    node.delete_pod("agent-closed");
    node.assert_unmounted();
    node.assert_permitted();
}
