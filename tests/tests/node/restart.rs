//! The daemon ends, in every way, and starts again: it adopts what is mounted.

use std::fs;
use std::path::Path;

use volhost_tests::manifests::{local_volume, pod};
use volhost_tests::{Node, artifacts};

const EMPTY_DIR: &str = "kubernetes.io~empty-dir";
const LOCAL: &str = "kubernetes.io~local-volume";

/// A pod with a folder, a tmpfs and a bind mount, mounted.
fn mounted() -> Node {
    let node = Node::start_default();
    node.manifest("pv.yaml", &local_volume("disk1", &node.folder().join("disk").display().to_string(), "test-node"));
    node.manifest("a.yaml", &three_volumes());
    node.wait_mounted("default/a");
    fs::write(node.volume("uid-a", EMPTY_DIR, "scratch").join("file"), "on disk").unwrap();
    fs::write(node.volume("uid-a", EMPTY_DIR, "fast").join("file"), "in memory").unwrap();
    fs::write(node.volume("uid-a", LOCAL, "disk1").join("file"), "on the volume").unwrap();
    node
}

fn three_volumes() -> String {
    pod(
        "a",
        "uid-a",
        &[
            "name: scratch, emptyDir: {}",
            "name: fast, emptyDir: { medium: Memory }",
            "name: data, persistentVolumeClaim: { claimName: disk1-claim }",
        ],
    )
}

fn assert_data_is_there(node: &Node) {
    let read = |path: std::path::PathBuf| fs::read_to_string(path.join("file")).unwrap();
    assert_eq!(read(node.volume("uid-a", EMPTY_DIR, "scratch")), "on disk");
    assert_eq!(read(node.volume("uid-a", EMPTY_DIR, "fast")), "in memory");
    assert_eq!(read(node.volume("uid-a", LOCAL, "disk1")), "on the volume");
}

#[test]
fn a_killed_daemon_adopts_mounted_volumes_without_mounting_them_again() {
    let mut node = mounted();
    let before = node.pod_mounts();
    node.kill();
    assert_eq!(node.pod_mounts(), before, "mounts stay without the daemon");
    node.start();
    node.wait_mounted("default/a");
    assert_eq!(node.pod_mounts(), before);
    assert_data_is_there(&node);
    assert!(!node.ok(&["events"]).contains("SuccessfulMount"), "nothing was mounted again");
}

#[test]
fn sigterm_leaves_mounts_in_place() {
    let mut node = mounted();
    let before = node.pod_mounts();
    assert!(node.terminate().success(), "{}", node.log());
    assert_eq!(node.pod_mounts(), before);
    node.start();
    node.wait_mounted("default/a");
    assert_data_is_there(&node);
}

#[test]
fn a_pod_that_went_while_the_daemon_was_down_is_unmounted() {
    let mut node = mounted();
    node.kill();
    node.remove_manifest("a.yaml");
    node.start();
    node.wait_event(&["SuccessfulUnmount", "\"disk1\""]);
    node.ok(&["drain"]);
    assert!(node.pod_mounts().is_empty());
    assert_eq!(
        fs::read_to_string(node.folder().join("disk/file")).unwrap(),
        "on the volume",
        "the volume's own data stays"
    );
}

#[test]
fn a_manifest_that_cannot_be_read_after_a_restart_unmounts_nothing() {
    let mut node = mounted();
    let before = node.pod_mounts();
    node.kill();
    node.manifest("a.yaml", "kind: Pod\nmetadata: { name: [\n");
    node.start();
    node.wait_event(&["InvalidManifest", "a.yaml"]);
    // Another pod comes and goes: anything that would be unmounted by mistake has been by then.
    node.manifest("b.yaml", &pod("b", "uid-b", &["name: scratch, emptyDir: {}"]));
    node.wait_mounted("default/b");
    node.remove_manifest("b.yaml");
    node.wait_unmounted("default/b");
    assert_eq!(node.pod_mounts(), before);
    assert_data_is_there(&node);

    node.manifest("a.yaml", &three_volumes());
    node.wait_event(&["ManifestMended", "a.yaml"]);
    node.wait_mounted("default/a");
    assert_eq!(node.pod_mounts(), before);
}

