//! Parts of volumes (`subPath`, `subPathExpr`) end to end: made, mounted, kept over restarts,
//! refused, raced, and unmounted.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use volhost_tests::{Node, artifacts};

const EMPTY_DIR: &str = "kubernetes.io~empty-dir";

/// A pod `a` whose container `main` mounts the volume `data` so; each mount is the rest of a YAML
/// flow map.
fn pod(source: &str, mounts: &[&str]) -> String {
    with_containers(source, &[("main", "", mounts)])
}

fn with_containers(source: &str, containers: &[(&str, &str, &[&str])]) -> String {
    let mut text =
        "apiVersion: v1\nkind: Pod\nmetadata: { name: a, uid: uid-a, labels: { tier: front } }\nspec:\n  containers:\n"
            .to_owned();
    for (name, more, mounts) in containers {
        text.push_str(&format!("    - name: {name}\n      image: none\n{more}      volumeMounts:\n"));
        for (index, mount) in mounts.iter().enumerate() {
            text.push_str(&format!("        - {{ name: data, mountPath: /m{index}, {mount} }}\n"));
        }
    }
    text + &format!("  volumes:\n    - {{ name: data, {source} }}\n")
}

/// Returns the path of a part, as seen from the test.
fn part(node: &Node, container: &str, index: usize) -> PathBuf {
    node.path(&node.root().join(format!("pods/uid-a/volume-subpaths/data/{container}/{index}")))
}

fn disk_source(node: &Node) -> String {
    format!("hostPath: {{ path: {} }}", node.folder().join("disk").display())
}

fn assert_nothing_is_left(node: &Node) {
    assert_eq!(node.pod_mounts(), Vec::new());
    let left = node.path(&node.root().join("pods/uid-a/volume-subpaths"));
    assert!(!left.exists(), "{}", left.display());
}

#[test]
fn folders_files_and_missing_ones_are_shown_and_go_with_the_pod() {
    let node = Node::start_default();
    let disk = node.folder().join("disk");
    fs::create_dir(disk.join("folder")).unwrap();
    fs::write(disk.join("folder/file"), "in the folder").unwrap();
    fs::set_permissions(&disk, fs::Permissions::from_mode(0o2751)).unwrap();
    let mounts =
        ["subPath: folder", "subPath: folder/file, readOnly: true", "subPath: new/deep", "subPath: ./folder//"];
    node.manifest("a.yaml", &pod(&disk_source(&node), &mounts));
    node.wait_mounted("default/a");
    assert_eq!(fs::read_to_string(part(&node, "main", 0).join("file")).unwrap(), "in the folder");
    assert_eq!(fs::read_to_string(part(&node, "main", 1)).unwrap(), "in the folder");
    assert!(fs::write(part(&node, "main", 1), "x").is_err(), "it is read-only");
    fs::write(part(&node, "main", 3).join("file"), "changed").unwrap();
    for made in ["new", "new/deep"] {
        assert_eq!(fs::metadata(disk.join(made)).unwrap().mode() & 0o7777, 0o2751, "{made}");
    }
    fs::write(part(&node, "main", 2).join("kept"), "x").unwrap();

    let described = node.ok(&["describe", "pod", "a"]);
    assert!(described.contains("volume-subpaths/data/main/2") && described.contains("new/deep"), "{described}");
    let json: serde_json::Value = serde_json::from_str(&node.ok(&["get", "pod", "a", "-o", "json"])).unwrap();
    let shown = &json["status"]["volumes"][0]["containerMounts"][1];
    assert_eq!(shown["subPath"], "folder/file");
    assert_eq!(shown["path"], "pods/uid-a/volume-subpaths/data/main/1");
    assert_eq!(shown["readOnly"], true);

    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    assert_nothing_is_left(&node);
    assert_eq!(fs::read_to_string(disk.join("folder/file")).unwrap(), "changed");
    assert_eq!(fs::read_to_string(disk.join("new/deep/kept")).unwrap(), "x");
}

