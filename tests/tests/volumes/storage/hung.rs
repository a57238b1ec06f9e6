//! Storage that hangs, dies, is full, turns read-only or is unmounted by another process (rule R9):
//! only its own volume waits, an event on the pod says why, and the volume recovers with its
//! storage. Only an operator ends a wait by force.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use volhost_tests::Node;
use volhost_tests::fuse::FuseServer;
use volhost_tests::manifests::{local_volume, pod};

use crate::storage::squatter::Squatter;

const EMPTY_DIR: &str = "kubernetes.io~empty-dir";
const LOCAL: &str = "kubernetes.io~local-volume";
/// Each look is a run of the command line: minutes in all.
const LOOKS: usize = 2000;
/// Not every machine shows the connections of FUSE servers, so none may.
const NO_CONNECTIONS: &str = "! mountpoint -q /sys/fs/fuse/connections || umount /sys/fs/fuse/connections";

fn claimed(name: &str) -> String {
    format!("name: {name}, persistentVolumeClaim: {{ claimName: {name}-claim }}")
}

/// A node with local volumes `good` and `bad`, and the server of `bad`.
fn node_with_a_server() -> (Node, FuseServer) {
    let node = Node::builder()
        .prepare(&format!("mkdir $NODE/disk/good $NODE/disk/bad; {NO_CONNECTIONS}"))
        .arguments(&["--operation-deadline", "1s"])
        .start();
    let server = FuseServer::mount(&node, &disk(&node, "bad"));
    for name in ["good", "bad"] {
        let path = disk(&node, name).display().to_string();
        node.manifest(&format!("{name}.yaml"), &local_volume(name, &path, "test-node"));
    }
    (node, server)
}

fn disk(node: &Node, name: &str) -> PathBuf {
    node.folder().join("disk").join(name)
}

/// A pod with a folder of a disk: to open it is a question to the storage.
fn want_folder(node: &Node, name: &str, on: &str) {
    let path = disk(node, on).join("folder").display().to_string();
    node.manifest(
        &format!("{name}-pod.yaml"),
        &pod(name, &format!("uid-{name}"), &[&format!("name: {on}, hostPath: {{ path: {path}, type: Directory }}")]),
    );
}

fn until<T>(what: &str, node: &Node, look: impl FnMut(usize) -> Option<T>) -> T {
    (0..LOOKS).find_map(look).unwrap_or_else(|| panic!("{what} never came; the daemon's log:\n{}", node.log()))
}

#[test]
fn a_volume_that_hangs_while_it_is_mounted_delays_no_other_and_is_mounted_when_its_storage_answers() {
    let (node, server) = node_with_a_server();
    fs::create_dir(disk(&node, "good").join("folder")).unwrap();
    server.hang_wholly();
    want_folder(&node, "a", "bad");
    node.wait_event(&["VolumeOverdue", "pod default/a", "host-paths.open"]);
    want_folder(&node, "b", "good");
    node.wait_mounted("default/b");
    let described = node.ok(&["describe", "pod", "default/a"]);
    assert!(described.contains("Overdue") && described.contains("passed its deadline"), "{described}");

    server.go_on();
    node.wait_mounted("default/a");
    node.remove_manifest("a-pod.yaml");
    node.wait_unmounted("default/a");
}

#[test]
fn a_hung_server_is_ended_only_by_hand_and_its_volume_can_go() {
    let (node, server) = node_with_a_server();
    node.manifest("a-pod.yaml", &pod("a", "uid-a", &[&claimed("bad")]));
    node.wait_mounted("default/a");
    let _squatter = Squatter::in_folder(&node, &node.volume_inside("uid-a", LOCAL, "bad"));
    server.hang_wholly();
    node.remove_manifest("a-pod.yaml");
    node.wait_event(&["FailedUnmount", "pod default/a", "\"bad\""]);
    let done = node.ok(&["force-unmount", "default/a/bad", "--end-server"]);
    assert!(done.contains("the connection to its server was aborted"), "{done}");
    node.wait_event(&["ForcedUnmount", "pod default/a", "\"bad\"", "connection"]);
    node.wait_unmounted("default/a");
    assert!(node.pod_mounts().is_empty());
    let asked = node.inside("stat").arg("--file-system").arg(disk(&node, "bad")).output().unwrap();
    assert!(String::from_utf8_lossy(&asked.stderr).contains("not connected"), "{asked:?}");
}

