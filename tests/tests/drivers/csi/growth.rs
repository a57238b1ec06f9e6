//! A driver is asked to grow a volume on the node when its PersistentVolume's capacity was raised,
//! and at no other time; and what its refusals mean.

use std::fs;

use volhost_tests::csi::CsiDriver;
use volhost_tests::manifests::pod;
use volhost_tests::wait::eventually;
use volhost_tests::{Node, artifacts};

use super::{NAME, assert_clean, claimed, object, volume};

/// So many publications of a volume that is published every half second take longer than the first
/// tries of an operation that fails.
const MANY: usize = 6;

/// A node that asks drivers to publish again every half second, and a driver that wants that and
/// can grow volumes.
fn start() -> (Node, CsiDriver) {
    let mut node = Node::builder().plugin(artifacts::plugin("csi")).build();
    let registry = node.folder().join(volhost_tests::csi::REGISTRY).display().to_string();
    node.add_arguments(&["--plugin-registry", &registry, "--refresh-period", "500ms"]);
    node.start();
    let driver = CsiDriver::start(&node, NAME, &["stage", "expand"]);
    node.manifest("driver.yaml", &object("{ requiresRepublish: true }"));
    node.manifest("pv.yaml", &volume("pv", "", "Filesystem"));
    (node, driver)
}

fn raise(node: &Node, size: &str) {
    node.manifest("pv.yaml", &volume("pv", "", "Filesystem").replace("storage: 32Mi", &format!("storage: {size}")));
}

fn add(node: &Node, name: &str) {
    node.manifest(&format!("{name}.yaml"), &pod(name, name, &[&claimed("pv")]));
    node.wait_mounted(&format!("default/{name}"));
}

fn remove(node: &Node, name: &str) {
    node.remove_manifest(&format!("{name}.yaml"));
    node.wait_unmounted(&format!("default/{name}"));
}

/// Waits until the volume was published so many times more.
fn wait_published(driver: &CsiDriver) {
    let before = driver.count("NodePublishVolume");
    assert!(eventually(|| driver.count("NodePublishVolume") >= before + MANY), "{:#?}", driver.calls());
}

/// The claim's size, as users see it; 0 until its manifest has been read.
fn shown(node: &Node) -> u64 {
    let claims: serde_json::Value = serde_json::from_str(&node.ok(&["get", "pvc", "-o", "json"])).unwrap();
    claims["items"][0]["status"]["capacity"].as_u64().unwrap_or_default()
}

/// Removes these pods, and looks that nothing is left.
fn end(node: &Node, pods: &[&str]) {
    for name in pods {
        remove(node, name);
    }
    node.ok(&["drain"]);
    assert_clean(node);
}

#[test]
fn a_volume_that_was_not_raised_is_never_grown() {
    let (mut node, driver) = start();
    add(&node, "a");
    wait_published(&driver);
    node.kill();
    node.start();
    wait_published(&driver);
    add(&node, "b");
    remove(&node, "a");
    remove(&node, "b");
    add(&node, "c");
    assert_eq!(driver.count("NodeExpandVolume"), 0, "{:#?}", driver.calls());
    end(&node, &["c"]);
}

#[test]
fn a_raised_volume_grows_once_and_shows_its_size_then() {
    let (mut node, driver) = start();
    add(&node, "a");
    driver.order("NodeExpandVolume answer 14");
    raise(&node, "64Mi");
    node.wait_event(&["VolumeResizeFailed", "default/a"]);
    assert_eq!(shown(&node), 32 << 20, "the node has not grown it yet");
    driver.order("");
    node.wait_event(&["FileSystemResizeSuccessful", "default/a"]);
    assert_eq!(shown(&node), 64 << 20);
    let grown = driver.count("NodeExpandVolume");
    wait_published(&driver);
    node.kill();
    node.start();
    wait_published(&driver);
    remove(&node, "a");
    add(&node, "b");
    assert_eq!(driver.count("NodeExpandVolume"), grown, "{:#?}", driver.calls());
    end(&node, &["b"]);
}

#[test]
fn a_volume_that_was_raised_while_no_pod_had_it_grows_when_it_is_mounted() {
    let (mut node, driver) = start();
    add(&node, "a");
    remove(&node, "a");
    raise(&node, "64Mi");
    node.kill();
    node.start();
    add(&node, "b");
    assert_eq!(driver.count("NodeExpandVolume"), 1, "before the pod counts as mounted");
    assert!(driver.last("NodeExpandVolume").contains("required_bytes: 67108864"));
    end(&node, &["b"]);
}

