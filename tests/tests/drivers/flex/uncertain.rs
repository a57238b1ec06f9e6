//! Calls that end without an answer: what they leave is repeated or undone, and never counts as the
//! volume.

use std::fs;

use volhost_tests::wait::eventually;

use super::kit::{DRIVER, Flex, builder};

/// Calls of the driver are killed after three seconds.
const IMPATIENT: &str = "[flex-drivers.\"test/driver\"]\ndeadline = \"3s\"";
/// Mounts something that is not the volume yet, the first time, and ends without an answer: by
/// this.
fn leaves_half(end: &str) -> String {
    format!("if [ ! -e \"$here/once\" ]; then touch \"$here/once\"; mount -t tmpfs -o size=1m half \"$2\"; {end}\nfi\n")
}

/// Where a pod's volumes are mounted from.
fn sources(flex: &Flex) -> Vec<String> {
    flex.node.pod_mounts().into_iter().map(|mount| mount.source).collect()
}

#[test]
fn what_a_killed_driver_has_mounted_never_counts_as_the_volume() {
    let flex = Flex::with(builder().config(IMPATIENT), &[("mount", &leaves_half("exec sleep 1000"))]);
    flex.pod("");
    flex.node.wait_event(&["FailedMount", "took more than 3 s in mount and was killed"]);
    flex.wait_mounted();
    assert_eq!(sources(&flex), ["driver"], "the half-made mount is undone, and the driver is called again");
    assert_eq!((flex.count("mount"), flex.count("unmount")), (2, 1));
    flex.node.wait_event(&["UncertainMountUndone", "test/driver"]);
    flex.remove_pod();
    flex.assert_nothing_left();
}

#[test]
fn what_a_driver_that_answers_nothing_has_mounted_is_undone_even_if_it_cannot_undo_it() {
    let flex =
        Flex::doing(&[("mount", &leaves_half("exit 2")), ("unmount", "answer Failure 'no volume is mounted there' 1")]);
    flex.pod("");
    flex.node.wait_event(&["FailedMount", "answered nothing"]);
    flex.wait_mounted();
    assert_eq!(sources(&flex), ["driver"]);
    flex.is_honest("unmount");
    flex.remove_pod();
    flex.assert_nothing_left();
}

#[test]
fn what_a_killed_driver_has_mounted_for_the_node_never_counts_as_the_volume() {
    let mount_device = leaves_half("exec sleep 1000") + "mount -t tmpfs whole \"$2\"; answer Success";
    let flex = Flex::with(
        builder().config(IMPATIENT),
        &[
            ("init", "answer Success"),
            ("mountdevice", &mount_device),
            ("unmountdevice", "umount \"$2\"; answer Success"),
            ("mount", "answer 'Not supported'"),
            ("unmount", "answer 'Not supported'"),
        ],
    );
    flex.claimed("");
    flex.node.wait_event(&["FailedMount", "took more than 3 s in mountdevice and was killed"]);
    flex.wait_mounted();
    assert_eq!(sources(&flex), ["whole"]);
    assert_eq!((flex.count("mountdevice"), flex.count("unmountdevice")), (2, 1));
    flex.remove_pod();
    assert!(eventually(|| flex.count("detach") == 1), "{}", flex.node.log());
    flex.assert_nothing_left();
}

#[test]
fn a_node_mount_that_the_driver_confirmed_serves_a_second_pod_and_a_restarted_host() {
    let mut flex = Flex::doing(&[
        ("init", "answer Success"),
        ("mountdevice", "mount -t tmpfs whole \"$2\"; answer Success"),
        ("unmountdevice", "umount \"$2\"; answer Success"),
        ("mount", "answer 'Not supported'"),
        ("unmount", "answer 'Not supported'"),
    ]);
    flex.claimed("");
    flex.wait_mounted();
    flex.node.kill();
    flex.node.start();
    let second = super::kit::pod("      persistentVolumeClaim: { claimName: data }\n");
    flex.node.manifest("second.yaml", &second.replace("name: web, uid: uid-1", "name: second, uid: uid-2"));
    flex.node.wait_mounted("default/second");
    assert_eq!((flex.count("mountdevice"), flex.count("unmountdevice")), (1, 0));
    flex.node.remove_manifest("second.yaml");
    flex.node.wait_unmounted("default/second");
    flex.remove_pod();
    assert!(eventually(|| flex.count("detach") == 1), "{}", flex.node.log());
    flex.assert_nothing_left();
    let notes = flex.node.root().join("state/notes/volhost.io~flex-volume");
    assert_eq!(fs::read_dir(flex.node.path(&notes)).map(|entries| entries.count()).unwrap_or(0), 0);
    assert_eq!(DRIVER, "test/driver");
}
