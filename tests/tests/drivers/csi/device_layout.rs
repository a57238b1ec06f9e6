//! Devices are where the kubelet has them. One that an earlier version staged elsewhere stays there,
//! and goes with its pod.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use volhost_tests::Node;
use volhost_tests::csi::CsiDriver;
use volhost_tests::manifests::device_pod;

use super::{NAME, assert_clean, node, volume};

const DEVICES: &str = "plugins/kubernetes.io/csi/volumeDevices";

/// A folder below the root folder, as the test sees it.
fn below(node: &Node, path: &str) -> PathBuf {
    node.path(&node.root().join(path))
}

fn names(node: &Node, path: &str) -> Vec<String> {
    let names = fs::read_dir(below(node, path)).into_iter().flatten().flatten();
    let mut names: Vec<String> = names.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A pod that has the device of the volume `pv`.
fn start_pod(node: &Node, name: &str) {
    node.manifest(&format!("{name}.yaml"), &device_pod(name, &format!("uid-{name}"), "pv-claim"));
    node.wait_mounted(&format!("default/{name}"));
}

fn end_pod(node: &Node, name: &str) {
    node.remove_manifest(&format!("{name}.yaml"));
    node.wait_unmounted(&format!("default/{name}"));
}

fn forget_records(node: &Node) {
    for records in ["pods", "devices"] {
        fs::remove_dir_all(below(node, "state").join(records)).unwrap();
    }
}

/// The mounts of devices: what stays has its id.
fn mounts(node: &Node) -> Vec<(u64, PathBuf)> {
    let mut mounts = node.mount_ids_below(&node.root().join("plugins"));
    mounts.sort();
    mounts
}

#[test]
fn a_driver_stages_and_publishes_a_device_at_the_kubelets_paths() {
    let node = node();
    let driver = CsiDriver::start(&node, NAME, &["stage"]);
    node.manifest("pv.yaml", &volume("pv", "", "Block"));
    for pod in ["a", "b"] {
        start_pod(&node, pod);
        let published = driver.last("NodePublishVolume");
        assert!(published.contains(&format!("/{DEVICES}/publish/pv/uid-{pod}\"")), "{published}");
        assert!(published.contains(&format!("/{DEVICES}/staging/pv\"")), "{published}");
    }
    let staged = driver.last("NodeStageVolume");
    assert!(staged.contains(&format!("/{DEVICES}/staging/pv\"")), "{staged}");
    assert_eq!(names(&node, DEVICES), ["publish", "pv", "staging"]);
    assert_eq!(names(&node, &format!("{DEVICES}/pv/dev")), ["uid-a", "uid-b"]);
    let data = fs::read_to_string(below(&node, DEVICES).join("pv/data/vol_data.json")).unwrap();
    let digest: String = Sha256::digest(format!("pv-id{NAME}test-node")).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(
        serde_json::from_str::<Value>(&data).unwrap(),
        json!({
            "specVolID": "pv",
            "volumeHandle": "pv-id",
            "driverName": NAME,
            "nodeName": "test-node",
            "attachmentID": format!("csi-{digest}"),
        })
    );
    for pod in ["a", "b"] {
        end_pod(&node, pod);
        let unpublished = driver.last("NodeUnpublishVolume");
        assert!(unpublished.contains(&format!("/{DEVICES}/publish/pv/uid-{pod}\"")), "{unpublished}");
    }
    node.ok(&["drain"]);
    assert!(driver.last("NodeUnstageVolume").contains(&format!("/{DEVICES}/staging/pv\"")));
    assert_clean(&node);
}

#[test]
fn a_device_stays_mapped_through_a_restart() {
    let mut node = node();
    let driver = CsiDriver::start(&node, NAME, &["stage"]);
    node.manifest("pv.yaml", &volume("pv", "", "Block"));
    start_pod(&node, "a");
    let before = mounts(&node);
    node.kill();
    node.start();
    node.wait_mounted("default/a");
    assert_eq!(mounts(&node), before);
    end_pod(&node, "a");
    node.ok(&["drain"]);
    assert_eq!((driver.count("NodeUnpublishVolume"), driver.count("NodeUnstageVolume")), (1, 1));
    assert_clean(&node);
}

#[test]
fn a_device_whose_records_are_gone_is_taken_back_by_vol_data_json() {
    let mut node = node();
    let driver = CsiDriver::start(&node, NAME, &["stage"]);
    node.manifest("pv.yaml", &volume("pv", "", "Block"));
    start_pod(&node, "a");
    start_pod(&node, "b");
    node.kill();
    forget_records(&node);
    node.remove_manifest("a.yaml");
    node.start();
    node.wait_mounted("default/b");
    end_pod(&node, "b");
    node.ok(&["drain"]);
    let calls = driver.calls().join("\n");
    for pod in ["a", "b"] {
        let target = format!("/{DEVICES}/publish/pv/uid-{pod}\"");
        let is_its = |call: &&str| call.starts_with("NodeUnpublishVolume") && call.contains(&target);
        assert!(calls.lines().any(|call| is_its(&call)), "{pod}: {calls}");
    }
    assert!(driver.last("NodeUnstageVolume").contains(&format!("/{DEVICES}/staging/pv\"")), "{calls}");
    assert_eq!(driver.count("NodeUnstageVolume"), 1, "{calls}");
    assert_clean(&node);
}

#[test]
fn a_device_that_nothing_names_is_reported_and_blocks_nothing() {
    let mut node = node();
    let _driver = CsiDriver::start(&node, NAME, &["stage"]);
    node.manifest("pv.yaml", &volume("pv", "", "Block"));
    start_pod(&node, "a");
    node.kill();
    for (name, text) in
        [("types", "{\"driverName\": 1}"), ("path", "{\"driverName\": \"../..\", \"volumeHandle\": \"x\"}")]
    {
        fs::create_dir_all(below(&node, DEVICES).join(name).join("data")).unwrap();
        fs::write(below(&node, DEVICES).join(name).join("data/vol_data.json"), text).unwrap();
    }
    fs::create_dir_all(below(&node, DEVICES).join("staging/lost")).unwrap();
    fs::create_dir_all(below(&node, DEVICES).join("empty/data")).unwrap();
    node.start();
    node.wait_mounted("default/a");
    end_pod(&node, "a");
    node.ok(&["drain"]);
    for name in ["types", "path", "lost"] {
        assert!(node.log().contains(&format!("volumeDevices/{name}")), "{name}: {}", node.log());
    }
    assert_eq!(names(&node, DEVICES), ["path", "staging", "types"], "what is not volhost's stays");
}

/// A node whose volume `pv` was staged and mapped for the pod `a` by an earlier version.
fn earlier() -> (Node, CsiDriver) {
    let node = node();
    let driver = CsiDriver::start(&node, NAME, &["stage"]);
    node.manifest("pv.yaml", &volume("pv", "", "Block"));
    // A device whose folder is there stays there.
    fs::create_dir_all(below(&node, &earlier_places())).unwrap();
    start_pod(&node, "a");
    let published = driver.last("NodePublishVolume");
    assert!(published.contains(&format!("/{}/pod-uid-a\"", earlier_places())), "{published}");
    assert!(published.contains(&format!("/{}/staging\"", earlier_places())), "{published}");
    assert_eq!(names(&node, DEVICES), [format!("{NAME}~5Epv-id")]);
    (node, driver)
}

fn earlier_places() -> String {
    format!("plugins/kubernetes.io/csi/driverDevices/{NAME}~5Epv-id")
}

#[test]
fn a_device_of_the_earlier_layout_stays_mapped_and_goes_with_its_pods() {
    let (mut node, driver) = earlier();
    let before = mounts(&node);
    node.kill();
    node.start();
    node.wait_mounted("default/a");
    assert_eq!(mounts(&node), before);
    start_pod(&node, "b");
    assert!(driver.last("NodePublishVolume").contains(&format!("/{}/pod-uid-b\"", earlier_places())));
    end_pod(&node, "a");
    assert!(driver.last("NodeUnpublishVolume").contains(&format!("/{}/pod-uid-a\"", earlier_places())));
    end_pod(&node, "b");
    node.ok(&["drain"]);
    assert!(driver.last("NodeUnstageVolume").contains(&format!("/{}/staging\"", earlier_places())));
    assert_clean(&node);
}

#[test]
fn the_next_pod_after_the_earlier_layout_gets_the_kubelets_path() {
    let (node, driver) = earlier();
    end_pod(&node, "a");
    node.ok(&["drain"]);
    node.ok(&["uncordon"]);
    start_pod(&node, "b");
    let published = driver.last("NodePublishVolume");
    assert!(published.contains(&format!("/{DEVICES}/publish/pv/uid-b\"")), "{published}");
    end_pod(&node, "b");
    node.ok(&["drain"]);
    assert_clean(&node);
}

#[test]
fn a_device_of_the_earlier_layout_without_records_is_taken_back_there() {
    let (mut node, driver) = earlier();
    node.kill();
    forget_records(&node);
    node.remove_manifest("a.yaml");
    node.start();
    node.ok(&["drain"]);
    let calls = driver.calls().join("\n");
    let target = format!("/{}/pod-uid-a\"", earlier_places());
    assert!(calls.lines().any(|call| call.starts_with("NodeUnpublishVolume") && call.contains(&target)), "{calls}");
    assert!(driver.last("NodeUnstageVolume").contains(&format!("/{}/staging\"", earlier_places())), "{calls}");
    assert_eq!(driver.count("NodeUnstageVolume"), 1, "{calls}");
    assert_clean(&node);
}