#[test]
fn a_claim_that_is_missing_after_a_restart_unmounts_nothing() {
    let mut node = mounted();
    let before = node.pod_mounts();
    node.kill();
    node.remove_manifest("pv.yaml");
    node.start();
    node.wait_event(&["UnresolvedVolume", "default/a"]);
    node.manifest("b.yaml", &pod("b", "uid-b", &["name: scratch, emptyDir: {}"]));
    node.wait_mounted("default/b");
    node.remove_manifest("b.yaml");
    node.wait_unmounted("default/b");
    assert_eq!(node.pod_mounts(), before);
    assert_data_is_there(&node);
}

#[test]
fn lost_records_cost_a_set_up_and_nothing_else() {
    let mut node = mounted();
    let before = node.pod_mounts();
    node.kill();
    let lost = node.inside("umount").arg(node.root().join("state")).status().unwrap();
    assert!(lost.success());
    node.start();
    node.wait_mounted("default/a");
    assert_eq!(node.pod_mounts(), before);
    assert_data_is_there(&node);
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    assert!(node.pod_mounts().is_empty());
}

#[test]
fn garbled_records_never_block_a_tear_down() {
    for text in ["", "{", "{\"version\":1}\n", "{\"volume\":{}}\n", "\n\n\0"] {
        let mut node = mounted();
        node.kill();
        let record = node.path(&node.root().join("state/pods/uid-a"));
        assert!(fs::read_to_string(&record).unwrap().contains("disk1"), "all volumes are in it");
        fs::write(&record, text).unwrap();
        node.remove_manifest("a.yaml");
        node.start();
        node.wait_event(&["SuccessfulUnmount", "\"disk1\""]);
        node.ok(&["drain"]);
        assert!(node.pod_mounts().is_empty());
    }
}

#[test]
fn a_mount_that_vanished_is_mounted_again() {
    let mut node = mounted();
    let before = node.pod_mounts().len();
    node.kill();
    let gone = node.inside("umount").arg(node.volume_inside("uid-a", EMPTY_DIR, "fast")).status().unwrap();
    assert!(gone.success());
    node.start();
    node.wait_mounted("default/a");
    assert_eq!(node.pod_mounts().len(), before);
}

#[test]
fn a_pod_added_by_request_survives_a_restart_of_the_daemon() {
    let mut node = Node::start_default();
    let file = node.folder().join("pod.yaml");
    fs::write(&file, pod("asked", "uid-asked", &["name: fast, emptyDir: { medium: Memory }"])).unwrap();
    node.ok(&["apply", "-f", &file.display().to_string()]);
    node.wait_mounted("default/asked");
    let before = node.pod_mounts();
    node.kill();
    node.start();
    node.wait_mounted("default/asked");
    assert_eq!(node.pod_mounts(), before);
    node.ok(&["delete", "pod", "default/asked"]);
    node.wait_unmounted("default/asked");
    node.kill();
    node.start();
    assert!(!node.ok(&["get", "pods"]).contains("asked"));
}

/// What a second daemon says with this root folder, beside one that runs.
fn refused_beside(node: &Node, root: &Path, plugins: &Path) -> String {
    let folder = node.folder();
    std::fs::create_dir_all(node.path(plugins)).unwrap();
    let mut second = node.inside(artifacts::volhostd());
    second.arg("run").arg("--root-dir").arg(root).arg("--plugin-dir").arg(plugins);
    second.arg("--socket").arg(folder.join("second.sock")).arg("--cache-dir").arg(folder.join("second-cache"));
    let output = second.output().unwrap();
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_root_folder_inside_or_around_another_ones_is_refused() {
    let node = Node::start_default();
    let (root, plugins) = (node.root(), node.folder().join("second-plugins"));
    let before = node.all_mounts();
    let inside = refused_beside(&node, &root.join("inner/root"), &plugins);
    assert!(inside.contains("lies inside") && inside.contains("another running volhost (process"), "{inside}");
    let around = refused_beside(&node, root.parent().unwrap(), &plugins);
    assert!(around.contains("the root folder of another running volhost (process"), "{around}");
    assert_eq!(node.all_mounts(), before, "nothing was mounted");
    assert!(!node.path(&root.join("inner")).exists(), "nothing was made");
}

#[test]
fn a_root_folder_among_what_the_daemon_reads_is_refused() {
    let node = Node::start_default();
    let plugins = node.folder().join("second-plugins");
    let said = refused_beside(&node, &plugins.join("root"), &plugins);
    assert!(said.contains("lies in the plugin folder") && said.contains("--root-dir"), "{said}");
}
