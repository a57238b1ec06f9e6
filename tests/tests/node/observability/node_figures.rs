//! The figures of the node as a whole: plugins, manifests, drain, and what is cleaned up.

use std::fs;
use std::path::Path;

use volhost_tests::manifests::pod;
use volhost_tests::{Node, artifacts};

use crate::observability::figures::{Figures, node_with_a_claim};

/// The metric of manifests with a problem of this kind.
fn problems(figures: &Figures, kind: &str) -> f64 {
    figures.value("volhost_manifest_problems", &[("kind", kind)])
}

fn plugins(figures: &Figures, state: &str) -> f64 {
    figures.value("volhost_plugins", &[("state", state)])
}

#[test]
fn plugins_are_counted_by_state() {
    let node = Node::builder().plugin(artifacts::fixture("fixture-describe-panic")).start();
    let figures = Figures::once(&node, |figures| plugins(figures, "Failed") == 1.0);
    assert_eq!(plugins(&figures, "Ready"), 3.0);
    for state in ["PendingApproval", "Retired", "Quarantined", "Compiling", "Waiting"] {
        assert_eq!(plugins(&figures, state), 0.0, "{state}");
    }
}

#[test]
fn manifests_that_cannot_be_used_are_counted_by_kind() {
    let node = Node::start_default();
    for kind in ["folder", "invalid", "being-written", "duplicate", "missing"] {
        assert_eq!(problems(&Figures::of(&node), kind), 0.0, "{kind}");
    }
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: data, emptyDir: {}"]));
    node.manifest("b.yaml", &pod("a", "uid-b", &["name: data, emptyDir: {}"]));
    node.manifest("c.yaml", "kind: Pod\nmetadata: { name: [\n");
    node.manifest("d.yaml", "kind: Pod\n");
    let figures = Figures::once(&node, |figures| problems(figures, "invalid") == 2.0);
    assert_eq!(problems(&figures, "duplicate"), 1.0);
    node.remove_manifest("c.yaml");
    node.remove_manifest("d.yaml");
    let figures = Figures::once(&node, |figures| problems(figures, "invalid") == 0.0);
    assert_eq!(problems(&figures, "duplicate"), 1.0);
    assert!(!figures.0.contains("a.yaml"), "no label names a file");
}

#[test]
fn a_drain_shows_until_it_is_ended() {
    let node = node_with_a_claim(&[]);
    assert_eq!(Figures::of(&node).value("volhost_draining", &[]), 0.0);
    node.ok(&["drain"]);
    assert_eq!(Figures::of(&node).value("volhost_draining", &[]), 1.0);
    node.ok(&["uncordon"]);
    assert_eq!(Figures::of(&node).value("volhost_draining", &[]), 0.0);
}

#[test]
fn a_forced_unmount_is_counted_and_so_is_one_that_fails() {
    let node = node_with_a_claim(&[]);
    let forced = |figures: &Figures| {
        ["force_cleaned_failed_volume_operations_total", "force_cleaned_failed_volume_operation_errors_total"]
            .map(|name| figures.value(name, &[]))
    };
    assert_eq!(forced(&Figures::of(&node)), [0.0, 0.0]);
    assert!(node.fails(&["force-unmount", "default/a/fast"]).contains("remove the pod first"));
    assert_eq!(forced(&Figures::of(&node)), [0.0, 0.0], "nothing was tried");

    // Files that are open keep the mounts busy.
    let (fast, data) = (
        node.volume("uid-a", "kubernetes.io~empty-dir", "fast"),
        node.volume("uid-a", "kubernetes.io~local-volume", "data"),
    );
    let _open = [&fast, &data].map(|volume| fs::File::create(volume.join("busy")).unwrap());
    node.remove_manifest("a.yaml");
    for volume in ["\"fast\"", "\"data\""] {
        node.wait_event(&["FailedUnmount", "pod default/a", volume]);
    }
    node.ok(&["force-unmount", "default/a/fast"]);
    assert_eq!(forced(&Figures::of(&node)), [1.0, 0.0]);

    // What is below a mount that is gone is not volhost's.
    let inside = node.volume_inside("uid-a", "kubernetes.io~local-volume", "data");
    assert!(node.inside("umount").arg("--lazy").arg(inside).status().unwrap().success());
    fs::write(data.join("precious"), "data").unwrap();
    node.fails(&["force-unmount", "default/a/data"]);
    assert_eq!(forced(&Figures::of(&node)), [2.0, 1.0]);
    assert!(data.join("precious").exists());
}

#[test]
fn folders_of_pods_that_are_gone_are_counted_as_the_last_search_found_them() {
    let mut node = Node::builder().build();
    let folder = |uid: &str| node.root().join("pods").join(uid);
    let (clean, kept) = (node.path(&folder("uid-clean")), node.path(&folder("uid-kept")));
    fs::create_dir_all(clean.join("containers")).unwrap();
    fs::create_dir_all(kept.join("containers")).unwrap();
    fs::write(kept.join("containers/log"), "data").unwrap();
    node.start();
    let orphans = |figures: &Figures| {
        ["kubelet_orphan_pod_cleaned_volumes", "kubelet_orphan_pod_cleaned_volumes_errors"]
            .map(|name| figures.value(name, &[]))
    };
    Figures::once(&node, |figures| orphans(figures) == [2.0, 1.0]);
    node.poke("-HUP");
    Figures::once(&node, |figures| orphans(figures) == [1.0, 1.0]);
    fs::remove_file(kept.join("containers/log")).unwrap();
    node.poke("-HUP");
    Figures::once(&node, |figures| orphans(figures) == [1.0, 0.0]);
    node.poke("-HUP");
    Figures::once(&node, |figures| orphans(figures) == [0.0, 0.0]);
}

#[test]
fn the_room_in_volhosts_own_folders_is_shown() {
    let node = Node::start_default();
    let room = |figures: &Figures, name: &str, folder| figures.value(name, &[("folder", folder)]);
    let figures = Figures::of(&node);
    for folder in ["root", "state"] {
        let (available, size) = (
            room(&figures, "volhost_folder_available_bytes", folder),
            room(&figures, "volhost_folder_size_bytes", folder),
        );
        assert!(available > 0.0 && available <= size, "{folder}: {available} of {size}");
    }
    let before = room(&figures, "volhost_folder_available_bytes", "state");
    write(&node.path(&node.root().join("state/filler")), 1 << 20);
    let after = room(&Figures::of(&node), "volhost_folder_available_bytes", "state");
    assert!(after <= before - f64::from(1 << 20), "{after} of {before}");
}

fn write(file: &Path, bytes: usize) {
    fs::write(file, vec![1; bytes]).unwrap();
}
