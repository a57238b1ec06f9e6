//! The drivers and volumes in `examples/flex-volume`.

use std::fs;
use std::path::{Path, PathBuf};

use volhost_tests::Node;
use volhost_tests::artifacts::workspace;
use volhost_tests::loop_devices::LoopDevices;
use volhost_tests::wait::eventually;

use super::kit::builder;

fn example(name: &str) -> PathBuf {
    workspace().join("examples/flex-volume").join(name)
}

/// A node with the drivers of the examples; nothing of the machine's own /run is changed.
fn start() -> Node {
    let mut node = builder().prepare("mount -t tmpfs run /run").build();
    // A checkout may belong to another user, whose programs volhost does not run.
    let drivers = node.folder().join("drivers");
    let copied = std::process::Command::new("cp").arg("-r").arg(example("drivers")).arg(&drivers).status().unwrap();
    assert!(copied.success());
    node.add_arguments(&["--flex-driver-dir", drivers.to_str().unwrap()]);
    node.start();
    node
}

/// Puts an example in place, its image in the node's folder.
fn put(node: &Node, manifest: &str) {
    let image = node.folder().join("data.img").display().to_string();
    let text = fs::read_to_string(example(manifest)).unwrap().replace("/var/lib/flex-data.img", &image);
    node.manifest(manifest, &text);
}

#[test]
fn the_tmpfs_driver() {
    let node = start();
    put(&node, "tmpfs.yaml");
    node.wait_mounted("default/flex-tmpfs");
    let mounts = node.pod_mounts();
    assert_eq!(mounts.len(), 1);
    assert!(mounts[0].fs_options.iter().any(|option| option == "size=8192k"), "{mounts:?}");
    node.remove_manifest("tmpfs.yaml");
    node.wait_unmounted("default/flex-tmpfs");
    assert!(node.pod_mounts().is_empty());
}

#[test]
fn the_loop_file_driver() {
    let node = start();
    let loops = LoopDevices::below(node.folder());
    let state = node.path(Path::new("/run/example.com~loopfile/flex-data"));
    for round in 0..2 {
        put(&node, "loopfile.yaml");
        node.wait_mounted("default/flex-loopfile");
        let mounts = node.pod_mounts();
        assert_eq!((mounts.len(), mounts[0].fs_type.as_str()), (1, "ext4"));
        let file = node.path(&mounts[0].point).join("file");
        if round == 0 {
            fs::write(&file, "kept").unwrap();
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
        assert_eq!(loops.all().len(), 1);
        node.remove_manifest("loopfile.yaml");
        node.wait_unmounted("default/flex-loopfile");
        assert!(eventually(|| !state.exists() && loops.all().is_empty()), "it is detached: {}", node.log());
    }
}
