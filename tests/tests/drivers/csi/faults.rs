//! Every call of a driver, and every way in which it can go wrong: whatever the driver does, the
//! node ends as wanted, and nothing is left on it or with the driver.
//!
//! | fault | the driver |
//! |---|---|
//! | `die` | does its work and ends without an answer |
//! | `die-before` | ends before it does anything |
//! | `late CODE` | does its work and answers with this status, so that it is asked to do it twice |
//! | `answer CODE` | does nothing and answers with this status |
//! | `garbage` | answers with what is no message |
//! | `wait` | answers when it is let |
//! | `idle` | does nothing and answers ok |
//! | `leave` | does all but unmounting and answers ok |

use std::fs;

use volhost_tests::Node;
use volhost_tests::csi::CsiDriver;
use volhost_tests::manifests::pod;
use volhost_tests::wait::eventually;

use super::{NAME, assert_clean, claimed, node, volume};

/// What can go wrong with any call: uncertain ends and final ones.
const ANY: [&str; 8] = ["die", "die-before", "late 4", "late 13", "answer 14", "answer 13", "garbage", "wait"];

/// When in a volume's life the call is made.
#[derive(Clone, Copy, PartialEq)]
enum When {
    Making,
    Growing,
    Looking,
    Taking,
}

/// One call, through one fault after another, each with a volume of its own.
fn through(call: &str, when: When, more: &[&str]) {
    let node = node();
    let mut driver = CsiDriver::start(&node, NAME, &["stage", "mounts", "attach", "expand", "stats"]);
    driver.tell("limit", "0");
    node.wait_event(&["DriverRegistered", NAME]);
    for (index, fault) in ANY.iter().chain(more).enumerate() {
        live_through(&node, &mut driver, (call, when), fault, &format!("v{index}"));
    }
    node.ok(&["drain"]);
    assert_clean(&node);
}

fn live_through(node: &Node, driver: &mut CsiDriver, (call, when): (&str, When), fault: &str, name: &str) {
    let full_name = format!("default/{name}");
    let begin = || {
        node.manifest("pv.yaml", &volume(name, "", "Filesystem"));
        node.manifest("pod.yaml", &pod(name, name, &[&claimed(name)]));
    };
    if when != When::Making {
        begin();
        node.wait_mounted(&full_name);
    }
    let before = driver.count(call);
    driver.order(&format!("{call} {fault}"));
    match when {
        When::Making => begin(),
        When::Growing => {
            let larger = volume(name, "", "Filesystem").replace("storage: 32Mi", "storage: 64Mi");
            node.manifest("pv.yaml", &larger);
        }
        When::Looking => {}
        When::Taking => node.remove_manifest("pod.yaml"),
    }
    let is_asked = eventually(|| {
        // An answer that is seconds old is shown again, and the driver is not asked.
        if when == When::Looking {
            node.ok(&["describe", "volume", name]);
        }
        driver.count(call) > before
    });
    assert!(is_asked, "{call} {fault}: it was not asked");
    if fault.starts_with("die") {
        driver.wait_end();
        driver.order("");
        driver.run(node);
    } else {
        driver.order("");
    }
    if fault == "wait" {
        if when != When::Looking {
            let operations = node.ok(&["get", "operations", "-o", "json"]);
            assert!(operations.contains(&format!("/{call}")), "{call}: it says what it waits for: {operations}");
        }
        driver.let_go();
    }
    match when {
        When::Making | When::Looking => node.wait_mounted(&full_name),
        When::Growing => node.wait_event(&["FileSystemResizeSuccessful", &full_name]),
        When::Taking => {}
    }
    if when != When::Taking {
        node.remove_manifest("pod.yaml");
    }
    node.wait_unmounted(&full_name);
    for kept in ["staged", "attached"] {
        let left = driver.folder().join(kept).join(format!("{name}-id"));
        assert!(eventually(|| !left.exists()), "{call} {fault}: {} is left", left.display());
    }
    let mounts = || fs::read_to_string(format!("/proc/{}/mountinfo", node.pid())).unwrap_or_default();
    assert!(eventually(|| !mounts().contains(&format!("{name}-id"))), "{call} {fault}: {}", mounts());
    node.remove_manifest("pv.yaml");
}

#[test]
fn controller_publish_volume() {
    through("ControllerPublishVolume", When::Making, &[]);
}

#[test]
fn node_stage_volume() {
    through("NodeStageVolume", When::Making, &[]);
}

#[test]
fn node_publish_volume() {
    through("NodePublishVolume", When::Making, &["idle"]);
}

#[test]
fn node_expand_volume() {
    through("NodeExpandVolume", When::Growing, &[]);
}

#[test]
fn node_get_volume_stats() {
    through("NodeGetVolumeStats", When::Looking, &[]);
}

#[test]
fn node_unpublish_volume() {
    through("NodeUnpublishVolume", When::Taking, &["leave"]);
}

#[test]
fn node_unstage_volume() {
    through("NodeUnstageVolume", When::Taking, &["leave"]);
}

#[test]
fn controller_unpublish_volume() {
    through("ControllerUnpublishVolume", When::Taking, &[]);
}
