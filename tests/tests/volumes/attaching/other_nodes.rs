//! Volumes that another node has, and what is concluded of attachments while not every manifest
//! could be read.

use std::fs;

use volhost_tests::manifests::{loop_volume, pod};
use volhost_tests::{Node, artifacts};

use crate::attaching::{LoopDevices, claimed, losetup, volume_attachment};

const LYING: &str = "[grants.\"fixture.volhost/lying-devices\"]\nloop-files = [\"$NODE/disk\"]\n";

/// A volume of the fixture over the image `held`, in the manifest folder.
fn held(node: &Node, volume: &str, name: &str) {
    let text = loop_volume(volume, "x", "ext4", "32Mi", "").replace(
        "csi: { driver: loop.volhost.io, volumeHandle: x, fsType: ext4 }",
        &format!("lyingDevices: {{ name: \"{name}\", image: held }}"),
    );
    node.manifest(&format!("{volume}.yaml"), &text);
}

/// Lets another node have the image `held`; by which loop device.
fn give_to_node_b(node: &Node) -> String {
    let image = node.folder().join("disk/held@node-b");
    fs::File::create(&image).unwrap().set_len(1 << 20).unwrap();
    losetup(&["-f", "--show", &image.display().to_string()])
}

#[test]
fn a_volume_that_another_node_has_names_that_node_and_comes_once_it_has_let_go() {
    let node = Node::builder().plugin(artifacts::fixture("fixture-lying-devices")).config(LYING).start();
    let devices = LoopDevices(node.folder().to_owned());
    let theirs = give_to_node_b(&node);
    held(&node, "pv", "held");
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_event(&[
        "FailedAttachVolume",
        "default/a",
        "Multi-Attach error for volume \"pv\"",
        "node node-b has it",
        "nodes-out-of-service",
    ]);
    let described = node.ok(&["describe", "pod", "a"]);
    assert!(described.contains("node node-b, or may be"), "{described}");
    assert_eq!(devices.all(), [theirs.as_str()], "nothing is detached from a node that may use it");
    losetup(&["-d", &theirs]);
    node.wait_mounted("default/a");
    let described = node.ok(&["describe", "pod", "a"]);
    assert!(described.contains("the host, as /dev/loop") && !described.contains("or may be"), "{described}");
    node.remove_manifest("a.yaml");
    node.ok(&["drain"]);
    assert!(devices.all().is_empty());
}

#[test]
fn a_volume_is_detached_from_a_node_that_is_out_of_service_and_a_plugin_that_lies_about_it_is_detected() {
    let config = format!("nodes-out-of-service = [\"node-b\"]\n{LYING}");
    let node = Node::builder().plugin(artifacts::fixture("fixture-lying-devices")).config(&config).start();
    let devices = LoopDevices(node.folder().to_owned());
    let theirs = give_to_node_b(&node);
    held(&node, "liar", "detach-from:lie:held");
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("liar")]));
    node.wait_event(&[
        "FailedAttachVolume",
        "default/a",
        "AttachVolume.DetachFromNode",
        "node node-b has the volume, and is out of service",
        "it still finds the volume attached to node node-b",
    ]);
    assert_eq!(devices.all(), [theirs.as_str()]);
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    held(&node, "pv", "held");
    node.manifest("b.yaml", &pod("b", "uid-b", &[&claimed("pv")]));
    node.wait_event(&[
        "DetachedFromNode",
        "lying-devices/held",
        "was detached from node node-b, which is out of service",
    ]);
    node.wait_mounted("default/b");
    let image = node.folder().join("disk/held");
    assert_eq!(losetup(&["-n", "-O", "NAME", "-j", &image.display().to_string()]), devices.all().join("\n"));
    node.remove_manifest("b.yaml");
    node.ok(&["drain"]);
    assert!(devices.all().is_empty());
}

#[test]
fn where_a_controller_attaches_the_node_that_still_has_the_volume_is_named() {
    let node = Node::builder()
        .plugin(artifacts::fixture("fixture-lying-devices"))
        .config(LYING)
        .arguments(&["--controller-attaches"])
        .start();
    held(&node, "pv", "held");
    let theirs = volume_attachment("pv", "fixture.volhost/lying-devices", "attached: true")
        .replace("name: va-pv", "name: va-b")
        .replace("test-node", "node-b");
    node.manifest("va-b.yaml", &theirs);
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    let name = "fixture.volhost/lying-devices/held";
    node.wait_blocked("a", &["reports the volume as in use"]);
    // The controller has seen that it is in use.
    node.ok(&["attachments", "set"]);
    node.wait_event(&["FailedAttachVolume", "default/a", "node node-b has it still (VolumeAttachment va-b)"]);
    assert!(node.ok(&["attachments", "list"]).contains(name));
}

#[test]
fn a_restart_that_cannot_read_every_manifest_takes_no_absence_for_word() {
    let mut node = Node::builder()
        .plugin(artifacts::fixture("fixture-lying-devices"))
        .config(LYING)
        .arguments(&["--controller-attaches"])
        .start();
    let devices = LoopDevices(node.folder().to_owned());
    let image = node.folder().join("disk/held");
    fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let device = losetup(&["-f", "--show", &image.display().to_string()]);
    let word = volume_attachment("pv", "fixture.volhost/lying-devices", "attached: true");
    held(&node, "pv", "held");
    node.manifest("va.yaml", &word);
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_mounted("default/a");
    node.kill();
    node.manifest("va.yaml", "kind: [");
    node.start();
    node.wait_event(&["InvalidManifest", "va.yaml"]);
    // Who speaks over the API knows nothing of the volume.
    node.ok(&["attachments", "set"]);
    node.wait_mounted("default/a");
    node.manifest("va.yaml", &word);
    node.wait_event(&["ManifestMended", "va.yaml"]);
    let described = node.ok(&["describe", "pod", "a"]);
    assert!(described.contains("the controller, as va-pv"), "{described}");
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    node.ok(&["drain"]);
    assert_eq!(devices.all(), [device]);
}
