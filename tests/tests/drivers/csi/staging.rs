//! A staged volume stays known as staged until the driver has unstaged it, whatever else fails.

use std::fs;

use volhost_tests::csi::{self, CsiDriver};
use volhost_tests::manifests::{device_pod, pod};
use volhost_tests::wait::eventually;
use volhost_tests::{Node, artifacts};

use super::{NAME, assert_clean, claimed, node, object, volume};

/// Two pods of one volume: `a` is mounted, then staging fails for `b`, and both are removed.
struct Pods {
    node: Node,
    driver: CsiDriver,
    mode: &'static str,
}

impl Pods {
    fn with_a_mounted(capabilities: &[&str], mode: &'static str) -> Self {
        let node = node();
        let driver = CsiDriver::start(&node, NAME, capabilities);
        node.wait_event(&["DriverRegistered", NAME]);
        node.manifest("pv.yaml", &volume("pv", "", mode));
        let pods = Self { node, driver, mode };
        pods.add("a");
        pods.node.wait_mounted("default/a");
        pods
    }

    fn add(&self, name: &str) {
        let uid = format!("uid-{name}");
        let pod = match self.mode {
            "Block" => device_pod(name, &uid, "pv-claim"),
            _ => pod(name, &uid, &[&claimed("pv")]),
        };
        self.node.manifest(&format!("{name}.yaml"), &pod);
    }

    fn remove(&self, name: &str) {
        self.node.remove_manifest(&format!("{name}.yaml"));
        self.node.wait_unmounted(&format!("default/{name}"));
    }

    /// The driver was never asked, or said that it did nothing.
    fn assert_b_is_certain(&self) {
        let events = self.node.ok(&["events"]);
        let mut of_b = events.lines().filter(|line| line.contains("default/b") && line.contains("FailedM"));
        assert!(of_b.all(|line| !line.contains("may have happened")), "{events}");
    }

    fn assert_unstaged_before_detached(&self) {
        self.node.ok(&["drain"]);
        let calls = self.driver.calls();
        let at = |call: &str| calls.iter().position(|line| line.starts_with(call));
        assert_eq!(self.driver.count("NodeUnstageVolume"), 1, "{calls:#?}");
        assert!(at("NodeUnstageVolume") < at("ControllerUnpublishVolume"), "{calls:#?}");
        let staged = self.driver.folder().join("staged/pv-id");
        assert!(!staged.exists(), "{} is left", staged.display());
        assert_clean(&self.node);
    }
}

fn second_pod_is_refused(capabilities: &[&str], mode: &'static str) {
    let pods = Pods::with_a_mounted(capabilities, mode);
    pods.driver.order("NodeStageVolume answer 13");
    pods.add("b");
    pods.node.wait_event(&["FailedM", "default/b", "NodeStageVolume", "as ordered"]);
    pods.assert_b_is_certain();
    pods.remove("b");
    pods.driver.order("");
    pods.remove("a");
    pods.assert_unstaged_before_detached();
}

fn driver_is_away_for_the_second_pod(capabilities: &[&str], mode: &'static str) {
    let mut pods = Pods::with_a_mounted(capabilities, mode);
    pods.driver.kill();
    fs::remove_file(pods.driver.registration()).unwrap();
    pods.add("b");
    pods.node.wait_event(&["FailedM", "default/b", "is not registered on this node"]);
    pods.assert_b_is_certain();
    pods.remove("b");
    pods.driver.run(&pods.node);
    pods.remove("a");
    pods.assert_unstaged_before_detached();
}

#[test]
fn a_refused_stage_for_a_second_pod_keeps_the_first_pods_staging() {
    // A driver that mounts where it stages is not asked for the second pod.
    second_pod_is_refused(&["stage", "attach"], "Filesystem");
    second_pod_is_refused(&["stage", "attach"], "Block");
}

