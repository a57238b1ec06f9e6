use std::fs;

use volhost_tests::wait::eventually;

use super::kit::{DRIVER, Flex, builder, write_program};

#[test]
fn a_driver_is_installed_replaced_and_removed_while_volumes_are_there() {
    let mut flex = Flex::empty(builder());
    flex.node.start();
    assert_eq!(flex.node.ok(&["get", "drivers"]), "");
    flex.pod("");
    flex.wait_described("there is no FlexVolume driver test/driver");
    flex.install(DRIVER);
    flex.wait_mounted();
    flex.wait_driver(&[DRIVER, "flex", "volhost.io/flex-volume", "Ready", "selinuxRelabel,fsGroup,requiresFSResize"]);
    // A new file, with other capabilities.
    flex.does(
        "init",
        r#"echo '{"status":"Success","capabilities":{"attach":false,"fsGroup":false,"supportsMetrics":true}}'; exit"#,
    );
    flex.install(DRIVER);
    flex.wait_driver(&[DRIVER, "Ready", "selinuxRelabel,supportsMetrics,requiresFSResize"]);
    fs::remove_dir_all(flex.drivers().join("test~driver")).unwrap();
    assert!(eventually(|| flex.node.ok(&["get", "drivers"]).is_empty()));
    flex.node.wait_event(&["DriverRemoved", "driver test/driver"]);
    assert_eq!(flex.node.pod_mounts().len(), 1, "what is mounted stays");
    flex.remove_pod();
    flex.node.wait_event(&["DriverMissing"]);
}

#[test]
fn names_with_a_dot_are_being_installed() {
    let flex = Flex::start();
    for hidden in [".test~other/other", "test~other/.other"] {
        let program = flex.drivers().join(hidden);
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        write_program(&program, "#!/bin/sh\necho '{\"status\":\"Success\"}'\n", 0o755);
    }
    flex.install("plain");
    flex.wait_driver(&["plain", "Ready"]);
    let all = flex.node.ok(&["get", "drivers"]);
    assert!(!all.contains("other"), "{all}");
    fs::rename(flex.drivers().join("test~other/.other"), flex.drivers().join("test~other/other")).unwrap();
    flex.wait_driver(&["test/other", "Ready"]);
    // A driver without a vendor serves volumes too.
    flex.pod_of("plain", "");
    flex.wait_mounted();
    flex.remove_pod();
}

#[test]
fn a_broken_driver_is_shown_in_its_own_words_and_asked_again() {
    let flex = Flex::doing(&[("init", "echo 'module lun not found' >&2; answer Failure 'cannot begin' 1")]);
    flex.wait_driver(&[DRIVER, "Failed", "cannot begin", "module lun not found"]);
    flex.node.wait_event(&["DriverFailed", "driver test/driver", "cannot begin"]);
    flex.pod("");
    flex.wait_described("cannot be used: init: it answered \"Failure\": cannot begin");
    let described = flex.node.ok(&["describe", "driver", DRIVER]);
    assert!(described.contains("State:        Failed") && described.contains("cannot begin"), "{described}");
    flex.is_honest("init");
    flex.wait_mounted();
    flex.wait_driver(&[DRIVER, "Ready"]);
    flex.remove_pod();
}

#[test]
fn the_drivers_folder_may_go_and_come_back() {
    let flex = Flex::start();
    flex.wait_driver(&[DRIVER, "Ready"]);
    fs::remove_dir_all(flex.drivers()).unwrap();
    assert!(eventually(|| flex.node.ok(&["get", "drivers"]).is_empty()));
    fs::create_dir(flex.drivers()).unwrap();
    flex.install(DRIVER);
    flex.wait_driver(&[DRIVER, "Ready"]);
    // And again: the new folder is watched as the old one was.
    flex.install("another/one");
    flex.wait_driver(&["another/one", "Ready"]);
    flex.pod("");
    flex.wait_mounted();
    flex.remove_pod();
}

#[test]
fn without_a_folder_no_driver_is_looked_for() {
    let node = builder().start();
    node.manifest("pod.yaml", &super::kit::pod("      flexVolume: { driver: test/driver }\n"));
    let so = eventually(|| {
        String::from_utf8_lossy(&node.cli(&["describe", "pod", "web"]).stdout)
            .contains("name their folder with --flex-driver-dir")
    });
    assert!(so, "{}", node.ok(&["describe", "pod", "web"]));
}
