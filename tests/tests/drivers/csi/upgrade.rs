//! A driver that is replaced by another version while its volumes are staged and published: the new
//! one takes them back, whatever it can do more or less than the old one.

use std::fs;

use volhost_tests::Node;
use volhost_tests::csi::CsiDriver;
use volhost_tests::manifests::pod;
use volhost_tests::wait::eventually;

use super::{NAME, assert_clean, claimed, node, volume};

/// A volume of the old version in a pod; and the new version in its place. The old one's sockets
/// go, the new one has others.
fn upgraded(old: &[&str], new: &[&str]) -> (Node, CsiDriver, CsiDriver) {
    let node = node();
    let mut before = CsiDriver::start(&node, NAME, old);
    node.manifest("pv.yaml", &volume("pv", "", "Filesystem"));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_mounted("default/a");
    before.kill();
    fs::remove_file(before.registration()).unwrap();
    let after = CsiDriver::start_version(&node, NAME, "9.0.0", new);
    let shown = || node.ok(&["get", "drivers", "-o", "wide"]);
    assert!(eventually(|| shown().contains("9.0.0")), "{}", shown());
    assert_eq!(node.pod_mounts().len(), 1, "the pod's mount stays");
    (node, before, after)
}

fn end(node: &Node) {
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    node.ok(&["drain"]);
    assert_clean(node);
}

#[test]
fn the_new_version_unpublishes_and_unstages_what_the_old_one_has_staged() {
    let (node, before, after) = upgraded(&["stage", "mounts", "attach"], &["stage", "mounts", "attach"]);
    end(&node);
    for call in ["NodeUnpublishVolume", "NodeUnstageVolume", "ControllerUnpublishVolume"] {
        assert_eq!((before.count(call), after.count(call)), (0, 1), "{call}");
    }
    assert!(after.last("NodeUnstageVolume").contains("globalmount"), "{}", after.last("NodeUnstageVolume"));
}

#[test]
fn volumes_that_the_old_version_staged_are_unstaged_though_the_new_one_does_not_stage() {
    let (node, _before, after) = upgraded(&["stage", "mounts"], &[]);
    end(&node);
    assert_eq!((after.count("NodeUnpublishVolume"), after.count("NodeUnstageVolume")), (1, 0));
    assert!(node.log().contains("has left a mount"), "{}", node.log());
}

#[test]
fn a_version_that_stages_unstages_what_was_never_staged() {
    let (node, _before, after) = upgraded(&[], &["stage", "mounts"]);
    // A second pod stages it after all, and the first one's mount is not touched by that.
    node.manifest("b.yaml", &pod("b", "uid-b", &[&claimed("pv")]));
    node.wait_mounted("default/b");
    node.remove_manifest("b.yaml");
    node.wait_unmounted("default/b");
    end(&node);
    assert_eq!((after.count("NodeUnpublishVolume"), after.count("NodeUnstageVolume")), (2, 1));
}

#[test]
fn what_the_new_version_can_do_more_is_used_for_old_volumes() {
    let (node, before, after) = upgraded(&["stage"], &["stage", "expand"]);
    let larger = volume("pv", "", "Filesystem").replace("storage: 32Mi", "storage: 64Mi");
    node.manifest("pv.yaml", &larger);
    node.wait_event(&["FileSystemResizeSuccessful", "default/a"]);
    assert_eq!((before.count("NodeExpandVolume"), after.count("NodeExpandVolume")), (0, 1));
    end(&node);
}

#[test]
fn a_higher_version_takes_over_while_the_older_one_still_runs() {
    let node = node();
    let mut before = CsiDriver::start(&node, NAME, &["stage"]);
    node.manifest("pv.yaml", &volume("pv", "", "Filesystem"));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_mounted("default/a");
    let folder = node.folder().join("disk").join(format!("{NAME}-9.0.0"));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("versions"), "1.1.0").unwrap();
    let after = CsiDriver::start_version(&node, NAME, "9.0.0", &["stage"]);
    let shown = || node.ok(&["get", "drivers", "-o", "wide"]);
    assert!(eventually(|| shown().contains("9.0.0")), "{}", shown());
    // The older one's end is not the newer one's.
    before.kill();
    fs::remove_file(before.registration()).unwrap();
    end(&node);
    assert_eq!((before.count("NodeUnpublishVolume"), after.count("NodeUnpublishVolume")), (0, 1));
    assert!(shown().contains("9.0.0"), "{}", shown());
}
