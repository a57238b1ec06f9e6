//! Rollouts over many nodes, whose agents are the test: it writes what they would report.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use volhost_tests::cluster::Cluster;
use volhost_tests::wait::eventually;

use crate::plugins::{PluginController, condition, deploy_definitions, digest, phase, volume_plugin};

/// Nodes without a daemon, of a label of their own.
pub(crate) struct Fleet {
    cluster: Arc<Cluster>,
    label: &'static str,
}

impl Fleet {
    fn start(label: &'static str, nodes: usize) -> Self {
        Self::start_in(Cluster::shared(), label, nodes)
    }

    /// The same in this cluster.
    pub(crate) fn start_in(cluster: Arc<Cluster>, label: &'static str, nodes: usize) -> Self {
        deploy_definitions(&cluster);
        let fleet = Self { cluster, label };
        (0..nodes).for_each(|number| fleet.add(number));
        fleet
    }

    fn name(&self, number: usize) -> String {
        format!("{}-{number}", self.label)
    }

    fn add(&self, number: usize) {
        let name = self.name(number);
        self.cluster.apply(&format!(
            "{{ apiVersion: v1, kind: Node, metadata: {{ name: {name}, labels: {{ fleet: {} }} }} }}\n---\n\
             {{ apiVersion: volhost.io/v1alpha1, kind: NodePlugins, metadata: {{ name: {name} }} }}\n",
            self.label
        ));
        self.write(&name, &json!({ "acceptsPlugins": true, "plugins": [] }));
    }

    fn write(&self, name: &str, status: &Value) {
        let patch = json!({ "status": status }).to_string();
        self.cluster.kubectl(&["patch", "nodeplugins", name, "--subresource=status", "--type=merge", "-p", &patch]);
    }

    pub(crate) fn apply(&self, digest: &str, rollout: &Value) {
        let object = json!({
            "apiVersion": "volhost.io/v1alpha1", "kind": "VolumePlugin", "metadata": { "name": self.label },
            "spec": {
                "plugin": format!("example.com/{}", self.label), "image": "r.example/archive", "digest": digest,
                "nodeSelector": { "fleet": self.label }, "rollout": rollout,
            },
        });
        self.cluster.apply(&object.to_string());
    }

    /// The fleet's NodePlugins, by node.
    fn nodes(&self) -> BTreeMap<String, Value> {
        let all: Value = serde_json::from_str(&self.cluster.kubectl(&["get", "nodeplugins", "-o", "json"])).unwrap();
        let all = all["items"].as_array().cloned().unwrap_or_default().into_iter();
        let named = all.map(|node| (node["metadata"]["name"].as_str().unwrap_or_default().to_owned(), node));
        named.filter(|(name, _)| name.starts_with(&format!("{}-", self.label))).collect()
    }

    /// The nodes that have not reported what they are to have as ready: each with its digest.
    fn unready(&self) -> Vec<(String, Value)> {
        let is_ready = |node: &Value| {
            let (wanted, has) = (&node["spec"]["plugins"][0], &node["status"]["plugins"][0]);
            wanted.is_null() || has["state"] == "Ready" && has["revision"] == wanted["revision"]
        };
        self.nodes().into_iter().filter(|(_, node)| !is_ready(node)).collect()
    }

    /// Reports the state of what a node is to have, as its agent would.
    fn report(&self, name: &str, node: &Value, state: &str) {
        let wanted = &node["spec"]["plugins"][0];
        let plugins = json!([{
            "name": self.label, "revision": wanted["revision"], "digest": wanted["digest"], "state": state,
            "reason": "OfTheTest", "message": "said the test",
        }]);
        self.write(name, &json!({ "acceptsPlugins": true, "plugins": plugins }));
    }

