//! SELinux labels, from the manifest to the mount, on a node whose kernel has no SELinux: no label
//! is set, and an event says so. `tests/tests/hostile/capabilities.rs` tests on the in-memory
//! kernel that a label reaches the kernel.

use std::path::Path;

use volhost_tests::loop_devices::LoopDevices;
use volhost_tests::manifests::{loop_volume, pod};
use volhost_tests::{Node, artifacts};

fn labelled(name: &str, uid: &str, level: &str, claim: &str) -> String {
    let volume = format!("name: data, persistentVolumeClaim: {{ claimName: {claim}-claim }}");
    let security = format!("spec:\n  securityContext:\n    seLinuxOptions: {{ level: '{level}' }}\n");
    pod(name, uid, &[&volume]).replacen("spec:\n", &security, 1)
}

#[test]
fn a_node_without_selinux_mounts_without_labels_and_says_so_once() {
    assert!(!Path::new("/sys/fs/selinux/enforce").exists(), "this machine has SELinux; labels would be passed on");
    let node = Node::builder()
        .plugin(artifacts::plugin("loop"))
        .config("[grants.\"volhost.io/loop\"]\nloop-files = [\"$NODE/disk\"]\ninterfaces = [\"id-maps\"]\n")
        .start();
    let _devices = LoopDevices::below(node.folder());
    let shared = loop_volume("pv", "x.img", "ext4", "32Mi", "").replace("ReadWriteOnce", "ReadWriteMany");
    node.manifest("pv.yaml", &shared);
    node.manifest("a.yaml", &labelled("a", "uid-a", "s0:c1,c2", "pv"));
    node.manifest("b.yaml", &labelled("b", "uid-b", "s0:c3,c4", "pv"));
    node.wait_mounted("default/a");
    node.wait_mounted("default/b");
    let events = node.ok(&["events"]);
    assert_eq!(events.lines().filter(|line| line.contains("NoSELinux")).count(), 1, "{events}");
    let described = node.ok(&["describe", "pod", "a"]);
    assert!(!described.contains("SELinux label"), "{described}");
    node.ok(&["drain"]);
}

#[test]
fn a_label_that_could_become_an_option_of_its_own_is_refused_with_the_field() {
    let node = Node::start_default();
    node.manifest("a.yaml", &labelled("a", "uid-a", "s0\",bind=\"x", "pv"));
    node.wait_event(&[
        "InvalidManifest",
        "a.yaml",
        "spec.securityContext.seLinuxOptions.level",
        "is no part of an SELinux label",
    ]);
    let policy = pod("b", "uid-b", &["name: data, emptyDir: {}"]).replacen(
        "spec:\n",
        "spec:\n  securityContext: { seLinuxChangePolicy: Always }\n",
        1,
    );
    node.manifest("b.yaml", &policy);
    node.wait_event(&[
        "InvalidManifest",
        "b.yaml",
        "spec.securityContext.seLinuxChangePolicy",
        "MountOption and Recursive",
    ]);
}
