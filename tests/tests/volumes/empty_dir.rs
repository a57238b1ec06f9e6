//! `emptyDir` in every medium and with a limit, on a real kernel; and its data, which nothing may
//! take but the end of its pod.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use volhost_tests::manifests::pod;
use volhost_tests::{Node, artifacts};

const EMPTY_DIR: &str = "kubernetes.io~empty-dir";
const MIB: usize = 1 << 20;
/// Puts the root folder on a btrfs of its own, whose quotas are on. The loop device goes with the
/// node's namespace.
const BTRFS_ROOT: &str = "truncate -s 512M $NODE/btrfs.img; mkfs.btrfs --quiet $NODE/btrfs.img; \
    mount -o loop $NODE/btrfs.img $NODE/root; btrfs quota enable $NODE/root";

fn volume(node: &Node, name: &str) -> PathBuf {
    node.volume("uid-a", EMPTY_DIR, name)
}

/// The pod of [`pod`] whose container asks for these resources.
fn pod_asking(resources: &str, volumes: &[&str]) -> String {
    let resources = format!("image: none\n      resources: {{ limits: {{ {resources} }} }}\n");
    pod("a", "uid-a", volumes).replace("image: none\n", &resources)
}

/// Writes until it is refused, and says why.
fn fill(folder: &std::path::Path, most: usize) -> Option<std::io::ErrorKind> {
    (0..most).find_map(|n| fs::write(folder.join(n.to_string()), vec![7; MIB]).err()).map(|error| error.kind())
}

/// The plugin file with a section more, which changes nothing but its digest.
fn next_version() -> Vec<u8> {
    let mut bytes = fs::read(artifacts::plugin("empty-dir")).unwrap();
    bytes.extend([0, 5, 4, b'n', b'e', b'x', b't']);
    bytes
}

