//! `hostPath`: each of its types against each thing that a node has.

use std::fs;
use std::os::unix::fs::FileTypeExt;

use volhost_tests::Node;
use volhost_tests::manifests::pod;

/// What the node has, the type that wants it, and the kubelet's word for that.
const THINGS: [(&str, &str, &str); 5] = [
    ("folder", "Directory", "directory"),
    ("file", "File", "file"),
    ("socket", "Socket", "socket file"),
    ("null", "CharDevice", "character device"),
    ("disk", "BlockDevice", "block device"),
];
const PREPARE: &str =
    "cd $NODE/disk; mkdir folder; echo hello > file; mknod null c 1 3; mknod disk b 7 0; ln -s folder link";

fn node() -> Node {
    let node = Node::builder().prepare(PREPARE).start();
    std::os::unix::net::UnixListener::bind(node.folder().join("disk/socket")).unwrap();
    node
}

fn host_path(node: &Node, name: &str, thing: &str, path_type: &str) -> String {
    let path = node.folder().join("disk").join(thing);
    let path_type = if path_type.is_empty() { String::new() } else { format!(", type: {path_type}") };
    format!("name: {name}, hostPath: {{ path: {}{path_type} }}", path.display())
}

#[test]
fn every_thing_is_mounted_where_its_type_or_none_is_asked_for() {
    let node = node();
    let mut volumes = Vec::new();
    for (thing, path_type, _) in THINGS {
        volumes.push(host_path(&node, &format!("{thing}-typed"), thing, path_type));
        volumes.push(host_path(&node, &format!("{thing}-any"), thing, ""));
    }
    volumes.push(host_path(&node, "linked", "link", "Directory"));
    volumes.push(host_path(&node, "made-folder", "new/inner", "DirectoryOrCreate"));
    volumes.push(host_path(&node, "made-file", "new-file", "FileOrCreate"));
    volumes.push(host_path(&node, "there-folder", "folder", "DirectoryOrCreate"));
    volumes.push(host_path(&node, "there-file", "file", "FileOrCreate"));
    let volumes: Vec<&str> = volumes.iter().map(String::as_str).collect();
    node.manifest("a.yaml", &pod("a", "uid-a", &volumes));
    node.wait_mounted("default/a");
    assert_eq!(node.pod_mounts().len(), volumes.len());
    let kind = |name: &str| fs::metadata(node.volume("uid-a", "kubernetes.io~host-path", name)).unwrap().file_type();
    for suffix in ["typed", "any"] {
        assert!(kind(&format!("folder-{suffix}")).is_dir() && kind(&format!("file-{suffix}")).is_file());
        assert!(kind(&format!("socket-{suffix}")).is_socket());
        assert!(kind(&format!("null-{suffix}")).is_char_device());
        assert!(kind(&format!("disk-{suffix}")).is_block_device());
    }
    assert!(kind("linked").is_dir() && kind("made-folder").is_dir() && kind("made-file").is_file());
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    assert!(node.pod_mounts().is_empty());
    for thing in ["folder", "file", "socket", "null", "disk", "new/inner", "new-file"] {
        assert!(node.folder().join("disk").join(thing).exists(), "{thing} is the node's and stays");
    }
}

#[test]
fn every_thing_of_another_type_is_refused_with_both_named() {
    let node = node();
    let mut expected = Vec::new();
    for (wanted_at, (_, wanted, word)) in THINGS.iter().enumerate() {
        for (found_at, (thing, ..)) in THINGS.iter().enumerate().filter(|(at, _)| *at != wanted_at) {
            let name = format!("p{wanted_at}{found_at}");
            node.manifest(&format!("{name}.yaml"), &pod(&name, &name, &[&host_path(&node, "data", thing, wanted)]));
            expected.push((name, format!("disk/{thing} is not a {word}, it is a")));
        }
        let name = format!("missing{wanted_at}");
        node.manifest(&format!("{name}.yaml"), &pod(&name, &name, &[&host_path(&node, "data", "missing", wanted)]));
        expected.push((name, format!("disk/missing is not a {word}, it does not exist")));
    }
    for (name, path_type, thing, said) in [
        ("c1", "DirectoryOrCreate", "file", "disk/file is not a directory, it is a file"),
        ("c2", "FileOrCreate", "folder", "disk/folder is not a file, it is a directory"),
        ("c3", "FileOrCreate", "none/file", "type FileOrCreate creates no folder"),
    ] {
        node.manifest(&format!("{name}.yaml"), &pod(name, name, &[&host_path(&node, "data", thing, path_type)]));
        expected.push((name.to_owned(), said.to_owned()));
    }
    for (name, said) in expected {
        node.wait_event(&["FailedMount", &format!("default/{name} "), &said]);
    }
    assert!(node.pod_mounts().is_empty() && !node.folder().join("disk/missing").exists());
}

#[test]
fn a_thing_that_becomes_right_is_mounted() {
    let node = node();
    node.manifest("a.yaml", &pod("a", "uid-a", &[&host_path(&node, "data", "later", "Socket")]));
    node.wait_event(&["FailedMount", "default/a", "it does not exist"]);
    let _socket = std::os::unix::net::UnixListener::bind(node.folder().join("disk/later")).unwrap();
    node.wait_mounted("default/a");
}
