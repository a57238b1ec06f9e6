//! The daemon killed between and during calls of a driver: the node ends as wanted, and the driver
//! gets every chance to take back what it did.

use std::fs;

use volhost_tests::wait::eventually;

use super::kit::Flex;

/// A call that reports its begin and continues on request, also when its parent is dead.
fn held(then: &str) -> String {
    format!("if [ ! -e \"$here/go\" ]; then touch \"$here/begun\"; read line <\"$here/gate\"; fi\n{then}")
}

fn with_gate(call: &str, then: &str, others: &[(&str, &str)]) -> Flex {
    let flex = Flex::doing(others);
    let gate = flex.node.folder().join("gate");
    rustix::fs::mknodat(rustix::fs::CWD, &gate, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    flex.does(call, &held(then));
    flex
}

fn wait_begun(flex: &Flex) {
    let begun = flex.node.folder().join("begun");
    assert!(eventually(|| begun.exists()), "{}", flex.node.log());
}

/// Lets the stopped call continue, and those that follow.
fn go_on(flex: &Flex) {
    fs::write(flex.node.folder().join("go"), "").unwrap();
    fs::write(flex.node.folder().join("gate"), "go\n").unwrap();
}

#[test]
fn a_mount_that_outlives_its_daemon_is_undone_and_made_again() {
    let mut flex = with_gate("mount", "", &[]);
    flex.pod("");
    wait_begun(&flex);
    flex.node.kill();
    go_on(&flex);
    assert!(eventually(|| flex.node.pod_mounts().len() == 1), "the driver goes on by itself");
    flex.node.start();
    flex.wait_mounted();
    assert_eq!(flex.node.pod_mounts().len(), 1);
    assert_eq!((flex.count("mount"), flex.count("unmount")), (2, 1), "the result of the first call was lost");
    flex.remove_pod();
    assert_eq!(flex.count("unmount"), 2);
    flex.assert_nothing_left();
}

#[test]
fn a_mount_whose_pod_has_gone_meanwhile_is_taken_back_by_its_driver() {
    let mut flex = with_gate("mount", "", &[]);
    flex.pod("");
    wait_begun(&flex);
    flex.node.kill();
    go_on(&flex);
    assert!(eventually(|| flex.node.pod_mounts().len() == 1));
    flex.node.remove_manifest("pod.yaml");
    flex.node.start();
    assert!(eventually(|| flex.node.pod_mounts().is_empty()), "{}", flex.node.log());
    assert!(eventually(|| flex.count("unmount") == 1), "no record names the driver, the note does: {:?}", flex.calls());
    flex.assert_nothing_left();
}

#[test]
fn an_unmount_that_was_done_before_the_kill_is_no_failure_of_the_driver() {
    let mut flex = with_gate("unmount", "umount \"$2\" || answer Failure 'not mounted' 1; answer Success", &[]);
    flex.pod("");
    flex.wait_mounted();
    flex.node.remove_manifest("pod.yaml");
    wait_begun(&flex);
    flex.node.kill();
    go_on(&flex);
    assert!(eventually(|| flex.node.pod_mounts().is_empty()));
    flex.node.start();
    let folder = flex.node.root().join("pods/uid-1");
    assert!(eventually(|| !flex.node.path(&folder).exists()), "{}", flex.node.log());
    flex.assert_nothing_left();
}

#[test]
fn what_a_driver_attached_before_the_kill_is_detached_after_it() {
    let mut flex = with_gate(
        "attach",
        "touch \"$here/attached\"; echo '{\"status\":\"Success\",\"device\":\"word\"}'; exit",
        &[("init", "answer Success"), ("detach", "rm -f \"$here/attached\"; answer Success")],
    );
    flex.claimed("");
    wait_begun(&flex);
    flex.node.kill();
    go_on(&flex);
    let attached = flex.node.folder().join("attached");
    assert!(eventually(|| attached.exists()));
    flex.node.remove_manifest("pod.yaml");
    flex.node.start();
    assert!(eventually(|| !attached.exists()), "{}", flex.node.log());
    assert_eq!(flex.calls().iter().find(|call| call[0] == "detach").unwrap()[1..], ["lun-1", "test-node"]);
}

#[test]
fn a_volume_survives_kills_between_its_calls() {
    let mut flex = Flex::doing(&[
        ("init", "answer Success"),
        ("mountdevice", r#"mount -t tmpfs driver "$2"; answer Success"#),
        ("unmountdevice", r#"umount "$2"; answer Success"#),
    ]);
    flex.claimed("");
    flex.wait_mounted();
    fs::write(flex.volume("lun-1").join("file"), "kept").unwrap();
    for _ in 0..2 {
        flex.node.kill();
        flex.node.start();
        flex.wait_mounted();
        assert_eq!(fs::read_to_string(flex.volume("lun-1").join("file")).unwrap(), "kept");
    }
    assert_eq!(
        (flex.count("mount"), flex.count("mountdevice"), flex.count("attach")),
        (1, 1, 1),
        "adopted, not made anew"
    );
    flex.node.kill();
    flex.node.remove_manifest("pod.yaml");
    flex.node.start();
    assert!(eventually(|| flex.count("detach") == 1), "{}", flex.node.log());
    assert_eq!((flex.count("unmount"), flex.count("unmountdevice")), (1, 1));
    flex.assert_nothing_left();
}

/// bindfs goes into the background by itself, as most FUSE file systems do, and keeps the driver's
/// output open.
#[test]
fn a_fuse_helper_of_a_driver_survives_a_restart() {
    let mut flex = Flex::doing(&[
        ("mount", r#"mkdir -p "$here/data"; bindfs "$here/data" "$2" && answer Success; answer Failure 'bindfs' 1"#),
        ("unmount", r#"umount "$2" && answer Success"#),
    ]);
    flex.pod("");
    flex.wait_mounted();
    assert_eq!(flex.node.pod_mounts()[0].fs_type, "fuse");
    fs::write(flex.volume("data").join("file"), "through the helper").unwrap();
    flex.node.terminate();
    assert_eq!(fs::read_to_string(flex.volume("data").join("file")).unwrap(), "through the helper");
    flex.node.start();
    flex.node.kill();
    flex.node.start();
    flex.wait_mounted();
    assert_eq!(fs::read_to_string(flex.volume("data").join("file")).unwrap(), "through the helper");
    assert_eq!(flex.count("mount"), 1);
    flex.remove_pod();
}