#[test]
fn storage_whose_server_died_is_reported_and_works_again_once_it_is_served() {
    let (node, server) = node_with_a_server();
    node.manifest("a-pod.yaml", &pod("a", "uid-a", &[&claimed("bad"), &claimed("good")]));
    node.wait_mounted("default/a");
    server.die(&node);
    node.wait_usage("bad");
    let described = node.ok(&["describe", "volume", "bad"]);
    assert!(described.to_lowercase().contains("not connected"), "{described}");
    node.wait_usage("good");
    assert!(node.ok(&["get", "volume", "good", "-o", "wide"]).contains("Gi"), "the other volume answers");
    node.remove_manifest("a-pod.yaml");
    node.wait_unmounted("default/a");

    assert!(node.inside("umount").arg(disk(&node, "bad")).status().unwrap().success());
    let _server = FuseServer::mount(&node, &disk(&node, "bad"));
    node.manifest("b-pod.yaml", &pod("b", "uid-b", &[&claimed("bad")]));
    node.wait_mounted("default/b");
    node.wait_usage("bad");
    assert!(node.ok(&["get", "volume", "bad", "-o", "wide"]).contains("3.9Mi"));
}

/// A node with a pod whose emptyDir is in memory.
fn node_with_memory() -> Node {
    let node = Node::start_default();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: memory, emptyDir: { medium: Memory }"]));
    node.wait_mounted("default/a");
    node
}

fn unmount_behind_its_back(node: &Node) {
    let place = node.volume_inside("uid-a", EMPTY_DIR, "memory");
    assert!(node.inside("umount").arg(place).status().unwrap().success());
    assert!(node.pod_mounts().is_empty());
}

#[test]
fn a_mount_that_vanishes_is_reported_and_mounted_again() {
    let node = node_with_memory();
    let place = node.volume_inside("uid-a", EMPTY_DIR, "memory");
    assert!(node.inside("umount").arg(place).status().unwrap().success());
    node.wait_event(&["VolumeVanished", "pod default/a", "\"memory\""]);
    node.wait_mounted("default/a");
    assert_eq!(node.pod_mounts().len(), 1);
    // Mounts that volhost unmounts itself have not vanished.
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    assert_eq!(node.ok(&["describe", "pod", "default/a"]).matches("VolumeVanished").count(), 1);
}

#[test]
fn files_written_below_a_vanished_mount_are_kept_and_reported() {
    let node = node_with_memory();
    // So that something can be written before volhost sees it.
    node.poke("-STOP");
    unmount_behind_its_back(&node);
    let folder = node.volume("uid-a", EMPTY_DIR, "memory");
    assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o7777, 0, "closed to every user who may not override modes");
    fs::write(folder.join("file"), "written in good faith").unwrap();
    node.poke("-CONT");
    node.wait_event(&["VolumeVanished", "pod default/a"]);
    node.wait_event(&["FailedMount", "pod default/a", "\"memory\""]);
    assert_eq!(fs::read_to_string(folder.join("file")).unwrap(), "written in good faith");

    fs::remove_file(folder.join("file")).unwrap();
    node.wait_mounted("default/a");
    assert_eq!(node.pod_mounts().len(), 1);
}

#[test]
fn a_mount_that_vanished_while_volhost_was_down_is_made_again() {
    let mut node = node_with_memory();
    node.kill();
    unmount_behind_its_back(&node);
    node.start();
    node.wait_mounted("default/a");
    assert_eq!(node.pod_mounts().len(), 1);
}

#[test]
fn a_busy_mount_is_forced_away_only_by_hand_and_never_under_a_pod_that_wants_it() {
    let node = node_with_memory();
    let refused = node.fails(&["force-unmount", "default/a/memory"]);
    assert!(refused.contains("remove the pod first"), "{refused}");
    assert!(node.fails(&["force-unmount", "a/other"]).contains("has no volume"));
    assert!(node.fails(&["force-unmount", "memory"]).contains("NAMESPACE/POD/VOLUME"));

    let _squatter = Squatter::in_folder(&node, &node.volume_inside("uid-a", EMPTY_DIR, "memory"));
    node.remove_manifest("a.yaml");
    node.wait_event(&["FailedUnmount", "pod default/a", "\"memory\""]);
    node.ok(&["force-unmount", "default/a/memory"]);
    node.wait_event(&["ForcedUnmount", "pod default/a", "\"memory\""]);
    node.wait_unmounted("default/a");
    assert!(node.pod_mounts().is_empty());
}

