//! Volumes are where the kubelet has them: drivers parse these paths. What an earlier version
//! mounted elsewhere stays there, and goes with its pod.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use volhost_tests::Node;
use volhost_tests::csi::CsiDriver;
use volhost_tests::manifests::pod;

use super::{NAME, assert_clean, claimed, node, volume};

/// The staging folder of the volume `pv`, below the root folder.
fn staging_folder() -> String {
    let digest: String = Sha256::digest("pv-id").iter().map(|byte| format!("{byte:02x}")).collect();
    format!("plugins/kubernetes.io/csi/{NAME}/{digest}")
}

fn volume_data(node: &Node, folder: &str) -> Value {
    let file = node.path(&node.root().join(folder).join("vol_data.json"));
    serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap()
}

#[test]
fn a_driver_gets_the_kubelets_paths_and_vol_data_json_names_its_volume() {
    let node = node();
    let driver = CsiDriver::start(&node, NAME, &["stage", "stats"]);
    node.manifest("pv.yaml", &volume("pv", "", "Filesystem"));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_mounted("default/a");
    let (staging, target) = (staging_folder(), "pods/uid-a/volumes/kubernetes.io~csi/pv");
    let staged = driver.last("NodeStageVolume");
    assert!(staged.contains(&format!("/{staging}/globalmount\"")), "{staged}");
    let published = driver.last("NodePublishVolume");
    assert!(published.contains(&format!("/{target}/mount\"")), "{published}");
    assert!(published.contains(&format!("/{staging}/globalmount\"")), "{published}");
    assert_eq!(volume_data(&node, &staging), json!({ "driverName": NAME, "volumeHandle": "pv-id" }));
    let data = volume_data(&node, target);
    let digest: String = Sha256::digest(format!("pv-id{NAME}test-node")).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(
        data,
        json!({
            "specVolID": "pv",
            "volumeHandle": "pv-id",
            "driverName": NAME,
            "nodeName": "test-node",
            "attachmentID": format!("csi-{digest}"),
            "volumeLifecycleMode": "Persistent",
        })
    );
    let shown = node.ok(&["get", "volumes", "-o", "json"]);
    assert!(shown.contains(&format!("{target}/mount\"")), "{shown}");
    assert_eq!(node.wait_usage("pv")["abnormal"], "a disk is slow");
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    let unpublished = driver.last("NodeUnpublishVolume");
    assert!(unpublished.contains(&format!("/{target}/mount\"")), "{unpublished}");
    node.ok(&["drain"]);
    assert_clean(&node);
}

/// Puts the volume `pv` of pod `a` where an earlier version had it: mount, staging mount and note.
fn lay_out_as_earlier(node: &Node) {
    let script = format!(
        "cd $ROOT
target=pods/uid-a/volumes/kubernetes.io~csi/pv
mkdir -p spare plugins/kubernetes.io/csi/mounts/{NAME}~5Epv-id/globalmount pods/uid-a/plugins/kubernetes.io~csi/pv
mount --bind $target/mount spare
umount $target/mount
rm $target/vol_data.json
[ ! -e $target/mount ] || rmdir $target/mount
mount --bind spare $target
umount spare
rmdir spare
staging={}
! mountpoint -q $staging/globalmount
rm -r plugins/kubernetes.io/csi/{NAME}
echo '{{\"driver\":\"{NAME}\",\"id\":\"pv-id\"}}' > pods/uid-a/plugins/kubernetes.io~csi/pv/.volhost-note
",
        staging_folder()
    );
    let done = node.inside("sh").args(["-euc", &script]).env("ROOT", node.root()).status().unwrap();
    assert!(done.success());
}

/// The mounts of the driver's volume: what stays has its id.
fn mounts(node: &Node) -> Vec<(u64, PathBuf)> {
    let mut mounts = node.mount_ids_below(&node.root().join("pods"));
    mounts.sort();
    mounts
}

/// A node whose volume `pv` of pod `a` is mounted in the earlier layout, and whose daemon does not
/// run.
fn earlier() -> (Node, CsiDriver) {
    let mut node = node();
    let driver = CsiDriver::start(&node, NAME, &["stage"]);
    node.manifest("pv.yaml", &volume("pv", "", "Filesystem"));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_mounted("default/a");
    node.kill();
    lay_out_as_earlier(&node);
    (node, driver)
}

