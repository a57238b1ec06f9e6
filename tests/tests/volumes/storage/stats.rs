//! How full volumes are, as users see it.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use volhost_tests::Node;
use volhost_tests::fuse::FuseServer;
use volhost_tests::manifests::{local_volume, pod};
use volhost_tests::wait::eventually;

const MIB: u64 = 1 << 20;

fn bytes(usage: &Value, figure: &str) -> u64 {
    usage[figure].as_u64().unwrap_or_else(|| panic!("no {figure} in {usage}"))
}

#[test]
fn a_file_system_of_its_own_says_it_and_a_folder_is_added_up() {
    let node = Node::start_default();
    let volumes = ["name: disk, emptyDir: {}", "name: memory, emptyDir: { medium: Memory, sizeLimit: 8Mi }"];
    node.manifest("a.yaml", &pod("a", "uid-a", &volumes));
    node.wait_mounted("default/a");
    for name in ["disk", "memory"] {
        let volume = node.volume("uid-a", "kubernetes.io~empty-dir", name);
        fs::write(volume.join("file"), vec![7; usize::try_from(MIB).unwrap()]).unwrap();
    }

    let memory = node.wait_usage("memory");
    let (capacity, used) = (bytes(&memory, "capacity"), bytes(&memory, "used"));
    assert_eq!((capacity, used, bytes(&memory, "available")), (8 * MIB, MIB, 7 * MIB));

    let disk = node.wait_usage("disk");
    // A file system may take some more for itself, but other files on the disk do not count.
    let used = bytes(&disk, "used");
    assert!((MIB..2 * MIB).contains(&used), "{disk}");
    assert_eq!(bytes(&disk, "inodesUsed"), 2, "the folder and the file");
    assert!(bytes(&disk, "capacity") > used && bytes(&disk, "available") > 0, "what is left is left to all");

    let wide = node.ok(&["get", "volumes", "-o", "wide"]);
    for text in ["CAPACITY", "8.0Mi", "1.0Mi (12%)", "7.0Mi"] {
        assert!(wide.contains(text), "{text} is missing in\n{wide}");
    }
    assert!(!node.ok(&["get", "volumes"]).contains("8.0Mi"), "the short table asks no storage");
    let described = node.ok(&["describe", "pod", "default/a"]);
    assert!(described.contains("1.0Mi (12%)") && described.contains("Measured:"), "{described}");
    let top = node.ok(&["top", "--once"]);
    let rows = top.split("Fullest volumes:").nth(1).unwrap_or_else(|| panic!("{top}"));
    let first = rows.lines().nth(2).unwrap();
    assert!(first.starts_with("memory") && first.contains("12%"), "{top}");
}

/// A node with a volume on a FUSE file system that hangs from now on, and a good one, both used by
/// pod `a`.
fn node_with_a_hung_volume() -> (Node, FuseServer) {
    let node = Node::builder().prepare("mkdir $NODE/disk/good $NODE/disk/hung").start();
    let disk = |name: &str| -> PathBuf { node.folder().join("disk").join(name) };
    let server = FuseServer::mount(&node, &disk("hung"));
    let claims =
        ["good", "hung"].map(|name| format!("name: {name}, persistentVolumeClaim: {{ claimName: {name}-claim }}"));
    let volumes = ["good", "hung"].map(|name| local_volume(name, &disk(name).display().to_string(), "test-node"));
    let wanted = pod("a", "uid-a", &claims.each_ref().map(String::as_str));
    node.manifest("a.yaml", &format!("{}---\n{}---\n{wanted}", volumes[0], volumes[1]));
    node.wait_mounted("default/a");
    server.hang();
    (node, server)
}

#[test]
fn a_volume_whose_storage_hangs_says_so_and_delays_no_others_figures() {
    let (node, server) = node_with_a_hung_volume();
    let usage_of = |name: &str| {
        let shown: Value = serde_json::from_str(&node.ok(&["get", "volumes", "-o", "json"])).unwrap();
        let all = shown["items"].as_array().unwrap();
        let found = all.iter().find(|volume| volume["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("{shown}"))["status"]["usage"].clone()
    };
    assert!(eventually(|| usage_of("good")["capacity"].as_u64() > Some(0)), "{}", usage_of("good"));
    assert!(eventually(|| server.is_asked()));
    let hung = usage_of("hung");
    assert!(hung["askedAt"].is_string() && hung["capacity"].is_null(), "{hung}");

    let described = || node.ok(&["describe", "volume", "hung"]);
    assert!(eventually(|| described().contains("has not answered for")), "{}", described());
    assert!(described().contains("Mounted"), "{}", described());
    let top = node.ok(&["top", "--once"]);
    let rows = top.split("Fullest volumes:").nth(1).unwrap();
    assert!(rows.lines().nth(2).unwrap().starts_with("hung"), "what hangs comes first:\n{top}");

    server.go_on();
    let back = node.wait_usage("hung");
    assert_eq!((bytes(&back, "capacity"), bytes(&back, "used")), (4_096_000, 2_048_000));
    assert_eq!(bytes(&back, "inodesUsed"), 50);
}
