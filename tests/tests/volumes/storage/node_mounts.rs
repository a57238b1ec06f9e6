//! A staging mount that another process unmounts, or that cannot be unmounted: an event reports it,
//! the host mounts it again, no pod gets the folder below, and only an operator ends a wait by
//! force.

use std::fs;
use std::path::PathBuf;

use volhost_tests::loop_devices::LoopDevices;
use volhost_tests::manifests::{loop_volume, pod};
use volhost_tests::wait::eventually;
use volhost_tests::{Node, artifacts};

use crate::storage::squatter::Squatter;

const LOOP: &str = "volhost.io~loop";
const CLAIMED: &str = "name: data, persistentVolumeClaim: { claimName: pv-claim }";

/// A node with a pod that has a volume in an image file.
fn site() -> (Node, LoopDevices) {
    let node = Node::builder()
        .plugin(artifacts::plugin("loop"))
        .config("[grants.\"volhost.io/loop\"]\ninterfaces = [\"id-maps\"]\nloop-files = [\"$NODE/disk\"]\n")
        .start();
    let devices = LoopDevices::below(node.folder());
    node.manifest("pv.yaml", &loop_volume("pv", "data.img", "ext4", "32Mi", ""));
    node.manifest("a.yaml", &pod("a", "uid-a", &[CLAIMED]));
    node.wait_mounted("default/a");
    fs::write(node.volume("uid-a", LOOP, "pv").join("file"), "of the volume").unwrap();
    (node, devices)
}

/// Returns the staging mount, if it is mounted.
fn nodes_mount(node: &Node) -> Option<PathBuf> {
    node.all_mounts().into_iter().map(|mount| mount.point).find(|point| point.ends_with("globalmount"))
}

fn unmount(node: &Node, place: &PathBuf) {
    assert!(node.inside("umount").arg(place).status().unwrap().success());
}

#[test]
fn a_staging_mount_that_vanishes_is_reported_and_mounted_again_while_its_pod_keeps_the_volume() {
    let (node, _devices) = site();
    let place = nodes_mount(&node).unwrap();
    let before = node.pod_mounts();
    unmount(&node, &place);
    node.wait_event(&["VolumeVanished", "default/a", "the staging mount of volume \"pv\" is gone"]);
    assert!(eventually(|| nodes_mount(&node).as_ref() == Some(&place)), "{}", node.log());
    assert_eq!(node.pod_mounts().len(), before.len(), "what the pod has stays");
    // Both are of one file system.
    fs::write(node.volume("uid-a", LOOP, "pv").join("file"), "written after").unwrap();
    node.manifest("b.yaml", &pod("b", "uid-b", &[CLAIMED]));
    node.wait_mounted("default/b");
    assert_eq!(fs::read_to_string(node.volume("uid-b", LOOP, "pv").join("file")).unwrap(), "written after");
    node.ok(&["drain"]);
    // A mount that volhost unmounts itself has not vanished.
    assert_eq!(node.ok(&["events"]).lines().filter(|line| line.contains("VolumeVanished")).count(), 1);
}

#[test]
fn no_pod_gets_the_folder_below_the_nodes_own_mount() {
    let (node, _devices) = site();
    let place = nodes_mount(&node).unwrap();
    // So that something can be written there, and a pod be wanted, before volhost sees it.
    node.poke("-STOP");
    unmount(&node, &place);
    let below = node.path(&place);
    fs::write(below.join("stray"), "in the folder below").unwrap();
    node.manifest("b.yaml", &pod("b", "uid-b", &[CLAIMED]));
    node.poke("-CONT");
    node.wait_event(&["FailedMount", "default/b", "MountDevice"]);
    let of_b = node.volume("uid-b", LOOP, "pv");
    assert!(!of_b.join("stray").exists() && !of_b.join("file").exists(), "the pod has nothing yet");
    assert_eq!(fs::read_to_string(below.join("stray")).unwrap(), "in the folder below", "and it is kept");
    fs::remove_file(below.join("stray")).unwrap();
    node.wait_mounted("default/b");
    assert_eq!(fs::read_to_string(of_b.join("file")).unwrap(), "of the volume");
    node.ok(&["drain"]);
}

#[test]
fn the_nodes_own_mount_that_cannot_be_unmounted_is_forced_only_by_hand() {
    let (node, devices) = site();
    let place = nodes_mount(&node).unwrap();
    let refused = node.fails(&["force-unmount", "--of-node", "pv"]);
    assert!(refused.contains("remove them first"), "{refused}");
    let squatter = Squatter::in_folder(&node, &place);
    node.remove_manifest("a.yaml");
    node.wait_event(&["FailedUnmountDevice", "pv"]);
    assert_eq!(nodes_mount(&node), Some(place));
    let done = node.ok(&["force-unmount", "--of-node", "pv"]);
    assert!(done.contains("is detached"), "{done}");
    node.wait_event(&["ForcedUnmount", "volhost.io/loop/", "the staging mount of volume \"pv\""]);
    assert_eq!(nodes_mount(&node), None);
    // A process that still uses the file system keeps the device, which is not detached.
    node.wait_event(&["FailedUnmountDevice", "is in use when it was no longer expected to be"]);
    assert_eq!(devices.all().len(), 1);
    drop(squatter);
    assert!(eventually(|| devices.all().is_empty()), "{}", node.log());
}
