//! `volhost get drivers` shows whether a driver can be used now, not whether it could when it
//! registered.

use std::fs;

use volhost_tests::csi::CsiDriver;
use volhost_tests::manifests::pod;
use volhost_tests::wait::eventually;

use super::{NAME, claimed, node, volume};

/// The driver's row.
fn row(node: &volhost_tests::Node) -> String {
    let shown = node.ok(&["get", "drivers", "-o", "wide"]);
    shown.lines().find(|line| line.contains(NAME)).unwrap_or_default().to_owned()
}

#[test]
fn a_driver_that_has_died_is_not_shown_as_ready() {
    let node = node();
    let mut driver = CsiDriver::start(&node, NAME, &["stage"]);
    node.wait_event(&["DriverRegistered", NAME]);
    // Its sockets stay, as after a crash.
    driver.kill();
    assert!(eventually(|| row(&node).contains("Failed")), "{}", row(&node));
    assert!(row(&node).contains("does not answer Probe"), "{}", row(&node));
    node.wait_event(&["DriverFailed", NAME]);
}

#[test]
fn a_driver_that_is_stopped_is_shown_as_failed_until_it_goes_on() {
    let node = node();
    let driver = CsiDriver::start(&node, NAME, &["stage"]);
    node.wait_event(&["DriverRegistered", NAME]);
    driver.signal("STOP");
    assert!(eventually(|| row(&node).contains("Failed")), "{}", row(&node));
    driver.signal("CONT");
    assert!(eventually(|| row(&node).contains("Ready")), "{}", row(&node));
    node.wait_event(&["DriverReady", NAME]);
}

#[test]
fn a_driver_that_has_gone_is_shown_as_gone_until_it_is_back() {
    let node = node();
    let mut driver = CsiDriver::start(&node, NAME, &["stage"]);
    node.manifest("pv.yaml", &volume("pv", "", "Filesystem"));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_mounted("default/a");
    driver.kill();
    fs::remove_file(driver.registration()).unwrap();
    node.wait_event(&["DriverRemoved", NAME]);
    assert!(row(&node).contains("Gone"), "{}", row(&node));
    driver.run(&node);
    assert!(eventually(|| row(&node).contains("Ready")), "{}", row(&node));
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    node.ok(&["drain"]);
}