    /// Every node loads what it is to have, one step at a time, until the rollout has this phase. On
    /// the `bad` node the digest fails. Never more than `most` nodes are without a ready plugin.
    pub(crate) fn run(&self, most: usize, bad: Option<(&str, &str)>, wanted: &str) {
        let done = eventually(|| {
            let unready = self.unready();
            assert!(unready.len() <= most, "{most}: {unready:#?}");
            if let Some((name, node)) = unready.first() {
                let has_failed =
                    bad.is_some_and(|(bad, digest)| bad == name && node["spec"]["plugins"][0]["digest"] == digest);
                self.report(name, node, if has_failed { "Failed" } else { "Ready" });
            }
            let object = volume_plugin(&self.cluster, self.label);
            let is_seen = object["status"]["observedGeneration"] == object["metadata"]["generation"];
            unready.is_empty() && is_seen && object["status"]["phase"] == wanted
        });
        assert!(done, "{wanted}: {:#}\n{:#?}", volume_plugin(&self.cluster, self.label), self.nodes());
    }

    /// The digests that nodes are to have, each once.
    pub(crate) fn digests(&self) -> Vec<String> {
        let nodes = self.nodes().into_values();
        let mut digests: Vec<String> =
            nodes.map(|node| node["spec"]["plugins"][0]["digest"].as_str().unwrap_or_default().to_owned()).collect();
        digests.sort();
        digests.dedup();
        digests
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for kind in ["nodeplugins", "nodes"] {
            for name in self.nodes().keys() {
                let _ = self.cluster.try_kubectl(&["delete", kind, name, "--wait=false"]);
            }
        }
        let _ = self.cluster.try_kubectl(&["delete", "volumeplugin", self.label, "--wait=false"]);
    }
}

#[test]
fn stages_survive_the_controller_and_a_failure_takes_every_node_back() {
    let fleet = Fleet::start("stages", 5);
    let mut first = PluginController::start(&fleet.cluster, "rollout-first");
    fleet.apply(&digest('1'), &json!({ "maxUnavailable": "100%" }));
    fleet.run(5, None, "Ready");

    // Two at a time; the controller dies when the first nodes have the new digest.
    fleet.apply(&digest('2'), &json!({ "maxUnavailable": 2 }));
    assert!(eventually(|| fleet.unready().len() == 2), "{}", first.log());
    first.kill();
    let second = PluginController::start(&fleet.cluster, "rollout-second");
    fleet.run(2, None, "Ready");
    assert_eq!(fleet.digests(), [digest('2')]);

    // A node that comes later gets what the others have.
    fleet.add(5);
    assert!(eventually(|| fleet.nodes()[&fleet.name(5)]["spec"]["plugins"][0].is_object()), "{}", second.log());
    fleet.run(2, None, "Ready");
    assert_eq!((fleet.nodes().len(), fleet.digests()), (6, vec![digest('2')]));

    // One fails on the third node.
    let bad = fleet.name(2);
    fleet.apply(&digest('3'), &json!({ "maxUnavailable": 1 }));
    fleet.run(1, Some((&bad, &digest('3'))), "RolledBack");
    let is_back = || {
        if let Some((name, node)) = fleet.unready().first() {
            fleet.report(name, node, "Ready");
        }
        fleet.digests() == [digest('2')] && fleet.unready().is_empty()
    };
    assert!(eventually(is_back), "{:#?}\n{}", fleet.nodes(), second.log());
    let object = volume_plugin(&fleet.cluster, "stages");
    let (status, _, message) = condition(&object, "RolledBack");
    assert!(status == "True" && message.contains(&bad) && message.contains("said the test"), "{message}");
    assert_eq!(object["status"]["current"]["digest"], digest('2'));
    let counts = json!({ "desired": 6, "updated": 0, "ready": 0, "failed": 0 });
    let are_counted = || volume_plugin(&fleet.cluster, "stages")["status"]["nodes"] == counts;
    assert!(eventually(are_counted), "{:#}", volume_plugin(&fleet.cluster, "stages"));

    // Another digest is another try.
    fleet.apply(&digest('4'), &json!({ "maxUnavailable": 3 }));
    fleet.run(3, None, "Ready");
    assert_eq!(fleet.digests(), [digest('4')]);
    second.assert_permitted();
}

