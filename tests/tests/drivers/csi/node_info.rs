//! What a driver says of the node: how many volumes may be attached to it, and where it is.

use std::fs;

use volhost_tests::csi::CsiDriver;
use volhost_tests::manifests::pod;
use volhost_tests::wait::eventually;

use super::{NAME, claimed, node, object, volume};

#[test]
fn a_drivers_limit_is_enforced_and_read_again_when_it_may_have_changed() {
    let node = node();
    let driver = CsiDriver::start(&node, NAME, &["stage", "attach"]);
    node.wait_event(&["DriverRegistered", NAME]);
    for name in ["a", "b", "c"] {
        node.manifest(&format!("pv-{name}.yaml"), &volume(name, "", "Filesystem"));
    }
    let use_by =
        |name: &str| node.manifest(&format!("{name}.yaml"), &pod(name, &format!("uid-{name}"), &[&claimed(name)]));
    let shown = || -> serde_json::Value { serde_json::from_str(&node.ok(&["get", "drivers", "-o", "json"])).unwrap() };
    let status = || shown()["items"][0]["status"].clone();
    assert_eq!((&status()["volumeLimit"], &status()["topology"]["zone"]), (&3.into(), &"a".into()));
    use_by("a");
    node.wait_mounted("default/a");
    // It has no room, and says so when it is asked again.
    driver.tell("limit", "2");
    driver.order("ControllerPublishVolume answer 8");
    use_by("b");
    node.wait_event(&["DriverLimitChanged", NAME, "2 of its volumes may be attached to this node"]);
    assert_eq!(status()["volumeLimit"], 2);
    driver.order("");
    node.wait_mounted("default/b");
    use_by("c");
    node.wait_event(&[
        "FailedAttachVolume",
        "default/c",
        "may have 2 volumes",
        "csi.test^",
        "it waits until one is detached",
    ]);
    // It is asked from time to time, too, if its object wants that.
    driver.tell("limit", "0");
    node.manifest("driver.yaml", &object("{ nodeAllocatableUpdatePeriodSeconds: 10 }"));
    node.wait_event(&["DriverLimitChanged", NAME, "any number of its volumes"]);
    node.wait_mounted("default/c");
    node.ok(&["drain"]);
}

#[test]
fn a_volume_of_another_place_than_the_drivers_is_not_used_here() {
    let node = node();
    let affinity = |zone: &str| {
        let term = format!("{{ matchExpressions: [{{ key: zone, operator: In, values: [{zone}] }}] }}");
        volume("pv", "", "Filesystem").replacen(
            "  volumeMode",
            &format!("  nodeAffinity: {{ required: {{ nodeSelectorTerms: [{term}] }} }}\n  volumeMode"),
            1,
        )
    };
    node.manifest("pv.yaml", &affinity("b"));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_event(&["UnresolvedVolume", "default/a", "zone in (b)", "no label zone"]);
    let driver = CsiDriver::start(&node, NAME, &["stage"]);
    node.wait_event(&["UnresolvedVolume", "default/a", "zone in (b)", "has zone=a"]);
    node.manifest("pv.yaml", &affinity("a"));
    node.wait_mounted("default/a");
    // Another driver that sees the node elsewhere is wrong, or this one is.
    let folder = node.folder().join("disk/lost.test");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("zone"), "b").unwrap();
    let lost = CsiDriver::start(&node, "lost.test", &[]);
    let registered = || fs::read_to_string(folder.join("registered")).unwrap_or_default();
    assert!(eventually(
        || registered().contains("it says that this node is in zone=b, and the driver csi.test says zone=a")
    ));
    drop((lost, driver));
}