#[test]
fn an_expression_is_expanded_from_the_containers_variables() {
    let node = Node::start_default();
    let env = "      env:\n        - { name: WHO, value: me }\n        - { name: TIER, valueFrom: { fieldRef: { fieldPath: \"metadata.labels['tier']\" } } }\n        - { name: BOTH, value: $(WHO)-$(TIER) }\n        - { name: NODE, valueFrom: { fieldRef: { fieldPath: spec.nodeName } } }\n";
    node.manifest(
        "a.yaml",
        &with_containers(
            "emptyDir: {}",
            &[
                ("main", env, &["subPathExpr: $(BOTH)/$(NODE)", "subPathExpr: $$(WHO)"]),
                ("side", "", &["subPath: me-front"]),
            ],
        ),
    );
    node.wait_mounted("default/a");
    let volume = node.volume("uid-a", EMPTY_DIR, "data");
    assert!(volume.join("me-front/test-node").is_dir() && volume.join("$(WHO)").is_dir());
    fs::write(part(&node, "main", 0).join("file"), "x").unwrap();
    assert!(part(&node, "side", 0).join("test-node/file").exists());
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    assert_nothing_is_left(&node);
}

#[test]
fn what_cannot_be_expanded_says_which_variable_and_a_better_manifest_mends_it() {
    let node = Node::start_default();
    let env = "      env:\n        - { name: KEY, valueFrom: { configMapKeyRef: { name: c, key: k } } }\n        - { name: UP, value: a/../b }\n";
    for (expression, words) in [
        ("$(NONE)", ["volumeMounts[0].subPathExpr", "the variable NONE is not in the container's env"]),
        ("x/$(KEY)", ["a.yaml:", "the variable KEY comes from a config map"]),
        ("$(UP)", ["the result", "must not contain '..'"]),
    ] {
        let mount = format!("subPathExpr: {expression}");
        node.manifest("a.yaml", &with_containers("emptyDir: {}", &[("main", env, &[&mount])]));
        node.wait_event(&["UnresolvedVolume", words[0], words[1]]);
    }
    node.manifest("a.yaml", &with_containers("emptyDir: {}", &[("main", env, &["subPathExpr: plain"])]));
    node.wait_mounted("default/a");
    assert!(part(&node, "main", 0).is_dir());
}

#[test]
fn mistakes_in_volume_mounts_are_refused_with_their_field_and_change_nothing() {
    let node = Node::start_default();
    node.manifest("a.yaml", &pod("emptyDir: {}", &["subPath: one"]));
    node.wait_mounted("default/a");
    let before = node.pod_mounts();
    for (mount, field, words) in [
        ("subPath: /abs", "subPath", "must be a relative path"),
        ("subPath: a/../b", "subPath", "must not contain '..'"),
        ("subPathExpr: ../$(A)", "subPathExpr", "must not contain '..'"),
        ("subPath: a, subPathExpr: b", "subPathExpr", "mutually exclusive"),
        ("mountPropagation: Sideways", "mountPropagation", "no propagation"),
        ("mountPropagation: Bidirectional", "mountPropagation", "privileged"),
        ("recursiveReadOnly: Enabled", "recursiveReadOnly", "readOnly: true"),
        ("recursiveReadOnly: IfPossible", "recursiveReadOnly", "readOnly: true"),
        ("recursiveReadOnly: Always, readOnly: true", "recursiveReadOnly", "no such setting"),
        (
            "recursiveReadOnly: Enabled, readOnly: true, mountPropagation: HostToContainer",
            "recursiveReadOnly",
            "mountPropagation is None",
        ),
    ] {
        let text = pod("emptyDir: {}", &[mount]).replace("uid-a", "uid-b").replace("name: a,", "name: b,");
        let file = node.folder().join("wrong.yaml");
        fs::write(&file, &text).unwrap();
        let said = node.fails(&["apply", "-f", &file.display().to_string()]);
        let field = format!("spec.containers[0].volumeMounts[0].{field}");
        assert!(said.contains(&field) && said.contains(words), "{mount}: {said}");
    }
    let twice = with_containers("emptyDir: {}", &[("main", "", &["subPath: x"]), ("main", "", &["subPath: y"])]);
    node.manifest("a.yaml", &twice);
    node.wait_event(&["InvalidManifest", "spec.containers[1].name", "is taken by"]);
    assert_eq!(node.pod_mounts(), before);
}

