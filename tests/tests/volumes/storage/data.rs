//! The host removes no byte that it has not made (rule R5), whatever pods, users and plugins do
//! inside a volume that is being unmounted. `host/testing/kernel/tests` tests each primitive; here
//! the whole daemon runs.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use volhost_tests::Node;
use volhost_tests::manifests::pod;

use crate::storage::squatter::Squatter;

const EMPTY_DIR: &str = "kubernetes.io~empty-dir";

/// A node whose pod `a` has an emptyDir on disk, `disk`, and one in memory, `memory`; and pod `b`,
/// whose data must stay untouched.
struct DataNode(Node);

impl DataNode {
    fn start(prepare: &str) -> Self {
        let node = Node::builder().prepare(prepare).start();
        let volumes = ["name: disk, emptyDir: {}", "name: memory, emptyDir: { medium: Memory }"];
        for name in ["a", "b"] {
            node.manifest(&format!("{name}.yaml"), &pod(name, &format!("uid-{name}"), &volumes));
            node.wait_mounted(&format!("default/{name}"));
        }
        let this = Self(node);
        for volume in ["disk", "memory"] {
            fs::write(this.volume("b", volume).join("kept"), "kept").unwrap();
        }
        this
    }

    fn inside(&self, pod: &str, volume: &str) -> PathBuf {
        self.0.volume_inside(&format!("uid-{pod}"), EMPTY_DIR, volume)
    }

    fn volume(&self, pod: &str, volume: &str) -> PathBuf {
        self.0.path(&self.inside(pod, volume))
    }

    /// A command in the node's namespace that must succeed.
    fn run(&self, program: &str, arguments: &[&str]) {
        let done = self.0.inside(program).args(arguments).status().unwrap();
        assert!(done.success(), "{program} {arguments:?}");
    }

    fn take_a_away(&self) {
        self.0.remove_manifest("a.yaml");
    }