#[test]
fn a_pause_stops_a_rollout_and_a_deadline_ends_it() {
    let fleet = Fleet::start("deadline", 3);
    let controller = PluginController::start(&fleet.cluster, "rollout-deadline");
    fleet.apply(&digest('1'), &json!({ "maxUnavailable": 3 }));
    fleet.run(3, None, "Ready");
    fleet.apply(&digest('2'), &json!({ "maxUnavailable": 1, "paused": true }));
    assert!(eventually(|| phase(&fleet.cluster, "deadline") == "Paused"), "{}", controller.log());
    assert_eq!(fleet.digests(), [digest('1')]);
    // A node that says nothing.
    fleet.apply(&digest('2'), &json!({ "maxUnavailable": 1, "progressDeadlineSeconds": 10 }));
    assert!(eventually(|| phase(&fleet.cluster, "deadline") == "RolledBack"), "{}", controller.log());
    let (_, reason, message) = condition(&volume_plugin(&fleet.cluster, "deadline"), "RolledBack");
    assert!(reason == "ProgressDeadlineExceeded" && message.contains("10 s"), "{message}");
    fleet.run(1, None, "RolledBack");
    assert!(eventually(|| fleet.digests() == [digest('1')]));
}

/// Has the API server refuse every status of this VolumePlugin until it is dropped.
struct RefusedStatus<'a> {
    cluster: &'a Cluster,
    name: &'static str,
}

impl<'a> RefusedStatus<'a> {
    fn start(cluster: &'a Cluster, name: &'static str) -> Self {
        cluster.apply(&format!(
            "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{ name: {name} }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [volhost.io]
        apiVersions: [v1alpha1]
        resources: [volumeplugins/status]
        resourceNames: [{name}]
        operations: [UPDATE]
  validations: [{{ expression: 'false', message: no status for this one }}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{ name: {name} }}
spec: {{ policyName: {name}, validationActions: [Deny] }}
"
        ));
        Self { cluster, name }
    }

    /// Waits until it is in force: the API server compiles policies in the background.
    fn wait(&self) {
        let patch = [
            "patch",
            "volumeplugin",
            self.name,
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status":{"phase":"Tried"}}"#,
        ];
        let refuses = || self.cluster.try_kubectl(&patch).is_err_and(|error| error.contains("no status for this one"));
        assert!(eventually(refuses));
    }
}

impl Drop for RefusedStatus<'_> {
    fn drop(&mut self) {
        for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
            let _ = self.cluster.try_kubectl(&["delete", kind, self.name]);
        }
    }
}

#[test]
fn a_plugin_whose_status_is_refused_holds_up_no_other() {
    let fleet = Fleet::start("allowed", 2);
    let refused = "refused-status";
    let apply = |nodes: &str| {
        let object = json!({
            "apiVersion": "volhost.io/v1alpha1", "kind": "VolumePlugin", "metadata": { "name": refused },
            "spec": {
                "plugin": "example.com/refused", "image": "r.example/refused", "digest": digest('1'),
                "nodeSelector": { "fleet": nodes },
            },
        });
        fleet.cluster.apply(&object.to_string());
    };
    // Another test's controller may lead: it has no node for it until its status is refused.
    apply("none");
    let policy = RefusedStatus::start(&fleet.cluster, refused);
    policy.wait();
    apply("allowed");
    let controller = PluginController::start(&fleet.cluster, "rollout-refused");
    fleet.apply(&digest('1'), &json!({ "maxUnavailable": 1 }));
    fleet.run(1, None, "Ready");
    fleet.apply(&digest('2'), &json!({ "maxUnavailable": 1 }));
    fleet.run(1, None, "Ready");
    let names = || -> Vec<Value> {
        fleet
            .nodes()
            .into_values()
            .flat_map(|node| node["spec"]["plugins"].as_array().cloned().unwrap_or_default())
            .map(|plugin| plugin["name"].clone())
            .collect()
    };
    assert_eq!(names(), ["allowed", "allowed"], "{}", controller.log());

    // The API server takes it again.
    drop(policy);
    assert!(eventually(|| names().contains(&json!(refused))), "{:?}\n{}", names(), controller.log());
    fleet.cluster.kubectl(&["delete", "volumeplugin", refused, "--wait=false"]);
}
