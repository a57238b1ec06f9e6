//! What people, programs and disks get wrong: a clear error, nothing changed, nothing else taken
//! down.

use std::fs;

use volhost_tests::Node;
use volhost_tests::manifests::pod;

const EMPTY_DIR: &str = "kubernetes.io~empty-dir";

/// A healthy pod that must not notice anything.
fn with_bystander() -> Node {
    let node = Node::start_default();
    node.manifest("bystander.yaml", &pod("bystander", "uid-bystander", &["name: fast, emptyDir: { medium: Memory }"]));
    node.wait_mounted("default/bystander");
    node
}

fn assert_bystander_is_mounted(node: &Node) {
    assert!(node.volume("uid-bystander", EMPTY_DIR, "fast").is_dir());
    assert!(node.ok(&["get", "pods"]).contains("bystander"));
    assert_eq!(
        node.pod_mounts().iter().filter(|mount| mount.point.to_string_lossy().contains("uid-bystander")).count(),
        1
    );
}

/// What `wait` says of a pod that cannot be mounted.
fn refused(node: &Node, name: &str, volumes: &[&str]) -> String {
    node.manifest(&format!("{name}.yaml"), &pod(name, &format!("uid-{name}"), volumes));
    node.wait_event(&["Warning", &format!("default/{name}")]);
    let said = node.fails(&["wait", "pod", &format!("default/{name}"), "--timeout", "10ms"]);
    assert_bystander_is_mounted(node);
    said
}