#[test]
fn parts_are_adopted_after_a_crash_and_unmounted_for_pods_that_are_gone() {
    let mut node = Node::start_default();
    let manifest = pod(&disk_source(&node), &["subPath: one", "subPath: two, readOnly: true"]);
    node.manifest("a.yaml", &manifest);
    node.wait_mounted("default/a");
    let before = node.pod_mounts();
    node.kill();
    node.start();
    node.wait_mounted("default/a");
    assert_eq!(node.pod_mounts(), before, "the same mounts exist");
    // A part vanished while no daemon ran.
    node.kill();
    let gone = node.root().join("pods/uid-a/volume-subpaths/data/main/0");
    assert!(node.inside("umount").arg(&gone).status().unwrap().success());
    node.start();
    node.wait_mounted("default/a");
    assert_eq!(node.pod_mounts().len(), before.len());
    fs::write(part(&node, "main", 0).join("file"), "x").unwrap();
    assert!(node.folder().join("disk/one/file").exists());
    node.kill();
    node.remove_manifest("a.yaml");
    node.start();
    node.wait_unmounted("default/a");
    assert_nothing_is_left(&node);
}

#[test]
fn a_changed_pod_gets_other_parts_and_keeps_the_same_ones() {
    let node = Node::start_default();
    let apply = |mounts: &[&str]| {
        let file = node.folder().join("a.yaml");
        fs::write(&file, pod("emptyDir: {}", mounts)).unwrap();
        node.ok(&["apply", "-f", &file.display().to_string(), "--wait", "--timeout", "180s"]);
    };
    apply(&["subPath: one", "subPath: two", "subPath: three"]);
    let kept = fs::metadata(part(&node, "main", 0)).unwrap().ino();
    apply(&["subPath: one", "subPath: other"]);
    assert_eq!(fs::metadata(part(&node, "main", 0)).unwrap().ino(), kept);
    fs::write(part(&node, "main", 1).join("file"), "x").unwrap();
    assert!(node.volume("uid-a", EMPTY_DIR, "data").join("other/file").exists());
    assert!(!part(&node, "main", 2).exists());
    assert_eq!(node.pod_mounts().len(), 2);
}

#[test]
fn a_part_that_cannot_be_shown_is_named_and_tried_again() {
    let node = Node::start_default();
    let disk = node.folder().join("disk");
    let outside = node.folder().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("precious"), "x").unwrap();
    symlink(&outside, disk.join("absolute")).unwrap();
    symlink("../outside", disk.join("relative")).unwrap();
    symlink("/", disk.join("root")).unwrap();
    fs::write(disk.join("file"), "x").unwrap();
    let _socket = UnixListener::bind(disk.join("socket")).unwrap();
    for (sub_path, words) in [
        ("absolute", "leads out of its volume"),
        ("absolute/new", "leads out of its volume"),
        ("relative/new", "leads out of its volume"),
        ("root/etc", "leads out of its volume"),
        ("file/below", "expected a folder"),
    ] {
        let mount = format!("subPath: {sub_path}");
        node.manifest("a.yaml", &pod(&disk_source(&node), &["subPath: good", &mount]));
        node.wait_event(&["FailedMount", "volumeMounts[1] of container \"main\"", sub_path, words]);
        assert!(part(&node, "main", 0).is_dir(), "the others are shown");
        let waiting = node.fails(&["wait", "pod", "a", "--timeout", "10ms"]);
        assert!(waiting.contains("MountVolume.PrepareSubPath") || waiting.contains("volume_mount"), "{waiting}");
        node.remove_manifest("a.yaml");
        node.wait_unmounted("default/a");
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "nothing was made outside");
    assert_nothing_is_left(&node);

    node.manifest("a.yaml", &pod(&disk_source(&node), &["subPath: absolute", "subPath: socket"]));
    node.wait_event(&["FailedMount", "absolute"]);
    fs::remove_file(disk.join("absolute")).unwrap();
    node.wait_mounted("default/a");
    assert!(disk.join("absolute").is_dir());
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    assert_nothing_is_left(&node);
}

