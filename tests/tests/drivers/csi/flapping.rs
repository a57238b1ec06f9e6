//! A driver that dies and comes back again and again hurries its own volumes, and no others.

use std::fs;

use volhost_tests::Node;
use volhost_tests::csi::CsiDriver;
use volhost_tests::manifests::pod;
use volhost_tests::wait::eventually;

use super::{NAME, assert_clean, claimed, node, volume};

/// Another driver of the node.
const OTHER: &str = "other.test";
/// How often the driver dies and comes back.
const TIMES: usize = 3;

/// How often in a row the mount of this PersistentVolume has failed.
fn failures(node: &Node, name: &str) -> u64 {
    let operations: serde_json::Value = serde_json::from_str(&node.ok(&["get", "operations", "-o", "json"])).unwrap();
    let operations = operations["items"].as_array().unwrap();
    let is_of_volume = |one: &&serde_json::Value| one["metadata"]["name"].as_str().is_some_and(|of| of.contains(name));
    operations.iter().find(is_of_volume).map_or(0, |one| one["status"]["failures"].as_u64().unwrap())
}

/// How often there was such an event on the driver; equal ones are shown as one, with their number.
fn events(node: &Node, reason: &str) -> usize {
    let events = node.ok(&["events"]);
    let columns = events.lines().map(|line| line.split("  ").filter(|text| !text.is_empty()).collect::<Vec<_>>());
    let of_driver = columns.filter(|columns| columns[2].trim() == reason && columns[3].contains(NAME));
    of_driver.map(|columns| columns[4].trim().parse::<usize>().unwrap()).sum()
}

#[test]
fn a_driver_that_dies_and_comes_back_leaves_the_waits_of_another_drivers_volumes_as_they_are() {
    let node = node();
    let other = CsiDriver::start(&node, OTHER, &["stage"]);
    other.order("NodeStageVolume answer 13");
    let mut driver = CsiDriver::start(&node, NAME, &["stage", "registered"]);
    node.wait_event(&["DriverRegistered", NAME]);
    node.wait_event(&["DriverRegistered", OTHER]);
    driver.order("NodeStageVolume answer 13");
    node.manifest("other.yaml", &volume("other", "", "Filesystem").replace(NAME, OTHER));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("other")]));
    node.manifest("pv.yaml", &volume("pv", "", "Filesystem"));
    node.manifest("b.yaml", &pod("b", "uid-b", &[&claimed("pv")]));
    node.wait_event(&["FailedMount", "default/a"]);
    node.wait_event(&["FailedMount", "default/b"]);
    for _ in 0..TIMES {
        // More of them on a busy machine, where it may miss the time for an answer.
        let before = (events(&node, "DriverFailed"), events(&node, "DriverReady"));
        driver.kill();
        assert!(eventually(|| events(&node, "DriverFailed") > before.0), "{}", node.ok(&["events"]));
        driver.run(&node);
        assert!(eventually(|| events(&node, "DriverReady") > before.1), "{}", node.ok(&["events"]));
        let asked = || u64::try_from(other.count("NodeStageVolume")).unwrap();
        let all_counted = || failures(&node, "other-id") == asked();
        assert!(eventually(all_counted), "{} of {} tries are counted", failures(&node, "other-id"), asked());
        assert!(failures(&node, "pv-id") > 0);
    }
    assert_eq!(events(&node, "DriverRegistered"), 1, "it never registered again");
    driver.order("");
    other.order("");
    node.wait_mounted("default/b");
    for name in ["a", "b"] {
        node.remove_manifest(&format!("{name}.yaml"));
        node.wait_unmounted(&format!("default/{name}"));
    }
    node.ok(&["drain"]);
    assert!(fs::read_dir(driver.folder().join("staged")).is_ok_and(|mut left| left.next().is_none()));
    assert_clean(&node);
}
