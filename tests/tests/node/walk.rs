//! A pod from its manifest to its mounts and back.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use volhost_tests::Node;
use volhost_tests::manifests::{local_volume, pod};
use volhost_tests::wait::eventually;

const EMPTY_DIR: &str = "kubernetes.io~empty-dir";
const HOST_PATH: &str = "kubernetes.io~host-path";
const LOCAL: &str = "kubernetes.io~local-volume";

#[test]
fn an_empty_dir_on_disk_is_a_folder_that_everyone_can_write_and_goes_with_its_pod() {
    let node = Node::start_default();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: scratch, emptyDir: {}"]));
    node.wait_mounted("default/a");
    let folder = node.volume("uid-a", EMPTY_DIR, "scratch");
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o7777, 0o777);
    fs::create_dir(folder.join("deep")).unwrap();
    fs::write(folder.join("deep/file"), "data").unwrap();

    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    assert!(!folder.exists());
}

#[test]
fn an_empty_dir_in_memory_is_a_tmpfs_that_really_limits_and_does_not_swap() {
    let node = Node::start_default();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: fast, emptyDir: { medium: Memory, sizeLimit: 1Mi }"]));
    node.wait_mounted("default/a");
    let mounts = node.pod_mounts();
    assert_eq!(mounts.len(), 1, "{mounts:?}");
    assert_eq!(mounts[0].fs_type, "tmpfs");
    assert!(mounts[0].fs_options.iter().any(|o| o == "noswap"), "{mounts:?}");
    let mut file = fs::File::create(node.volume("uid-a", EMPTY_DIR, "fast").join("big")).unwrap();
    let error = file.write_all(&vec![1; 2 << 20]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}

#[test]
fn a_memory_limit_of_the_pod_limits_its_tmpfs_too() {
    let node = Node::start_default();
    let manifest = pod("a", "uid-a", &["name: fast, emptyDir: { medium: Memory, sizeLimit: 1Gi }"])
        .replace("      image: none\n", "      image: none\n      resources: { limits: { memory: 2Mi } }\n");
    node.manifest("a.yaml", &manifest);
    node.wait_mounted("default/a");
    let mounts = node.pod_mounts();
    assert!(mounts[0].fs_options.iter().any(|o| o == "size=2048k"), "{mounts:?}");
}

#[test]
fn a_host_path_shows_the_hosts_folder_and_what_it_creates_stays() {
    let node = Node::start_default();
    let path = node.folder().join("disk/made/for/it");
    let volume = format!("name: data, hostPath: {{ path: {}, type: DirectoryOrCreate }}", path.display());
    node.manifest("a.yaml", &pod("a", "uid-a", &[&volume]));
    node.wait_mounted("default/a");
    fs::write(node.volume("uid-a", HOST_PATH, "data").join("file"), "from the pod").unwrap();
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    assert_eq!(fs::read_to_string(path.join("file")).unwrap(), "from the pod");
    assert!(node.pod_mounts().is_empty());
}

#[test]
fn a_claim_leads_to_its_local_volume_and_read_only_means_it() {
    let node = Node::start_default();
    let disk = node.folder().join("disk");
    fs::write(disk.join("greeting"), "hello").unwrap();
    node.manifest("pv.yaml", &local_volume("disk1", &disk.display().to_string(), "test-node"));
    node.manifest("rw.yaml", &pod("rw", "uid-rw", &["name: data, persistentVolumeClaim: { claimName: disk1-claim }"]));
    node.manifest(
        "ro.yaml",
        &pod("ro", "uid-ro", &["name: data, persistentVolumeClaim: { claimName: disk1-claim, readOnly: true }"]),
    );
    node.wait_mounted("default/rw");
    node.wait_mounted("default/ro");
    assert_eq!(fs::read_to_string(node.volume("uid-ro", LOCAL, "disk1").join("greeting")).unwrap(), "hello");
    fs::write(node.volume("uid-rw", LOCAL, "disk1").join("new"), "x").unwrap();
    let denied = fs::write(node.volume("uid-ro", LOCAL, "disk1").join("new"), "y").unwrap_err();
    assert_eq!(denied.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
}

#[test]
fn a_local_volume_of_another_node_is_refused_with_the_reason() {
    let node = Node::start_default();
    node.manifest("pv.yaml", &local_volume("disk1", "/nowhere", "other-node"));
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: data, persistentVolumeClaim: { claimName: disk1-claim }"]));
    node.wait_event(&["UnresolvedVolume", "default/a"]);
    node.wait_blocked("default/a", &["other-node", "test-node"]);
}

#[test]
fn a_changed_manifest_takes_effect_on_the_same_pod() {
    let node = Node::start_default();
    let disk = node.folder().join("disk");
    for name in ["one", "two"] {
        fs::create_dir(disk.join(name)).unwrap();
        fs::write(disk.join(name).join("name"), name).unwrap();
    }
    let manifest = |folder: &str| {
        pod(
            "a",
            "uid-a",
            &[&format!("name: data, hostPath: {{ path: {}/{folder} }}", disk.display()), "name: scratch, emptyDir: {}"],
        )
    };
    node.manifest("a.yaml", &manifest("one"));
    node.wait_mounted("default/a");
    let kept = node.volume("uid-a", EMPTY_DIR, "scratch").join("kept");
    fs::write(&kept, "x").unwrap();

    node.manifest("a.yaml", &manifest("two"));
    node.wait_event(&["SuccessfulUnmount", "\"data\""]);
    node.wait_mounted("default/a");
    assert_eq!(fs::read_to_string(node.volume("uid-a", HOST_PATH, "data").join("name")).unwrap(), "two");
    assert!(kept.exists(), "the volume that did not change kept its data");
}

#[test]
fn nothing_of_a_pod_is_left_when_it_is_gone() {
    let node = Node::start_default();
    node.manifest(
        "a.yaml",
        &pod("a", "uid-a", &["name: scratch, emptyDir: {}", "name: fast, emptyDir: { medium: Memory }"]),
    );
    node.wait_mounted("default/a");
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    node.ok(&["drain"]);
    let folders =
        || fs::read_dir(node.path(&node.root().join("pods"))).into_iter().flatten().flatten().collect::<Vec<_>>();
    assert!(eventually(|| folders().is_empty()), "{:?}", folders());
    assert!(node.pod_mounts().is_empty());
}

#[test]
fn a_drained_node_that_ends_leaves_no_mount_at_all() {
    let mut node = Node::start_default();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: fast, emptyDir: { medium: Memory }"]));
    node.wait_mounted("default/a");
    node.ok(&["drain"]);
    assert!(node.terminate().success(), "{}", node.log());
    assert!(node.all_mounts().is_empty(), "{:?}", node.all_mounts());
}

#[test]
fn pods_added_by_request_come_and_go_by_request() {
    let node = Node::start_default();
    let file = node.folder().join("pod.yaml");
    fs::write(&file, pod("asked", "uid-asked", &["name: scratch, emptyDir: {}"])).unwrap();
    node.ok(&["apply", "-f", &file.display().to_string()]);
    node.wait_mounted("default/asked");
    let described = node.ok(&["describe", "pod", "default/asked"]);
    assert!(described.contains("scratch") && described.contains("Mounted"), "{described}");
    node.ok(&["delete", "pod", "default/asked"]);
    node.wait_unmounted("default/asked");
}

#[test]
fn get_lists_what_is_there_in_every_format() {
    let node = Node::start_default();
    node.manifest(
        "a.yaml",
        &pod("a", "uid-a", &["name: scratch, emptyDir: {}", "name: fast, emptyDir: { medium: Memory }"]),
    );
    node.wait_mounted("default/a");
    let pods = node.ok(&["get", "pods"]);
    assert!(pods.contains("NAMESPACE") && pods.contains("2/2") && pods.contains("Mounted"), "{pods}");
    let volumes = node.ok(&["get", "volumes", "-o", "wide"]);
    assert!(
        volumes.contains("kubernetes.io/empty-dir")
            && volumes.contains("pods/uid-a/volumes/kubernetes.io~empty-dir/fast"),
        "{volumes}"
    );
    let plugins = node.ok(&["get", "plugins"]);
    assert!(plugins.contains("kubernetes.io/local-volume") && plugins.contains("Ready"), "{plugins}");
    let json = node.ok(&["get", "pods", "-o", "json"]);
    assert!(json.contains("\"uid-a\""), "{json}");
    let yaml = node.ok(&["get", "pods", "-o", "yaml"]);
    assert!(yaml.contains("uid: uid-a"), "{yaml}");
}

#[test]
fn applying_with_wait_returns_once_the_pod_is_mounted_or_says_why_it_is_not() {
    let node = Node::start_default();
    let write = |name: &str, text: &str| {
        let file = node.folder().join(name);
        fs::write(&file, text).unwrap();
        file.display().to_string()
    };
    let good = write("good.yaml", &pod("a", "uid-a", &["name: scratch, emptyDir: {}"]));
    let said = node.ok(&["apply", "-f", &good, "--wait"]);
    assert!(said.contains("pod default/a applied and mounted"), "{said}");
    assert!(node.volume("uid-a", EMPTY_DIR, "scratch").exists());

    let missing = pod("b", "uid-b", &["name: data, hostPath: { path: /no/such/folder, type: Directory }"]);
    let bad = write("bad.yaml", &missing);
    let said = node.fails(&["apply", "-f", &bad, "--wait", "--timeout", "100ms"]);
    assert!(said.contains("pod default/b is not mounted"), "{said}");
    node.wait_event(&["FailedMount", "default/b", "/no/such/folder"]);
    let said = node.fails(&["apply", "-f", &bad, "--wait", "--timeout", "10ms"]);
    assert!(said.contains("/no/such/folder"), "{said}");
    node.ok(&["describe", "pod", "default/b"]);
}
