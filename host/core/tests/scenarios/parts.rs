//! Parts of a volume that containers name (subPath): the pod is ready when each of them is.

use std::sync::Arc;

use volhost_core::DesiredVolume;
use volhost_model::view::VolumeState;
use volhost_model::{ContainerMount, FailureClass, MountPropagation, RecursiveReadOnly};

use crate::kit::*;

fn part(index: u32, path: Option<&str>) -> ContainerMount {
    ContainerMount {
        container: "main".into(),
        index,
        mount_path: format!("/m{index}"),
        sub_path: path.map(str::to_owned),
        read_only: false,
        recursive_read_only: RecursiveReadOnly::Disabled,
        propagation: MountPropagation::None,
    }
}

fn with_parts(volume: DesiredVolume, paths: &[&str]) -> DesiredVolume {
    let parts = (0..).zip(paths).map(|(index, path)| part(index, Some(path)));
    DesiredVolume { container_mounts: parts.collect(), ..volume }
}

#[test]
fn parts_are_handed_to_the_mount_and_shown_once_it_is_done() {
    let mut world = World::new();
    world.desire("a", vec![with_parts(plain("a", "data"), &["one", "two"])]);
    assert_eq!(world.running[0].container_mounts.len(), 2);
    assert_eq!(world.view("a", "data").container_mounts[1].path, "");
    world.settle();
    let shown = world.view("a", "data").container_mounts;
    assert_eq!(shown[1].path, "pods/a/volume-subpaths/data/main/1");
    assert_eq!(shown[1].sub_path.as_deref(), Some("two"));
}

#[test]
fn other_parts_are_made_ready_on_the_mounted_volume_and_the_pod_waits_for_them() {
    let mut world = World::new();
    world.desire("a", vec![with_parts(plain("a", "data"), &["one"])]);
    world.settle();
    let other = with_parts(plain("a", "data"), &["two"]);
    assert_eq!(world.desire("a", vec![other.clone()]), ["revolume_mount data a"]);
    assert_eq!(world.core.pod(&uid("a")).unwrap().ready, 0);
    world.fails("revolume_mount data a", FailureClass::Uncertain);
    assert_eq!(world.state("a", "data"), VolumeState::Pending, "it is mounted, but not as wanted");
    assert_eq!(world.tick(), ["revolume_mount data a"]);
    world.done("revolume_mount data a");
    assert_eq!(world.core.pod(&uid("a")).unwrap().ready, 1);
    assert!(world.desire("a", vec![other]).is_empty());
}

#[test]
fn a_use_of_the_whole_volume_needs_nothing_new() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "data")]);
    world.settle();
    let whole: Arc<[ContainerMount]> = [part(0, None)].into();
    let volume = DesiredVolume { container_mounts: whole, ..plain("a", "data") };
    assert!(world.desire("a", vec![volume]).is_empty());
    let view = world.view("a", "data");
    assert_eq!(view.container_mounts[0].path, view.path);
}

#[test]
fn recovered_parts_are_taken_over_and_missing_ones_made() {
    let one = with_parts(plain("a", "data"), &["one"]);
    let mut world = World::new();
    world.recovered("a", &one, true);
    assert!(world.desire("a", vec![one.clone()]).is_empty());
    assert_eq!(world.core.pod(&uid("a")).unwrap().ready, 1);

    let mut world = World::new();
    world.recovered("a", &plain("a", "data"), true);
    assert_eq!(world.desire("a", vec![one]), ["revolume_mount data a"]);
}

#[test]
fn two_names_of_one_volume_bring_the_parts_of_both() {
    let mut world = World::new();
    let second = DesiredVolume {
        outer_name: volhost_model::OuterName::new("other").unwrap(),
        container_mounts: [part(5, Some("five"))].into(),
        ..staged("disk")
    };
    world.desire("a", vec![with_parts(staged("disk"), &["one"]), second]);
    let parts: Vec<u32> = world.running[0].container_mounts.iter().map(|part| part.index).collect();
    assert_eq!(parts, [0, 5]);
}

#[test]
fn parts_that_were_exchanged_half_way_are_made_again_though_the_old_ones_are_wanted_back() {
    for class in [FailureClass::Uncertain, FailureClass::Final] {
        let mut world = World::new();
        let (one, other) = (with_parts(plain("a", "data"), &["one"]), with_parts(plain("a", "data"), &["other"]));
        world.desire("a", vec![one.clone()]);
        world.settle();
        world.desire("a", vec![other.clone()]);
        world.fails("revolume_mount data a", class);
        assert!(world.desire("a", vec![one.clone()]).is_empty(), "it waits");
        assert_eq!(world.core.pod(&uid("a")).unwrap().ready, 0, "{class:?}: \"one\" may be gone");
        assert_eq!(world.tick(), ["revolume_mount data a"]);
        world.settle();
        assert_eq!(world.core.pod(&uid("a")).unwrap().ready, 1);
        // One that never began has changed nothing.
        world.desire("a", vec![other]);
        world.fails("revolume_mount data a", FailureClass::Transient);
        world.desire("a", vec![one]);
        assert_eq!(world.core.pod(&uid("a")).unwrap().ready, 1);
    }
}
