//! `volhost run --kubernetes`: the daemon and the agent beside it, as one.

use std::fs;
use std::process::Command;

use volhost_tests::cluster::{IMAGE, NODE};
use volhost_tests::wait::eventually;

use crate::agent_node::{AgentNode, config_map};
use crate::kit::{Driver, MIB};

/// The process ids of the agents that the daemon has started, by its log.
fn agents(node: &AgentNode) -> Vec<u32> {
    let log = node.node.log();
    let started = log.lines().filter(|line| line.contains("the node agent is started"));
    started.filter_map(|line| line.split_once("pid=")?.1.split_whitespace().next()?.parse().ok()).collect()
}

/// Whether a process of this id runs, and has not become a zombie.
fn runs(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z') && !line.contains('X'))
}

fn kill(pid: u32) {
    assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
}

fn status_line(pid: u32, field: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_start_matches(':').trim().to_owned()
}

#[test]
fn one_command_runs_daemon_and_agent_and_ends_both() {
    let mut node = AgentNode::start_as_one("agent-one", &[]);
    node.cluster.apply(&config_map("agent-one", "before"));
    let uid = node.pod("agent-one", "[{ name: vmap, configMap: { name: agent-one } }]");
    let text = node.file(&uid, "kubernetes.io~configmap", "vmap/text");
    node.assert_content(&text, "before");
    let first = agents(&node)[0];
    assert_eq!(status_line(first, "CapEff"), "0000000000000000", "the agent has none of root's rights");
    assert_eq!(status_line(first, "NoNewPrivs"), "1");

    // The agent dies: that is said, and another one goes on.
    kill(first);
    node.cluster.apply(&config_map("agent-one", "after"));
    node.assert_content(&text, "after");
    assert!(node.node.log().contains("the node agent has ended (signal: 9 (SIGKILL))"), "{}", node.node.log());
    let second = *agents(&node).last().unwrap();
    assert_ne!(first, second);

    // The daemon dies: the agent does with it, and the next daemon has one of its own.
    node.node.kill();
    assert!(eventually(|| !runs(second)), "the agent goes with its daemon");
    node.node.start();
    node.cluster.apply(&config_map("agent-one", "again"));
    node.assert_content(&text, "again");

    // The daemon is to end: the agent ends first, and the volumes stay.
    let third = *agents(&node).last().unwrap();
    let mounted = node.node.pod_mounts().len();
    assert!(node.node.terminate().success());
    assert!(!runs(third));
    let log = node.node.log();
    let at = |words: &str| log.rfind(words).unwrap_or_else(|| panic!("{words}: {log}"));
    assert!(at("volhost stops; mounts stay") < at("the node agent has ended"), "{log}");
    assert_eq!(node.node.pod_mounts().len(), mounted);
    node.node.start();
    node.delete_pod("agent-one");
    node.assert_unmounted();
    node.assert_permitted();
}

#[test]
fn pods_outside_of_the_scope_are_left_alone_and_one_that_leaves_it_keeps_its_volumes() {
    let node = AgentNode::start_as_one("agent-scope", &["--scope", "label:volumes=volhost"]);
    node.cluster.apply(&config_map("agent-scope", "here"));
    let volumes = "[{ name: vmap, configMap: { name: agent-scope } }]";
    let (ours, theirs) = (node.pod("scope-ours", volumes), node.pod("scope-theirs", volumes));
    let text = |uid: &str| node.file(uid, "kubernetes.io~configmap", "vmap/text");
    node.cluster.kubectl(&["label", "pod", "scope-ours", "volumes=volhost"]);
    node.assert_content(&text(&ours), "here");
    node.cluster.kubectl(&["label", "pod", "scope-ours", "volumes-"]);
    // What is written after the label went shows that the agent has seen it go.
    node.cluster.kubectl(&["annotate", "pod", "scope-ours", "seen=yes"]);
    let shown = || node.node.ok(&["get", "pod", "default/scope-ours", "-o", "yaml"]);
    node.cluster.apply(&config_map("agent-scope", "changed"));
    node.assert_content(&text(&ours), "changed");
    assert!(!text(&theirs).exists() && shown().contains("scope-ours"), "{}", node.node.log());
    let known = node.node.ok(&["get", "pods", "-A", "-o", "name"]);
    assert!(!known.contains("scope-theirs"), "{known}");
    let in_use = node.cluster.kubectl(&["get", "node", "agent-scope", "-o", "jsonpath={.status.volumesInUse}"]);
    assert_eq!(in_use, "", "the field is the kubelet's");
    for pod in ["scope-ours", "scope-theirs"] {
        node.delete_pod(pod);
    }
    node.assert_unmounted();
    node.assert_permitted();
}