    fn assert_a_is_gone_and_b_is_whole(&self) {
        self.0.wait_unmounted("default/a");
        for volume in ["disk", "memory"] {
            assert!(!self.volume("a", volume).exists());
            assert_eq!(fs::read_to_string(self.volume("b", volume).join("kept")).unwrap(), "kept");
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_mount_that_a_user_made_inside_a_volume_keeps_everything() {
    let node = DataNode::start("");
    let inner = node.inside("a", "disk").join("inner");
    fs::create_dir(node.0.path(&inner)).unwrap();
    fs::write(node.volume("a", "disk").join("file"), "beside").unwrap();
    node.run("mount", &["-t", "tmpfs", "users", text(&inner)]);
    fs::write(node.0.path(&inner).join("file"), "on it").unwrap();

    node.take_a_away();
    node.0.wait_event(&["FailedUnmount", "pod default/a", "\"disk\"", "disk/inner"]);
    assert_eq!(fs::read_to_string(node.volume("a", "disk").join("file")).unwrap(), "beside", "nothing was begun");
    assert_eq!(fs::read_to_string(node.0.path(&inner).join("file")).unwrap(), "on it");

    node.run("umount", &[text(&inner)]);
    node.assert_a_is_gone_and_b_is_whole();
}

#[test]
fn the_machines_root_bound_inside_a_volume_loses_nothing() {
    let node = DataNode::start("");
    let inner = node.inside("a", "disk").join("machine");
    fs::create_dir(node.0.path(&inner)).unwrap();
    // Read-only, so that a defect would fail this test and not the machine.
    node.run("mount", &["--bind", "/", text(&inner)]);
    node.run("mount", &["-o", "remount,bind,ro", text(&inner)]);
    let seen = || fs::read_dir(node.0.path(&inner)).unwrap().count();
    let before = seen();
    assert!(before > 5, "the machine's root is there");

    node.take_a_away();
    node.0.wait_event(&["FailedUnmount", "pod default/a", "\"disk\"", "disk/machine"]);
    assert_eq!(seen(), before);
    node.run("umount", &[text(&inner)]);
    node.assert_a_is_gone_and_b_is_whole();
}

#[test]
fn a_file_with_a_name_outside_the_volume_keeps_its_content() {
    let node = DataNode::start("");
    let outside = node.0.path(&node.0.root()).join("outside");
    fs::write(&outside, "precious").unwrap();
    let folder = node.volume("a", "disk").join("deep/er");
    fs::create_dir_all(&folder).unwrap();
    fs::hard_link(&outside, folder.join("name")).unwrap();
    std::os::unix::fs::symlink(outside.parent().unwrap(), folder.join("way-out")).unwrap();
    assert_eq!(fs::metadata(&outside).unwrap().nlink(), 2);

    node.take_a_away();
    node.assert_a_is_gone_and_b_is_whole();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "precious");
    assert_eq!(fs::metadata(&outside).unwrap().nlink(), 1);
}

#[test]
fn a_million_files_go_while_other_volumes_come() {
    const FOLDERS: usize = 100;
    const FILES: usize = 10_000;
    let node = DataNode::start("mount -t tmpfs -o nr_inodes=0,size=90% root $NODE/root");
    let volume = node.volume("a", "disk");
    std::thread::scope(|scope| {
        for half in 0..2 {
            let volume = &volume;
            scope.spawn(move || {
                for folder in (half..FOLDERS).step_by(2) {
                    let folder = volume.join(folder.to_string());
                    fs::create_dir(&folder).unwrap();
                    (0..FILES).for_each(|file| drop(fs::File::create(folder.join(file.to_string())).unwrap()));
                }
            });
        }
    });
    node.take_a_away();
    node.0.manifest("c.yaml", &pod("c", "uid-c", &["name: disk, emptyDir: {}"]));
    node.0.wait_mounted("default/c");
    node.assert_a_is_gone_and_b_is_whole();
}

/// Ends the writer also when the test fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_volume_that_is_written_while_it_is_removed_ends_gone() {
    let node = DataNode::start("");
    let (volume, sibling) = (node.volume("a", "disk"), node.volume("b", "disk"));
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (volume, sibling, stopped, counted) = (&volume, &sibling, &stop, &written);
        scope.spawn(move || {
            for at in 0_u64.. {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                // All of it may fail: the folder goes away meanwhile.
                let folder = volume.join((at % 7).to_string());
                let _ = fs::create_dir(&folder);
                let _ = fs::write(folder.join(at.to_string()), "x");
                let _ = std::os::unix::fs::symlink(sibling, folder.join(format!("link-{at}")));
                let _ = fs::rename(&folder, volume.join("moved"));
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        let stopped = StopOnDrop(&stop);
        while written.load(Ordering::Relaxed) < 100 {
            std::thread::yield_now();
        }
        node.take_a_away();
        // Gone under the writer's hands, or given up until it ends: both are right.
        node.0.wait_event(&["Unmount", "pod default/a", "\"disk\""]);
        drop(stopped);
    });
    node.assert_a_is_gone_and_b_is_whole();
}

#[test]
fn a_volume_that_cannot_be_unmounted_keeps_its_data_and_delays_no_other() {
    let node = DataNode::start("");
    fs::write(node.volume("a", "memory").join("file"), "in use").unwrap();
    let squatter = Squatter::in_folder(&node.0, &node.inside("a", "memory"));
    node.take_a_away();
    node.0.wait_event(&["FailedUnmount", "pod default/a", "\"memory\"", "busy"]);
    assert_eq!(fs::read_to_string(node.volume("a", "memory").join("file")).unwrap(), "in use");
    let described = node.0.ok(&["describe", "pod", "default/a"]);
    assert!(described.contains("Next try") && described.to_lowercase().contains("busy"), "{described}");
    node.0.wait_event(&["SuccessfulUnmount", "pod default/a", "\"disk\""]);
    node.0.manifest("c.yaml", &pod("c", "uid-c", &["name: memory, emptyDir: { medium: Memory }"]));
    node.0.wait_mounted("default/c");

    drop(squatter);
    node.assert_a_is_gone_and_b_is_whole();
}