#[test]
fn a_driver_that_is_away_for_a_second_pod_leaves_the_first_pods_staging() {
    driver_is_away_for_the_second_pod(&["stage", "attach"], "Filesystem");
    driver_is_away_for_the_second_pod(&["stage", "attach", "mounts"], "Filesystem");
    driver_is_away_for_the_second_pod(&["stage", "attach"], "Block");
}

#[test]
fn a_staged_volume_is_not_staged_again_for_another_pod_a_refresh_or_the_next_run_of_the_daemon() {
    let mut node = Node::builder().plugin(artifacts::plugin("csi")).build();
    let registry = node.folder().join(csi::REGISTRY).display().to_string();
    node.add_arguments(&["--plugin-registry", &registry, "--refresh-period", "50ms"]);
    node.start();
    let driver = CsiDriver::start(&node, NAME, &["stage", "mounts"]);
    node.manifest("driver.yaml", &object("{ attachRequired: false, requiresRepublish: true }"));
    node.manifest("pv.yaml", &volume("pv", "", "Filesystem"));
    let is_refreshed = || {
        let wanted = driver.count("NodePublishVolume") + 4;
        assert!(eventually(|| driver.count("NodePublishVolume") >= wanted), "{:#?}", driver.calls());
    };
    for name in ["a", "b"] {
        node.manifest(&format!("{name}.yaml"), &pod(name, &format!("uid-{name}"), &[&claimed("pv")]));
        node.wait_mounted(&format!("default/{name}"));
    }
    is_refreshed();
    assert_eq!(driver.count("NodeStageVolume"), 1, "{:#?}", driver.calls());

    node.kill();
    node.start();
    is_refreshed();
    assert_eq!(driver.count("NodeStageVolume"), 1, "{:#?}", driver.calls());

    // Another process unmounts it: the driver stages it again.
    let staged = node.all_mounts().into_iter().find(|mount| mount.point.ends_with("globalmount"));
    let staged = staged.expect("it is staged by a mount").point;
    assert!(node.inside("umount").arg("--lazy").arg(&staged).status().unwrap().success());
    assert!(eventually(|| driver.count("NodeStageVolume") == 2), "{:#?}", driver.calls());

    for name in ["a", "b"] {
        node.remove_manifest(&format!("{name}.yaml"));
        node.wait_unmounted(&format!("default/{name}"));
    }
    node.ok(&["drain"]);
    assert_clean(&node);
}

#[test]
fn a_volume_whose_staging_folder_was_removed_is_unstaged() {
    let pods = Pods::with_a_mounted(&["stage", "attach"], "Filesystem");
    fs::remove_dir_all(pods.node.path(&pods.node.root().join("plugins/kubernetes.io"))).unwrap();
    pods.remove("a");
    pods.assert_unstaged_before_detached();
}

#[test]
fn a_volume_that_its_record_calls_staged_is_unstaged_again_before_it_is_detached() {
    let pods = Pods::with_a_mounted(&["stage", "attach"], "Filesystem");
    let remount = |how: &str| {
        let state = pods.node.root().join("state");
        let done = pods.node.inside("mount").args(["-o", how]).arg(&state).status().unwrap();
        assert!(done.success());
    };
    // The unstage ends, and its end cannot be recorded.
    pods.driver.order("NodeUnstageVolume wait");
    pods.node.remove_manifest("a.yaml");
    pods.node.wait_unmounted("default/a");
    pods.driver.let_go_after(|| {
        pods.driver.order("");
        remount("remount,ro");
    });
    pods.node.ok(&["drain"]);
    let calls = pods.driver.calls();
    assert_eq!(pods.driver.count("NodeUnstageVolume"), 2, "{calls:#?}");
    let at = |call: &str| calls.iter().rposition(|line| line.starts_with(call));
    assert!(at("NodeUnstageVolume") < at("ControllerUnpublishVolume"), "{calls:#?}");
    remount("remount,rw");
    assert_clean(&pods.node);
}