#[test]
fn beside_a_kubelet_each_has_its_own_pods_and_leaves_the_others_alone() {
    let driver = Driver::start("beside", &[]);
    let cluster = &driver.cluster;
    driver.image("beside-a", 16 * MIB);
    driver.volume("beside-a", "");
    driver.pod("beside-theirs", "beside-a", "volumeMounts: [{ name: data, mountPath: /data }]", "");
    cluster.kubectl(&["exec", "beside-theirs", "--", "sh", "-c", "echo kept >/data/file"]);
    let theirs = cluster.kubectl(&["get", "pod", "beside-theirs", "-o", "jsonpath={.metadata.uid}"]);
    let mounts = || cluster.node().mount_ids_below(&cluster.kubelet().join("pods").join(&theirs));
    let before = mounts();
    assert!(!before.is_empty());

    let mut node = AgentNode::start_beside_kubelet(&["--scope", "runtime-class:beside"]);
    cluster.apply(&config_map("beside", "here"));
    // No runtime of the kubelet's serves it: what runs the pod is somebody else's affair.
    cluster.apply(&format!(
        "apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {{ name: beside }}
handler: not-the-kubelets
---
apiVersion: v1
kind: Pod
metadata: {{ name: beside-ours }}
spec:
  nodeName: {NODE}
  runtimeClassName: beside
  terminationGracePeriodSeconds: 0
  containers: [{{ name: main, image: {IMAGE}, volumeMounts: [{{ name: vmap, mountPath: /map }}] }}]
  volumes: [{{ name: vmap, configMap: {{ name: beside }} }}]
"
    ));
    let ours = cluster.kubectl(&["get", "pod", "beside-ours", "-o", "jsonpath={.metadata.uid}"]);
    let text = node.file(&ours, "kubernetes.io~configmap", "vmap/text");
    node.assert_content(&text, "here");
    let known = node.node.ok(&["get", "pods", "-A", "-o", "name"]);
    assert!(known.contains("beside-ours") && !known.contains("beside-theirs"), "{known}");

    // The daemon dies and comes back, and the other way round the kubelet.
    node.node.kill();
    node.node.start();
    cluster.apply(&config_map("beside", "changed"));
    node.assert_content(&text, "changed");
    let registered = cluster.kubectl(&["get", "csinode", NODE, "-o", "jsonpath={.spec.drivers[*].name}"]);
    assert!(registered.split_whitespace().any(|name| name == "beside.test"), "{registered}");
    assert_eq!(mounts(), before, "the kubelet's mounts are as they were");
    assert_eq!(cluster.kubectl(&["exec", "beside-theirs", "--", "cat", "/data/file"]).trim(), "kept");

    node.delete_pod("beside-ours");
    node.assert_unmounted();
    assert_eq!(mounts(), before, "the kubelet's mounts are as they were");
    node.assert_permitted();
    drop(node);
    cluster.kubectl(&["delete", "pod", "beside-theirs", "--timeout=180s"]);
    cluster.kubectl(&["delete", "runtimeclass", "beside"]);
    driver.assert_gone(&["beside-a"]);
}
