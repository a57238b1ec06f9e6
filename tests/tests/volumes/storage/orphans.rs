//! The folders of unknown pods: removed where they have no data, reported where they have some.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use volhost_tests::Node;
use volhost_tests::manifests::pod;

const EMPTY_DIR: &str = "kubernetes.io~empty-dir";
/// The daemon looks through the pods' folder every minute.
const LONG_BEFORE_THE_NEXT_LOOK: Duration = Duration::from_secs(30);
/// Tries of what is seldom as late as that look on a busy machine, and would always be without a
/// removal at once.
const TRIES: usize = 5;
/// Each look is a run of the command line: minutes in all.
const LOOKS: usize = 2000;

/// A file, with the folders above it.
fn plant(node: &Node, inside: &Path) -> PathBuf {
    let file = node.path(inside);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "data").unwrap();
    file
}

fn pod_folder(node: &Node, uid: &str) -> PathBuf {
    node.root().join("pods").join(uid)
}

fn wait_gone(node: &Node, path: &Path) {
    let gone = (0..LOOKS).any(|_| {
        let _ = node.ok(&["get", "pods"]);
        !path.exists()
    });
    assert!(gone, "{} stays; the daemon's log:\n{}", path.display(), node.log());
}

/// A running node whose first look for what gone pods have left is over.
fn start_swept() -> Node {
    let mut node = Node::builder().build();
    let first = pod_folder(&node, "uid-first");
    fs::create_dir_all(node.path(&first)).unwrap();
    node.start();
    wait_gone(&node, &node.path(&first));
    node
}

#[test]
fn the_folders_of_a_pod_whose_volume_was_never_mounted_are_removed_at_once() {
    let node = start_swept();
    let volume = ["name: gone, hostPath: { path: /nowhere/at/all, type: Directory }"];
    let is_removed_at_once = (0..TRIES).any(|number| {
        let (name, uid) = (format!("a{number}"), format!("uid-{number}"));
        node.manifest("a.yaml", &pod(&name, &uid, &volume));
        node.wait_event(&["FailedMount", &format!("default/{name}"), "nowhere"]);
        let folder = node.path(&pod_folder(&node, &uid));
        assert!(folder.exists(), "the attempt has made the folders above the volume");
        // Another look just now, so that the next is a minute away.
        let other = pod_folder(&node, "uid-other");
        fs::create_dir_all(node.path(&other)).unwrap();
        node.poke("-HUP");
        wait_gone(&node, &node.path(&other));
        let begun = Instant::now();
        node.remove_manifest("a.yaml");
        wait_gone(&node, &folder);
        begun.elapsed() < LONG_BEFORE_THE_NEXT_LOOK
    });
    assert!(is_removed_at_once, "{}", node.log());
}

#[test]
fn what_a_gone_pod_left_in_its_volume_is_removed_by_the_plugin() {
    let mut node = Node::builder().build();
    let at_start = plant(&node, &pod_folder(&node, "uid-before").join("volumes").join(EMPTY_DIR).join("scratch/file"));
    node.start();
    node.wait_event(&["SuccessfulUnmount", "pod uid-before"]);
    wait_gone(&node, &node.path(&pod_folder(&node, "uid-before")));
    assert!(!at_start.exists());

    plant(&node, &pod_folder(&node, "uid-later").join("volumes").join(EMPTY_DIR).join("scratch/file"));
    node.poke("-HUP");
    wait_gone(&node, &node.path(&pod_folder(&node, "uid-later")));
}