/// The operator's leave for both versions to have the plugin's name: the second does not come with
/// volhost.
fn both_versions() -> String {
    let digest = |bytes: &[u8]| -> String {
        <sha2::Sha256 as sha2::Digest>::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let digests = [digest(&fs::read(artifacts::plugin("empty-dir")).unwrap()), digest(&next_version())];
    format!("[grants.\"kubernetes.io/empty-dir\"]\ninterfaces = [\"huge-pages\", \"quotas\"]\nsha256 = {digests:?}\n")
}

fn install_next_version(node: &Node) {
    let folder = node.folder().join("plugins");
    fs::write(folder.join(".empty-dir.wasm"), next_version()).unwrap();
    fs::rename(folder.join(".empty-dir.wasm"), folder.join("empty-dir.wasm")).unwrap();
}

#[test]
fn huge_pages_stand_on_any_node_and_go_with_their_pod() {
    let node = Node::start_default();
    let volumes = ["name: pages, emptyDir: { medium: HugePages, sizeLimit: 4Mi }"];
    let grouped =
        pod_asking("hugepages-2Mi: 8Mi", &volumes).replace("spec:\n", "spec:\n  securityContext: { fsGroup: 4321 }\n");
    node.manifest("a.yaml", &grouped);
    node.wait_mounted("default/a");
    let mounts = node.pod_mounts();
    assert_eq!((mounts.len(), mounts[0].fs_type.as_str()), (1, "hugetlbfs"), "{mounts:?}");
    for option in ["pagesize=2M", "size=4194304"] {
        assert!(mounts[0].fs_options.iter().any(|found| found == option), "{option}: {mounts:?}");
    }
    let root = fs::metadata(volume(&node, "pages")).unwrap();
    assert_eq!((root.mode() & 0o7777, root.gid()), (0o2777, 4321));
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    assert!(node.pod_mounts().is_empty());
}

#[test]
fn huge_pages_that_cannot_be_are_refused_with_the_reason() {
    let node = Node::start_default();
    let pages = ["name: pages, emptyDir: { medium: HugePages }"];
    node.manifest("a.yaml", &pod_asking("hugepages-2Mi: 8Mi, hugepages-1Gi: 1Gi", &pages));
    node.wait_event(&["FailedMount", "default/a", "emptyDir.medium", "several sizes of huge pages (2Mi, 1Gi)"]);
    node.manifest("a.yaml", &pod_asking("memory: 8Mi", &pages));
    node.wait_event(&["FailedMount", "default/a", "emptyDir.medium", "no container requests huge pages"]);
    node.manifest("a.yaml", &pod_asking("hugepages-4Mi: 8Mi", &pages));
    node.wait_event(&["FailedMount", "default/a", "test-node has no huge pages of 4Mi", "hugepages-2048kB"]);
    assert!(node.pod_mounts().is_empty());
    node.manifest("a.yaml", &pod_asking("hugepages-2Mi: 8Mi", &pages));
    node.wait_mounted("default/a");
}

#[test]
fn a_limit_on_disk_is_enforced_on_btrfs_and_the_data_outlives_all_but_the_pod() {
    let mut node = Node::builder().config(&both_versions()).prepare(BTRFS_ROOT).start();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: cache, emptyDir: { sizeLimit: 8Mi }"]));
    node.wait_mounted("default/a");
    fs::write(volume(&node, "cache").join("kept"), "precious").unwrap();
    assert_eq!(fill(&volume(&node, "cache"), 64), Some(std::io::ErrorKind::QuotaExceeded));

    let kept = |node: &Node, what: &str| {
        assert_eq!(fs::read_to_string(volume(node, "cache").join("kept")).unwrap(), "precious", "{what}");
        assert_eq!(fill(&volume(node, "cache"), 64), Some(std::io::ErrorKind::QuotaExceeded), "{what}");
    };
    node.kill();
    node.start();
    node.wait_mounted("default/a");
    kept(&node, "a crash");
    install_next_version(&node);
    node.wait_event(&["PluginLoaded", "kubernetes.io/empty-dir"]);
    node.wait_mounted("default/a");
    kept(&node, "another version of the plugin");

    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    assert!(!volume(&node, "cache").exists());
    node.manifest("b.yaml", &pod("b", "uid-b", &["name: cache, emptyDir: { sizeLimit: 8Mi }"]));
    node.wait_mounted("default/b");
    assert_eq!(fs::read_dir(node.volume("uid-b", EMPTY_DIR, "cache")).unwrap().count(), 0);
}

#[test]
fn a_limit_on_disk_that_nothing_enforces_is_measured_and_reported_once() {
    let mut node = Node::start_default();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: cache, emptyDir: { sizeLimit: 1Mi }"]));
    node.wait_mounted("default/a");
    assert_eq!(fill(&volume(&node, "cache"), 2), None, "nothing stops it here");
    let exceeds = ["ExceedsSizeLimit", "default/a", "volume \"cache\"", "exceeds its limit of 1048576"];
    node.wait_event(&exceeds);
    let described = node.ok(&["describe", "pod", "default/a"]);
    assert!(described.contains("exceeds its limit"), "{described}");
    fs::remove_file(volume(&node, "cache").join("0")).unwrap();
    fs::remove_file(volume(&node, "cache").join("1")).unwrap();
    node.wait_event(&["WithinSizeLimit", "default/a", "volume \"cache\""]);

    // What the pod's containers may put on the disk limits each such volume too.
    let limits = "image: none\n      resources: { limits: { ephemeral-storage: 1Mi } }";
    let limited = pod("b", "uid-b", &["name: cache, emptyDir: {}"]).replace("image: none", limits);
    node.manifest("b.yaml", &limited);
    node.wait_mounted("default/b");
    assert_eq!(fill(&node.volume("uid-b", EMPTY_DIR, "cache"), 2), None);
    node.wait_event(&["ExceedsSizeLimit", "default/b", "volume \"cache\"", "exceeds its limit of 1048576"]);

    // The limit is known again after a restart, though nothing is set up anew.
    node.kill();
    assert_eq!(fill(&volume(&node, "cache"), 2), None);
    node.start();
    node.wait_event(&exceeds);
    assert!(!node.ok(&["events"]).contains("SuccessfulMount"), "{}", node.ok(&["events"]));
}

#[test]
fn a_restarted_machine_finds_the_data_on_disk_and_makes_the_rest_anew() {
    let mut node = Node::start_default();
    let volumes = [
        "name: plain, emptyDir: {}",
        "name: limited, emptyDir: { sizeLimit: 64Mi }",
        "name: fast, emptyDir: { medium: Memory }",
    ];
    node.manifest("a.yaml", &pod("a", "uid-a", &volumes));
    node.wait_mounted("default/a");
    for name in ["plain", "limited", "fast"] {
        fs::write(volume(&node, name).join("file"), name).unwrap();
    }
    node.kill();
    // Of what is mounted a restart leaves nothing.
    let unmounted = node.inside("umount").arg("--recursive").arg(node.root()).status().unwrap();
    assert!(unmounted.success() && node.all_mounts().is_empty(), "{:?}", node.all_mounts());
    node.start();
    node.wait_mounted("default/a");
    assert_eq!(node.pod_mounts().len(), 1);
    for name in ["plain", "limited"] {
        assert_eq!(fs::read_to_string(volume(&node, name).join("file")).unwrap(), name);
    }
    assert_eq!(fs::read_dir(volume(&node, "fast")).unwrap().count(), 0, "memory forgets");
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    assert!(!volume(&node, "plain").exists() && !volume(&node, "limited").exists());
}