#[test]
fn a_full_disk_is_reported_and_forgotten_once_there_is_room() {
    let node = Node::builder().prepare("mount -t tmpfs -o nr_inodes=100 root $NODE/root").start();
    let root = node.path(&node.root());
    let fillers: Vec<PathBuf> = (0..1000).map(|at| root.join(format!("filler-{at}"))).collect();
    let made = fillers.iter().take_while(|filler| fs::write(filler, "").is_ok()).count();
    assert!((1..1000).contains(&made), "the disk is full: {made}");
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: disk, emptyDir: {}"]));
    node.wait_event(&["FailedMount", "pod default/a", "No space left"]);
    fillers[..made].iter().for_each(|filler| fs::remove_file(filler).unwrap());
    node.wait_mounted("default/a");
}

#[test]
fn a_read_only_root_folder_is_reported_and_forgotten_once_it_is_writable() {
    let node = Node::builder().prepare("mkdir $NODE/root/pods").start();
    let pods = node.root().join("pods");
    let run = |program: &str, arguments: &[&str]| {
        assert!(node.inside(program).args(arguments).arg(&pods).status().unwrap().success(), "{program} {arguments:?}");
    };
    run("mount", &["--bind", pods.to_str().unwrap()]);
    run("mount", &["-o", "remount,bind,ro"]);
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: disk, emptyDir: {}"]));
    node.wait_event(&["FailedMount", "pod default/a", "Read-only file system"]);
    assert!(node.ok(&["describe", "pod", "default/a"]).contains("Read-only file system"));
    run("umount", &[]);
    node.wait_mounted("default/a");
}

#[test]
fn a_start_on_a_root_folder_that_is_read_only_shows_and_unmounts_what_is_mounted() {
    let remount = |node: &Node, options: &str| {
        let done = node.inside("mount").args(["-o", options]).arg(node.root()).status().unwrap();
        assert!(done.success(), "{options}");
    };
    let mut node = Node::start_default();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: fast, emptyDir: { medium: Memory }"]));
    node.wait_mounted("default/a");
    node.kill();
    remount(&node, "remount,bind,ro");
    node.start();
    node.wait_mounted("default/a");
    assert!(node.ok(&["get", "volumes"]).contains("Mounted"));
    assert_eq!(node.pod_mounts().len(), 1);
    node.remove_manifest("a.yaml");
    node.wait_event(&["FailedUnmount", "default/a", "Read-only file system"]);
    until("the unmount", &node, |_| node.pod_mounts().is_empty().then_some(()));
    remount(&node, "remount,bind,rw");
    node.wait_unmounted("default/a");
}

#[test]
fn a_start_serves_while_the_manifest_folder_hangs_and_says_so() {
    let mut node = Node::start_default();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: fast, emptyDir: { medium: Memory }"]));
    node.wait_mounted("default/a");
    node.kill();
    let server = FuseServer::mount(&node, &node.folder().join("manifests"));
    server.hang_wholly();
    node.start();
    node.wait_event(&["ManifestsNotRead", "manifests", "does not answer"]);
    assert!(node.ok(&["get", "volumes"]).contains("fast"), "{}", node.ok(&["get", "volumes"]));
    assert_eq!(node.pod_mounts().len(), 1, "a folder that does not answer unmounts nothing");
    server.die(&node);
}

#[test]
fn a_volume_whose_record_finds_no_room_is_mounted_and_published_once_more_after_a_restart() {
    let mut node = Node::start_default();
    let state = node.root().join("state");
    let shrunk = node.inside("mount").args(["-o", "remount,size=256k"]).arg(&state).status().unwrap();
    assert!(shrunk.success());
    let filler = node.path(&state).join("filler");
    assert!(fs::write(&filler, vec![0; 512 << 10]).is_err(), "the records' file system is full");
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: disk, emptyDir: {}"]));
    node.wait_mounted("default/a");
    let file = node.volume("uid-a", EMPTY_DIR, "disk").join("file");
    fs::write(&file, "data").unwrap();
    assert!(node.log().contains("its record could not be written"), "{}", node.log());

    node.kill();
    node.start();
    node.wait_mounted("default/a");
    assert_eq!(fs::read_to_string(&file).unwrap(), "data");
    fs::remove_file(&filler).unwrap();
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    until("the end of the volume", &node, |_| (!file.exists()).then_some(()));
}