#[test]
fn foreign_leftovers_stay_and_are_reported_once() {
    let mut node = Node::builder().build();
    let folder = pod_folder(&node, "uid-gone");
    let file = plant(&node, &folder.join("containers/main/log"));
    let empty = node.path(&folder.join("plugins/empty/inner"));
    fs::create_dir_all(&empty).unwrap();
    node.start();
    node.wait_event(&["OrphanedPod", "pod uid-gone", "pods/uid-gone/containers/main/log (a file)"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "data");
    assert!(!node.path(&folder.join("plugins")).exists(), "an empty folder has no data");
    let described = node.ok(&["describe", "pod", "uid-gone"]);
    assert!(described.contains("Gone") && described.contains("main/log"), "{described}");

    // Another orphan cleanup: by the time another pod's folder is cleaned this one has been looked
    // at too.
    plant(&node, &pod_folder(&node, "uid-other").join("volumes").join(EMPTY_DIR).join("scratch/file"));
    node.poke("-HUP");
    wait_gone(&node, &node.path(&pod_folder(&node, "uid-other")));
    let printed = node.ok(&["describe", "pod", "uid-gone"]);
    let row = printed.lines().find(|line| line.contains("OrphanedPod")).unwrap();
    assert!(row.split_whitespace().any(|cell| cell == "1"), "reported once: {printed}");

    fs::remove_file(&file).unwrap();
    node.poke("-HUP");
    wait_gone(&node, &node.path(&folder));
}

#[test]
fn data_in_a_folder_that_no_plugin_may_remove_stays() {
    let mut node = Node::builder().build();
    let volumes = pod_folder(&node, "uid-gone").join("volumes");
    let local = plant(&node, &volumes.join("kubernetes.io~local-volume/pv/precious"));
    let unknown = plant(&node, &volumes.join("vendor.example~nobody/vol/precious"));
    node.start();
    node.wait_event(&["FailedUnmount", "pod uid-gone", "\"pv\""]);
    node.wait_event(&["FailedUnmount", "pod uid-gone", "\"vol\"", "only its plugin may remove"]);
    let described = node.ok(&["describe", "pod", "uid-gone"]);
    assert!(described.contains("Next try"), "{described}");
    for file in [local, unknown] {
        assert_eq!(fs::read_to_string(&file).unwrap(), "data");
    }
}

#[test]
fn forgotten_mounts_of_parts_of_volumes_are_unmounted() {
    let node = start_swept();
    let precious = plant(&node, &node.folder().join("disk/precious"));
    let parts = pod_folder(&node, "uid-gone").join("volume-subpaths");
    let place = parts.join("data/main/0");
    fs::create_dir_all(node.path(&place)).unwrap();
    let bound = node.inside("mount").arg("--bind").arg(node.folder().join("disk")).arg(&place).status().unwrap();
    assert!(bound.success());
    assert_eq!(node.pod_mounts().len(), 1);
    node.poke("-HUP");
    wait_gone(&node, &node.path(&pod_folder(&node, "uid-gone")));
    assert!(node.pod_mounts().is_empty());
    assert_eq!(fs::read_to_string(precious).unwrap(), "data");
}

#[test]
fn nothing_is_looked_for_before_every_source_has_spoken() {
    let mut node = Node::builder().build();
    let file = plant(&node, &pod_folder(&node, "uid-gone").join("volumes").join(EMPTY_DIR).join("scratch/file"));
    let foreign = plant(&node, &pod_folder(&node, "uid-gone").join("containers/log"));
    node.manifest("a.yaml", "kind: Pod\nmetadata: { name: [\n");
    node.start();
    node.wait_event(&["InvalidManifest", "a.yaml"]);
    node.poke("-HUP");
    node.manifest("b.yaml", &pod("b", "uid-b", &["name: scratch, emptyDir: {}"]));
    node.wait_mounted("default/b");
    node.remove_manifest("b.yaml");
    node.wait_unmounted("default/b");
    assert!(file.exists() && foreign.exists());
    assert!(!node.ok(&["events"]).contains("OrphanedPod"));

    node.manifest("a.yaml", &pod("a", "uid-a", &["name: scratch, emptyDir: {}"]));
    node.wait_event(&["OrphanedPod", "pod uid-gone", "containers/log"]);
    // The plugin removes its volume meanwhile.
    wait_gone(&node, &file);
    assert!(foreign.exists());
}