#[test]
fn malformed_yaml_names_file_and_line_and_keeps_the_pod_that_was_there() {
    let node = with_bystander();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: fast, emptyDir: { medium: Memory }"]));
    node.wait_mounted("default/a");
    let before = node.pod_mounts();
    node.manifest("a.yaml", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  name: b\nspec: [\n");
    node.wait_event(&["InvalidManifest", "a.yaml:"]);
    assert_eq!(node.pod_mounts(), before);
    node.manifest("c.yaml", &pod("c", "uid-c", &["name: scratch, emptyDir: {}"]));
    node.wait_mounted("default/c");
}

#[test]
fn a_field_of_the_wrong_type_is_named_by_its_path() {
    let node = with_bystander();
    let manifest = pod("a", "uid-a", &["name: scratch, emptyDir: {}"]).replace("name: main", "name: [main]");
    node.manifest("a.yaml", &manifest);
    node.wait_event(&["InvalidManifest", "a.yaml:", "spec.containers[0].name"]);
    assert_bystander_is_mounted(&node);
}

#[test]
fn hostile_names_are_refused() {
    let node = with_bystander();
    for (index, name) in ["..", "a/b", &"x".repeat(10_000), "\"a\\0b\""].into_iter().enumerate() {
        let file = format!("hostile{index}.yaml");
        node.manifest(&file, &pod("a", "uid-a", &["name: scratch, emptyDir: {}"]).replace("scratch", name));
        node.wait_event(&["InvalidManifest", &file]);
    }
    node.manifest("uid.yaml", &pod("a", "../../etc", &["name: scratch, emptyDir: {}"]));
    node.wait_event(&["InvalidManifest", "uid.yaml"]);
    assert_bystander_is_mounted(&node);
}

#[test]
fn an_unknown_source_says_what_is_served() {
    let node = with_bystander();
    let said = refused(&node, "a", &["name: share, nfs: { server: x, path: /y }"]);
    assert!(said.contains("no loaded plugin serves the volume source \"nfs\"") && said.contains("emptyDir"), "{said}");
}

#[test]
fn claims_that_cannot_be_used_say_why() {
    let node = with_bystander();
    let said = refused(&node, "a", &["name: data, persistentVolumeClaim: { claimName: nowhere }"]);
    assert!(said.contains("default/nowhere"), "{said}");

    node.manifest("unbound.yaml", "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: { name: unbound }\nspec: { accessModes: [ReadWriteOnce], resources: { requests: { storage: 1Gi } } }\n");
    let said = refused(&node, "b", &["name: data, persistentVolumeClaim: { claimName: unbound }"]);
    assert!(said.contains("PVC is not bound"), "{said}");

    node.manifest("taken.yaml", "apiVersion: v1\nkind: PersistentVolume\nmetadata: { name: taken }\nspec: { capacity: { storage: 1Gi }, accessModes: [ReadWriteOnce], local: { path: /x }, claimRef: { namespace: default, name: other } }\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: { name: late }\nspec: { accessModes: [ReadWriteOnce], resources: { requests: { storage: 1Gi } }, volumeName: taken }\n");
    let said = refused(&node, "c", &["name: data, persistentVolumeClaim: { claimName: late }"]);
    assert!(said.contains("taken") && said.contains("other"), "{said}");
}

#[test]
fn a_container_that_names_a_volume_the_pod_lacks_is_reported() {
    let node = with_bystander();
    let manifest = pod("a", "uid-a", &["name: scratch, emptyDir: {}"])
        .replace("- { name: scratch, mountPath", "- { name: skratch, mountPath");
    node.manifest("a.yaml", &manifest);
    node.wait_event(&["UnresolvedVolume", "default/a"]);
    let said = node.fails(&["wait", "pod", "default/a", "--timeout", "10ms"]);
    assert!(said.contains("skratch") && said.contains("has only scratch"), "{said}");
}

#[test]
fn a_host_path_of_the_wrong_type_says_what_it_is_not() {
    let node = with_bystander();
    let file = node.folder().join("disk/file");
    fs::write(&file, "x").unwrap();
    let said =
        refused(&node, "a", &[&format!("name: data, hostPath: {{ path: {}, type: Directory }}", file.display())]);
    assert!(said.contains("is not a directory"), "{said}");
    let said = refused(&node, "b", &["name: data, hostPath: { path: /nowhere/at/all }"]);
    assert!(said.contains("/nowhere/at/all") && said.contains("DirectoryOrCreate"), "{said}");
    let said = refused(&node, "c", &["name: data, hostPath: { path: /etc/../etc, type: Directory }"]);
    assert!(said.contains("hostPath.path"), "{said}");
}

#[test]
fn a_wrong_field_of_a_source_is_named_with_what_is_right() {
    let node = with_bystander();
    let said = refused(&node, "a", &["name: fast, emptyDir: { medium: Floppy }"]);
    assert!(said.contains("emptyDir.medium") && said.contains("Floppy") && said.contains("Memory"), "{said}");
    let said = refused(&node, "b", &["name: fast, emptyDir: { medum: Memory }"]);
    assert!(said.contains("medum") && said.contains("medium"), "{said}");
}

#[test]
fn a_target_that_is_taken_is_left_as_it_is() {
    for (what, prepare, left) in [
        ("a mount", "mkdir -p $T && mount -t tmpfs elsewhere $T", "test -d $T && mountpoint -q $T"),
        ("a file", "mkdir -p $(dirname $T) && echo precious > $T", "grep -q precious $T"),
        (
            "a symlink",
            "mkdir -p $(dirname $T) $NODE/outside && touch $NODE/outside/precious && ln -s $NODE/outside $T",
            "test -L $T && test -f $NODE/outside/precious",
        ),
        (
            "a symlink on the way",
            "mkdir -p $NODE/outside $(dirname $(dirname $T)) && touch $NODE/outside/precious && ln -s $NODE/outside $(dirname $T)",
            "test -f $NODE/outside/precious && test ! -e $NODE/outside/fast",
        ),
    ] {
        // Before the daemon makes the root folder a mount of its own.
        let set_target = "T=$NODE/root/pods/uid-a/volumes/kubernetes.io~empty-dir/fast; ";
        let node = Node::builder().prepare(&format!("{set_target}{prepare}")).start();
        node.manifest("a.yaml", &pod("a", "uid-a", &["name: fast, emptyDir: { medium: Memory }"]));
        if what != "a mount" {
            node.wait_event(&["FailedMount", "default/a"]);
            node.fails(&["wait", "pod", "default/a", "--timeout", "10ms"]);
        }
        let kept = node
            .inside("sh")
            .args(["-euc", &format!("{set_target}{left}")])
            .env("NODE", node.folder())
            .status()
            .unwrap();
        assert!(kept.success(), "{what} was touched; log:\n{}", node.log());
    }
}

#[test]
fn a_full_disk_is_named_and_leaves_nothing_half_done() {
    let node = Node::builder()
        .prepare("mount -t tmpfs -o size=1m,mode=0755 small $NODE/root && dd if=/dev/zero of=$NODE/root/filler bs=1k count=2000 2>/dev/null || true")
        .build();
    let mut node = node;
    if node.try_start() {
        node.manifest("a.yaml", &pod("a", "uid-a", &["name: scratch, emptyDir: {}"]));
        node.wait_event(&["FailedMount", "No space left on device"]);
        fs::remove_file(node.path(&node.root().join("filler"))).unwrap();
        node.wait_mounted("default/a");
    } else {
        assert!(node.log().contains("No space left on device"), "{}", node.log());
        fs::remove_file(node.path(&node.root().join("filler"))).unwrap();
        node.start();
    }
}

#[test]
fn a_root_folder_and_a_socket_have_one_daemon() {
    let node = with_bystander();
    let run = |root: &str, socket: &str| {
        let folder = node.folder();
        let output = node
            .inside(volhost_tests::artifacts::volhostd())
            .args(["run", "--node-name", "second", "--root-dir", &folder.join(root).display().to_string()])
            .args([
                "--socket",
                &folder.join(socket).display().to_string(),
                "--plugin-dir",
                &folder.join("plugins").display().to_string(),
            ])
            .args(["--cache-dir", &folder.join("cache").display().to_string()])
            .output()
            .unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = run("root", "other.sock");
    assert!(said.contains("root") && said.contains(&node.pid().to_string()), "{said}");
    let said = run("other-root", "volhost.sock");
    assert!(said.contains("volhost.sock"), "{said}");
    assert_bystander_is_mounted(&node);
}
