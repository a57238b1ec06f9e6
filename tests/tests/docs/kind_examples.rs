//! The examples of kinds of volume that need something of the node are run as they are: their pods
//! get every volume.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;

use volhost_tests::artifacts::{plugin, workspace};
use volhost_tests::disks::Disk;
use volhost_tests::{Node, NodeBuilder};

/// Nothing of the machine's own /srv is seen or changed.
const SRV: &str = "mount -t tmpfs srv /srv";

/// Puts every manifest of `examples/KIND` in place, and waits for its pods.
fn run(node: &Node, kind: &str, pods: &[&str]) {
    for entry in fs::read_dir(workspace().join("examples").join(kind)).unwrap() {
        let path = entry.unwrap().path();
        node.manifest(path.file_name().unwrap().to_str().unwrap(), &fs::read_to_string(&path).unwrap());
    }
    for pod in pods {
        node.wait_mounted(&format!("default/{pod}"));
    }
    node.ok(&["drain"]);
    assert!(node.pod_mounts().is_empty());
}

fn demo_node() -> NodeBuilder {
    Node::builder().arguments(&["--node-label", "kubernetes.io/hostname=demo-node"])
}

#[test]
fn empty_dir() {
    run(&demo_node().start(), "empty-dir", &["scratch"]);
}

#[test]
fn tmpfs() {
    run(&demo_node().plugin(plugin("tmpfs")).start(), "tmpfs", &["cache-writer", "cache-reader"]);
}

#[test]
fn host_path() {
    let things = format!("{SRV}; mkdir /srv/agent; touch /srv/agent/settings.conf; mknod /srv/agent/disk b 7 0");
    let mut node = demo_node().prepare(&things).build();
    let _socket = UnixListener::bind(node.path(Path::new("/srv/agent/engine.sock"))).unwrap();
    node.start();
    run(&node, "host-path", &["agent"]);
}

#[test]
fn local() {
    let images = tempfile::tempdir().unwrap();
    let disks = ["fast", "raw"].map(|name| Disk::blank(&images.path().join(name), 64 << 20));
    let links = format!(
        "{SRV}; mkdir -p /srv/disks/shared; ln -s {} /srv/disks/fast; ln -s {} /srv/disks/raw",
        disks[0].device.display(),
        disks[1].device.display()
    );
    run(&demo_node().prepare(&links).start(), "local", &["database", "report"]);
}