#[test]
fn a_read_only_volume_makes_no_part_and_says_so() {
    let node = Node::builder().plugin(artifacts::plugin("config-map")).start();
    node.manifest("c.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: c }\ndata: { there: first }\n");
    node.manifest("a.yaml", &pod("configMap: { name: c }", &["subPath: there", "subPath: later"]));
    node.wait_event(&["FailedMount", "volumeMounts[1] of container \"main\"", "later", "the volume is read-only"]);
    // The key comes, and the other one changes: a restarted container gets the current config map.
    node.manifest(
        "c.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: c }\ndata: { there: second, later: new }\n",
    );
    node.wait_mounted("default/a");
    assert_eq!(fs::read_to_string(part(&node, "main", 1)).unwrap(), "new");
    assert_eq!(fs::read_to_string(part(&node, "main", 0)).unwrap(), "second");
    assert_eq!(node.pod_mounts().len(), 2);
}

#[test]
fn a_link_swapped_in_while_parts_are_mounted_leads_no_pod_out() {
    let node = Node::start_default();
    let (disk, outside) = (node.folder().join("disk"), node.folder().join("outside"));
    fs::create_dir_all(outside.join("inner")).unwrap();
    fs::write(outside.join("inner/precious"), "x").unwrap();
    fs::create_dir_all(disk.join("dir/inner")).unwrap();
    symlink(&outside, disk.join("link")).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = std::thread::spawn({
        let (stop, disk) = (Arc::clone(&stop), disk.clone());
        move || {
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, disk.join("dir"), CWD, disk.join("link"), RenameFlags::EXCHANGE).unwrap();
            }
        }
    });
    let mounts: Vec<String> = (0..40)
        .map(|n| if n % 2 == 0 { "subPath: dir/inner".to_owned() } else { format!("subPath: dir/new{n}") })
        .collect();
    let mounts: Vec<&str> = mounts.iter().map(String::as_str).collect();
    for _ in 0..5 {
        node.manifest("a.yaml", &pod(&disk_source(&node), &mounts));
        // It may or may not get through, depending on the links at that moment.
        node.cli(&["wait", "pod", "a", "--timeout", "1s"]);
        for index in 0..mounts.len() {
            let shown = part(&node, "main", index);
            assert!(!shown.join("precious").exists(), "{}", shown.display());
        }
        node.remove_manifest("a.yaml");
        node.wait_unmounted("default/a");
        assert_nothing_is_left(&node);
    }
    stop.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    let mut outside_has: Vec<_> = fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    outside_has.sort();
    assert_eq!(outside_has, ["inner"], "nothing was made outside");
}

#[test]
fn hundreds_of_parts_are_shown_and_go_in_one_sweep() {
    let node = Node::start_default();
    let mounts: Vec<String> = (0..300).map(|index| format!("subPath: part/{index}")).collect();
    let mounts: Vec<&str> = mounts.iter().map(String::as_str).collect();
    node.manifest("a.yaml", &pod("emptyDir: { medium: Memory }", &mounts));
    node.wait_mounted("default/a");
    assert_eq!(node.pod_mounts().len(), 301);
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    assert_nothing_is_left(&node);
}

#[test]
fn what_was_put_among_the_parts_stays_and_keeps_no_volume() {
    let node = Node::start_default();
    node.manifest("a.yaml", &pod("emptyDir: {}", &["subPath: one"]));
    node.wait_mounted("default/a");
    let stray = node.path(&node.root().join("pods/uid-a/volume-subpaths/data/stray"));
    fs::write(&stray, "precious").unwrap();
    node.remove_manifest("a.yaml");
    node.wait_event(&["SubPathLeftover", "stray"]);
    node.wait_unmounted("default/a");
    assert_eq!(fs::read_to_string(&stray).unwrap(), "precious");
    assert_eq!(node.pod_mounts(), Vec::new());
}