fn stays_and_goes(node: &Node, driver: &CsiDriver, before: &[(u64, PathBuf)]) {
    let target = node.root().join("pods/uid-a/volumes/kubernetes.io~csi/pv");
    node.wait_mounted("default/a");
    assert_eq!(mounts(node), before);
    fs::write(node.path(&target).join("after"), "x").unwrap();
    assert!(driver.folder().join("volumes/pv-id/after").exists(), "the pod writes into the driver's volume");
    let shown = node.ok(&["get", "volumes", "-o", "json"]);
    assert!(shown.contains("kubernetes.io~csi/pv\""), "users are told where it is: {shown}");

    // A second pod has the volume where the kubelet would have it.
    node.manifest("b.yaml", &pod("b", "uid-b", &[&claimed("pv")]));
    node.wait_mounted("default/b");
    let published = driver.last("NodePublishVolume");
    assert!(published.contains("/pods/uid-b/volumes/kubernetes.io~csi/pv/mount\""), "{published}");
    assert!(published.contains(&format!("/mounts/{NAME}~5Epv-id/globalmount\"")), "{published}");
    for pod in ["a", "b"] {
        node.remove_manifest(&format!("{pod}.yaml"));
        node.wait_unmounted(&format!("default/{pod}"));
    }
    node.ok(&["drain"]);
    assert_eq!((driver.count("NodeUnpublishVolume"), driver.count("NodeUnstageVolume")), (2, 1));
    assert_clean(node);
}

#[test]
fn a_volume_of_the_earlier_layout_stays_mounted_and_goes_with_its_pod() {
    let (mut node, driver) = earlier();
    let before = mounts(&node);
    node.start();
    node.wait_mounted("default/a");
    assert_eq!(driver.count("NodePublishVolume"), 1, "its record and the mount agree: nothing is to be done");
    stays_and_goes(&node, &driver, &before);
}

#[test]
fn a_volume_of_the_earlier_layout_without_records_moves_to_the_kubelets_path() {
    let (mut node, driver) = earlier();
    for records in ["pods", "devices"] {
        fs::remove_dir_all(node.path(&node.root().join("state").join(records))).unwrap();
    }
    node.start();
    node.wait_mounted("default/a");
    let unpublished = driver.last("NodeUnpublishVolume");
    assert!(unpublished.contains("/pods/uid-a/volumes/kubernetes.io~csi/pv\""), "{unpublished}");
    let published = driver.last("NodePublishVolume");
    assert!(published.contains("/pods/uid-a/volumes/kubernetes.io~csi/pv/mount\""), "{published}");
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    node.ok(&["drain"]);
    assert_clean(&node);
}

#[test]
fn a_volume_whose_records_are_gone_is_unpublished_and_unstaged_by_vol_data_json() {
    let mut node = node();
    let driver = CsiDriver::start(&node, NAME, &["stage"]);
    node.manifest("pv.yaml", &volume("pv", "", "Filesystem"));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_mounted("default/a");
    node.kill();
    for records in ["pods", "devices"] {
        fs::remove_dir_all(node.path(&node.root().join("state").join(records))).unwrap();
    }
    node.remove_manifest("a.yaml");
    node.start();
    node.ok(&["drain"]);
    // What is on the node says that it is no device.
    let unpublished = driver.last("NodeUnpublishVolume");
    assert!(unpublished.contains("/pods/uid-a/volumes/kubernetes.io~csi/pv/mount\""), "{unpublished}");
    let unstaged = driver.last("NodeUnstageVolume");
    assert!(unstaged.contains("/globalmount\""), "{unstaged}");
    assert_eq!((driver.count("NodeUnpublishVolume"), driver.count("NodeUnstageVolume")), (1, 1));
    assert_clean(&node);
}

#[test]
fn a_vol_data_json_that_names_no_volume_is_reported_and_blocks_nothing() {
    let mut node = node();
    let driver = CsiDriver::start(&node, NAME, &["stage"]);
    node.manifest("pv.yaml", &volume("pv", "", "Filesystem"));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_mounted("default/a");
    node.kill();
    let staging = node.path(&node.root().join("plugins/kubernetes.io/csi").join(NAME));
    let hostile = [
        ("large", "x".repeat(1 << 20)),
        ("types", r#"{"driverName": 1, "volumeHandle": {}}"#.to_owned()),
        ("path", r#"{"driverName": "../../..", "volumeHandle": "x"}"#.to_owned()),
        ("other", format!(r#"{{"driverName": "{NAME}", "volumeHandle": "another"}}"#)),
    ];
    for (name, text) in &hostile {
        fs::create_dir(staging.join(name)).unwrap();
        fs::write(staging.join(name).join("vol_data.json"), text).unwrap();
    }
    node.start();
    node.wait_mounted("default/a");
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    node.ok(&["drain"]);
    assert_eq!(driver.count("NodeUnstageVolume"), 1);
    let log = node.log();
    for (name, _) in &hostile {
        assert!(log.contains(&format!("csi/{NAME}/{name}")), "{name}: {log}");
        assert!(staging.join(name).join("vol_data.json").exists(), "{name} is not volhost's: it stays");
    }
}
