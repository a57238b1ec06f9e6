//! What real drivers do other than the documents say, one test each.

use volhost_tests::wait::eventually;

use super::kit::Flex;

/// What the driver does once; the next call finds an honest driver.
fn once(script: &str) -> String {
    format!("if [ ! -e \"$here/once\" ]; then touch \"$here/once\"; {script}\nfi")
}

/// Mounting fails with this driver, with an event of these words, and succeeds with an honest one.
fn mount_fails(script: &str, words: &[&str]) -> Flex {
    let flex = Flex::doing(&[("mount", &once(script))]);
    flex.pod("");
    flex.node.wait_event(&[&["FailedMount"], words].concat());
    flex.wait_mounted();
    assert_eq!(flex.node.pod_mounts().len(), 1, "{:?}", flex.node.pod_mounts());
    flex
}

#[test]
fn a_success_with_a_failing_exit_code_is_not_believed() {
    mount_fails(
        "answer Success '' 3",
        &["answered \"Success\" to mount and exited with 3, which cannot both be right"],
    )
    .remove_pod();
}

#[test]
fn a_failure_with_exit_code_0_is_a_failure() {
    mount_fails("answer Failure 'no such lun' 0", &["answered \"Failure\" to mount: no such lun"]).remove_pod();
}

#[test]
fn another_word_for_failure_is_a_failure() {
    mount_fails("answer Failed 'out of luck' 0", &["answered \"Failed\" to mount: out of luck"]).remove_pod();
}

#[test]
fn a_failure_on_the_error_output_is_read_there() {
    let script = r#"echo '{ "status" : "Failure" , "message" : "lun busy" }' >&2; exit 1"#;
    mount_fails(script, &["answered \"Failure\" to mount: lun busy"]).remove_pod();
}

#[test]
fn junk_around_an_answer_is_passed_over() {
    let script = r#"echo "WARN {x: old config}"; mount -t tmpfs driver "$2"; echo '{"status": "Success"}'; echo bye >&2; exit 0"#;
    let flex = Flex::doing(&[
        ("mount", script),
        ("init", r#"echo "Loading..."; echo '{"status":"Success","capabilities":{"attach":false}}'; exit 0"#),
    ]);
    flex.pod("");
    flex.wait_mounted();
    flex.remove_pod();
}

#[test]
fn a_missing_answer_is_reported_with_the_output_instead() {
    mount_fails(
        "echo 'usage: driver CALL' >&2; exit 2",
        &["exited with 2 in mount and answered nothing", "usage: driver CALL"],
    )
    .remove_pod();
}

#[test]
fn a_mount_that_was_answered_with_failure_is_unmounted() {
    let flex = mount_fails(r#"mount -t tmpfs half "$2"; answer Failure 'only half done' 1"#, &["only half done"]);
    assert_eq!(flex.count("mount"), 2);
    flex.remove_pod();
}

#[test]
fn a_success_without_a_mount_is_found_out() {
    let flex = mount_fails(
        "answer Success",
        &["answered \"Success\" to mount", "has mounted nothing at", "a plain folder is there"],
    );
    flex.remove_pod();
}

#[test]
fn a_success_with_a_mount_elsewhere_is_found_out() {
    let flex = mount_fails(
        r#"mkdir "$here/elsewhere"; mount -t tmpfs lost "$here/elsewhere"; answer Success"#,
        &["meanwhile appeared at other paths: tmpfs at", "/elsewhere"],
    );
    let elsewhere = flex.node.folder().join("elsewhere");
    assert!(flex.node.all_mounts().iter().any(|mount| mount.point == elsewhere), "it is not volhost's to unmount");
    flex.remove_pod();
}

#[test]
fn a_mount_that_the_driver_leaves_is_unmounted() {
    let flex = Flex::doing(&[("unmount", "answer Success")]);
    flex.pod("");
    flex.wait_mounted();
    flex.remove_pod();
    flex.node.wait_event(&["DriverLeftMount", "left its mount"]);
}

#[test]
fn a_driver_that_cannot_unmount_is_asked_again_and_its_mount_stays() {
    let flex = Flex::doing(&[("unmount", "answer Failure 'still writing' 1")]);
    flex.pod("");
    flex.wait_mounted();
    flex.node.remove_manifest("pod.yaml");
    flex.node.wait_event(&["still writing"]);
    assert_eq!(flex.node.pod_mounts().len(), 1, "what the driver has not done volhost does not do in its place");
    flex.is_honest("unmount");
    flex.node.wait_unmounted("default/web");
}

/// As the driver `dummy-attachable` of the Kubernetes examples: it expects a device where the
/// kubelet gives a folder.
#[test]
fn a_device_mount_that_the_driver_leaves_with_a_failure_stays_until_it_can() {
    let flex = Flex::doing(&[
        ("init", "answer Success"),
        ("mountdevice", r#"mount -t tmpfs driver "$2"; answer Success"#),
        ("mount", "answer 'Not supported'"),
        ("unmount", "answer 'Not supported'"),
        ("unmountdevice", r#"answer Failure "expected device foo, got device $2" 1"#),
    ]);
    flex.claimed("");
    flex.wait_mounted();
    flex.remove_pod();
    flex.node.wait_event(&["expected device foo, got device"]);
    let is_staged = || flex.node.all_mounts().iter().any(|mount| mount.point.ends_with("globalmount"));
    assert!(is_staged());
    flex.does("unmountdevice", "answer 'Not supported'");
    assert!(eventually(|| !is_staged()), "{}", flex.node.log());
}

#[test]
fn fields_of_an_answer_match_in_any_case_as_in_the_kubelet() {
    let flex = Flex::doing(&[
        ("init", r#"echo '{"Status":"Success","Capabilities":{"Attach":false}}'; exit"#),
        ("mount", r#"mount -t tmpfs driver "$2"; echo '{"Status":"Success"}'; exit"#),
        ("unmount", r#"umount "$2"; echo '{"STATUS":"Success"}'; exit"#),
    ]);
    flex.pod("");
    flex.wait_mounted();
    flex.remove_pod();
    assert_eq!((flex.count("mount"), flex.count("unmount")), (1, 1));
}

#[test]
fn an_init_that_changes_the_system_runs_once_a_change() {
    let flex = Flex::doing(&[("init", "echo once more >>\"$here/changed\"")]);
    flex.pod("");
    flex.wait_mounted();
    flex.node.poke("-HUP");
    flex.remove_pod();
    flex.pod("");
    flex.wait_mounted();
    assert_eq!(flex.count("init"), 1);
    flex.install(super::kit::DRIVER);
    assert!(eventually(|| flex.count("init") == 2), "a new file is asked anew");
    flex.remove_pod();
    assert_eq!(std::fs::read_to_string(flex.node.folder().join("changed")).unwrap().lines().count(), 2);
}

#[test]
fn a_driver_for_which_everything_is_left_to_the_host_gives_an_empty_place() {
    let flex = Flex::doing(&[
        ("init", "answer Success"),
        ("mount", "answer 'Not supported'"),
        ("unmount", "answer 'Not supported'"),
    ]);
    flex.claimed("");
    flex.wait_mounted();
    let volume = flex.volume("lun-1");
    assert_eq!(std::fs::read_dir(&volume).unwrap().count(), 0);
    assert!(std::fs::write(volume.join("file"), "").is_err(), "nothing is lost in it");
    flex.remove_pod();
}
