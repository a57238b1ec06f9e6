//! `volhost plan` and `volhost drain --dry-run`.

use serde_json::Value;
use volhost_tests::loop_devices::LoopDevices;
use volhost_tests::manifests::{loop_volume, pod};
use volhost_tests::{Node, artifacts};

use super::file;

fn plan(node: &Node, file: &str) -> Value {
    serde_json::from_str(&node.ok(&["plan", "-f", file, "-o", "json"])).unwrap()
}

/// The operations with their rounds.
fn operations(plan: &Value) -> Vec<String> {
    let all = plan["operations"].as_array().unwrap().iter();
    let line = |one: &Value| {
        let text = |field: &str| one[field].as_str().unwrap().to_owned();
        format!("{} {} {} {}", one["round"], text("operation"), text("specName"), text("pod"))
    };
    all.map(line).collect()
}

#[test]
fn a_plan_has_what_apply_then_does_and_does_nothing_itself() {
    let grants = "[grants.\"volhost.io/loop\"]\ninterfaces = [\"id-maps\"]\nloop-files = [\"$NODE/disk\"]\n";
    let node = Node::builder().config(grants).plugin(artifacts::plugin("loop")).start();
    let _devices = LoopDevices::below(node.folder());
    let volume = loop_volume("disk1", "disk1.img", "ext4", "32Mi", "");
    let volumes = ["name: scratch, emptyDir: {}", "name: data, persistentVolumeClaim: { claimName: disk1-claim }"];
    let path = file(&node, "web.yaml", &format!("{volume}---\n{}", pod("web", "uid-web", &volumes)));
    let planned = plan(&node, &path);
    assert_eq!(
        operations(&planned),
        ["1 volume_mount scratch default/web", "1 volume_attach disk1 ", "2 volume_mount disk1 default/web"],
        "{planned}"
    );
    assert_eq!(planned["pods"][0]["phase"], "Mounted");
    assert_eq!(planned["waiting"], serde_json::json!([]));
    assert!(node.pod_mounts().is_empty(), "nothing is executed");
    assert!(!node.ok(&["get", "pods"]).contains("web"), "nothing is added");

    node.ok(&["apply", "-f", &path, "--wait"]);
    let unchanged = node.ok(&["plan", "-f", &path]);
    assert!(unchanged.starts_with("nothing would be mounted or unmounted\n"), "{unchanged}");

    // Another pod in its place.
    let other = file(&node, "other.yaml", &pod("web", "uid-web-2", &["name: scratch, emptyDir: {}"]));
    let text = node.ok(&["plan", "-f", &other]);
    assert!(text.contains("volume_unmount: volume disk1 of pod default/web"), "{text}");
    assert!(text.contains("unmount_device: volume ") && text.contains("volume_detach: volume "), "{text}");

    // A drain is planned likewise.
    let mounts = node.pod_mounts();
    let drained = node.ok(&["drain", "--dry-run"]);
    let places = ["volume_unmount: volume disk1", "unmount_device: ", "volume_detach: "].map(|what| drained.find(what));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{drained}");
    assert!(drained.contains("pod default/web: nothing of it is left"), "{drained}");
    assert_eq!(node.pod_mounts(), mounts, "nothing is unmounted");
    assert!(node.ok(&["get", "pods"]).contains("Mounted"));
}

#[test]
fn a_plan_says_what_would_wait_and_why() {
    let node = Node::start_default();
    let volumes = ["name: scratch, emptyDir: {}", "name: data, persistentVolumeClaim: { claimName: missing }"];
    let path = file(&node, "web.yaml", &pod("web", "uid-web", &volumes));
    let text = node.ok(&["plan", "-f", &path]);
    assert!(text.contains("pod default/web: Mounting, 1 of 2 volumes ready"), "{text}");
    assert!(text.contains("waiting:\n   volume data of pod default/web: Unresolved: "), "{text}");
    assert!(text.contains("missing"), "{text}");
    // A volume that fails goes on waiting for its next try.
    let failing = ["name: gone, hostPath: { path: /no/such/folder, type: Directory }"];
    node.manifest("failing.yaml", &pod("failing", "uid-failing", &failing));
    node.wait_event(&["FailedMount", "default/failing"]);
    let drained = node.ok(&["drain", "--dry-run"]);
    assert!(drained.contains("nothing would be mounted or unmounted"), "{drained}");
}

#[test]
fn a_file_that_apply_would_refuse_is_refused_with_its_name() {
    let node = Node::start_default();
    let good = file(&node, "good.yaml", &pod("web", "uid-web", &["name: scratch, emptyDir: {}"]));
    let bad = file(&node, "bad.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: a }\ndate: { b: c }\n");
    let said = node.fails(&["plan", "-f", &good, "-f", &bad]);
    assert!(said.contains("bad.yaml") && said.contains("date"), "{said}");
    let both = file(&node, "b.yaml", &pod("db", "uid-db", &["name: scratch, emptyDir: {}"]));
    let planned = plan_of(&node, &[&good, &both]);
    assert_eq!(operations(&planned).len(), 2, "{planned}");
}

fn plan_of(node: &Node, files: &[&str]) -> Value {
    let files: Vec<&str> = files.iter().flat_map(|file| ["-f", file]).collect();
    serde_json::from_str(&node.ok(&[&["plan", "-o", "json"], files.as_slice()].concat())).unwrap()
}