#[test]
fn a_volume_that_was_raised_while_another_node_had_it_grows_when_it_is_mounted_here() {
    let (mut node, driver) = start();
    let raised = volume("pv", "", "Filesystem").replace("storage: 32Mi", "storage: 64Mi");
    // As the cluster has it until a node has grown the file system.
    node.manifest("pv.yaml", &format!("{raised}status: {{ phase: Bound, capacity: {{ storage: 32Mi }} }}\n"));
    assert!(eventually(|| shown(&node) == 32 << 20), "no node has grown it yet");
    add(&node, "a");
    assert_eq!(driver.count("NodeExpandVolume"), 1, "before the pod counts as mounted");
    assert!(driver.last("NodeExpandVolume").contains("required_bytes: 67108864"));
    assert_eq!(shown(&node), 64 << 20);
    wait_published(&driver);
    node.kill();
    node.start();
    remove(&node, "a");
    add(&node, "b");
    assert_eq!(driver.count("NodeExpandVolume"), 1, "{:#?}", driver.calls());
    end(&node, &["b"]);
}

#[test]
fn a_growth_that_fails_keeps_no_pod_from_starting() {
    let (node, driver) = start();
    add(&node, "a");
    remove(&node, "a");
    raise(&node, "64Mi");
    driver.order("NodeExpandVolume answer 13");
    add(&node, "b");
    node.wait_event(&["VolumeResizeFailed", "default/b"]);
    driver.order("");
    node.wait_event(&["FileSystemResizeSuccessful", "default/b"]);
    end(&node, &["b"]);
}

#[test]
fn a_size_that_is_infeasible_is_asked_for_once() {
    let (mut node, driver) = start();
    add(&node, "a");
    driver.order("NodeExpandVolume answer 11");
    raise(&node, "64Mi");
    node.wait_event(&["VolumeResizeFailed", "default/a", "not tried again before spec.capacity.storage"]);
    wait_published(&driver);
    node.kill();
    node.start();
    add(&node, "b");
    wait_published(&driver);
    assert_eq!((driver.count("NodeExpandVolume"), shown(&node)), (1, 32 << 20));
    driver.order("");
    raise(&node, "48Mi");
    node.wait_event(&["FileSystemResizeSuccessful"]);
    assert_eq!((driver.count("NodeExpandVolume"), shown(&node)), (2, 48 << 20));
    end(&node, &["a", "b"]);
}

#[test]
fn a_volume_that_cannot_grow_in_use_grows_when_it_is_mounted_next() {
    let (node, driver) = start();
    add(&node, "a");
    driver.order("NodeExpandVolume answer 9");
    raise(&node, "64Mi");
    node.wait_event(&["VolumeResizeFailed", "default/a", "tried again when the volume is mounted for another pod"]);
    wait_published(&driver);
    assert_eq!(driver.count("NodeExpandVolume"), 1);
    remove(&node, "a");
    driver.order("");
    add(&node, "b");
    assert_eq!((driver.count("NodeExpandVolume"), shown(&node)), (2, 64 << 20));
    end(&node, &["b"]);
}

#[test]
fn a_read_only_pod_cannot_write_though_its_driver_lets_it() {
    let (node, driver) = start();
    driver.order("NodePublishVolume writable");
    let read_only = "name: data, persistentVolumeClaim: { claimName: pv-claim, readOnly: true }";
    node.manifest("a.yaml", &pod("a", "uid-a", &[read_only]));
    node.wait_mounted("default/a");
    assert!(driver.last("NodePublishVolume").contains("readonly: true"));
    let written = fs::write(node.volume("uid-a", "kubernetes.io~csi", "pv").join("file"), "x");
    assert_eq!(written.unwrap_err().kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    remove(&node, "a");
    end(&node, &[]);
}

#[test]
fn a_volume_is_detached_with_the_secret_that_it_was_attached_with() {
    let mut node = super::node();
    let driver = CsiDriver::start(&node, NAME, &["stage", "attach"]);
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: { name: login, namespace: store }\nstringData: { password: s3cret-word }\n";
    node.manifest("secret.yaml", secret);
    let reference = ", controllerPublishSecretRef: { name: login, namespace: store }";
    node.manifest("pv.yaml", &volume("pv", reference, "Filesystem"));
    add(&node, "a");
    node.kill();
    node.start();
    remove(&node, "a");
    assert!(eventually(|| driver.count("ControllerUnpublishVolume") > 0));
    for call in ["ControllerPublishVolume", "ControllerUnpublishVolume"] {
        assert!(driver.last(call).contains("\"password\": \"s3cret-word\""), "{}", driver.last(call));
    }
    assert!(!node.log().contains("s3cret-word"), "{}", node.log());
    end(&node, &[]);
}
