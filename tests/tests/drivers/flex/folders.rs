//! Drivers that put files into the folder instead of mounting there, as the kubelet lets them.

use std::fs;

use volhost_tests::wait::eventually;

use super::kit::Flex;

const FILLS: &str = "echo from-the-driver >\"$2/file\"; answer Success";
const EMPTIES: &str = "rm -f \"$2/file\"; answer Success";

#[test]
fn a_driver_may_fill_the_folder_without_mounting() {
    let mut flex = Flex::doing(&[("mount", FILLS), ("unmount", EMPTIES)]);
    flex.pod("");
    flex.wait_mounted();
    assert_eq!(flex.node.pod_mounts(), []);
    assert_eq!(fs::read_to_string(flex.volume("data").join("file")).unwrap(), "from-the-driver\n");
    flex.node.kill();
    flex.node.start();
    flex.wait_mounted();
    assert_eq!(fs::read_to_string(flex.volume("data").join("file")).unwrap(), "from-the-driver\n");
    let folder = flex.volume("data");
    flex.remove_pod();
    assert!(!folder.exists());
    assert!(flex.count("unmount") >= 1);
    flex.assert_nothing_left();
}

#[test]
fn a_read_only_volume_that_a_driver_fills_without_mounting_is_refused_and_taken_back() {
    let flex = Flex::doing(&[("mount", FILLS), ("unmount", EMPTIES)]);
    flex.pod("readOnly: true");
    flex.node.wait_event(&["FailedMount", "the volume is read-only", "a plain folder cannot be made so"]);
    flex.node.remove_manifest("pod.yaml");
    flex.node.wait_unmounted("default/web");
    assert!(flex.count("unmount") >= 1);
    flex.assert_nothing_left();
}

#[test]
fn what_a_driver_leaves_in_its_folder_is_never_deleted() {
    let flex = Flex::doing(&[("mount", FILLS), ("unmount", "answer Success")]);
    flex.pod("");
    flex.wait_mounted();
    flex.node.remove_manifest("pod.yaml");
    flex.node.wait_event(&["left files in its folder"]);
    assert!(flex.volume("data").join("file").exists());
    flex.does("unmount", EMPTIES);
    assert!(eventually(|| !flex.volume("data").exists()), "{}", flex.node.log());
}

#[test]
fn a_driver_may_fill_the_nodes_folder_without_mounting() {
    let flex = Flex::doing(&[
        ("init", "answer Success"),
        ("mountdevice", FILLS),
        ("unmountdevice", EMPTIES),
        ("mount", FILLS),
        ("unmount", EMPTIES),
    ]);
    flex.claimed("");
    flex.wait_mounted();
    let second = super::kit::pod("      persistentVolumeClaim: { claimName: data }\n");
    flex.node.manifest("second.yaml", &second.replace("name: web, uid: uid-1", "name: second, uid: uid-2"));
    flex.node.wait_mounted("default/second");
    assert_eq!(flex.count("mountdevice"), 1, "the node's folder is filled once");
    flex.node.remove_manifest("second.yaml");
    flex.node.wait_unmounted("default/second");
    assert_eq!(fs::read_to_string(flex.volume("lun-1").join("file")).unwrap(), "from-the-driver\n");
    flex.remove_pod();
    assert!(eventually(|| flex.count("detach") == 1), "{}", flex.node.log());
    flex.assert_nothing_left();
}
