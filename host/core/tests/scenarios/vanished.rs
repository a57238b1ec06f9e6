//! Mounts that another process unmounts.

use volhost_core::{Event, OperationKind};
use volhost_model::FailureClass;
use volhost_model::view::VolumeState;

use crate::kit::*;

fn vanishes(world: &mut World, pod: &str, name: &str) -> Vec<String> {
    let volume = plain(pod, name).unique_name;
    world.step(Event::Vanished { pod: uid(pod), volume })
}

fn mounted() -> World {
    let mut world = World::new();
    world.step(Event::SourcesSynced);
    world.desire("a", vec![plain("a", "data")]);
    world.settle();
    world.notices.clear();
    world
}

#[test]
fn a_mount_that_vanished_is_reported_and_mounted_again() {
    let mut world = mounted();
    assert_eq!(vanishes(&mut world, "a", "data"), ["volume_mount data a"]);
    assert_eq!(world.reasons(), ["VolumeVanished"]);
    assert!(world.core.mounted_volumes_of(&uid("a")).is_empty(), "it is not reported as mounted");
    world.settle();
    assert_eq!(world.state("a", "data"), VolumeState::Mounted);
}

#[test]
fn a_vanished_mount_that_cannot_be_mounted_again_is_uncertain_and_undone_when_unwanted() {
    let mut world = mounted();
    vanishes(&mut world, "a", "data");
    world.fails("volume_mount data a", FailureClass::Final);
    assert_eq!(world.state("a", "data"), VolumeState::Uncertain, "it is unknown what is mounted now");
    assert_eq!(world.gone("a"), ["volume_unmount data a"]);
}

#[test]
fn a_mount_that_an_operation_unmounts_has_not_vanished() {
    let mut world = mounted();
    assert_eq!(world.gone("a"), ["volume_unmount data a"]);
    world.notices.clear();
    assert!(vanishes(&mut world, "a", "data").is_empty() && world.notices.is_empty());
    world.done("volume_unmount data a");
    world.notices.clear();
    assert!(vanishes(&mut world, "a", "data").is_empty() && world.notices.is_empty(), "it is gone already");
}

#[test]
fn a_failed_unmount_is_tried_at_once_when_the_mount_is_gone_after_all() {
    let mut world = mounted();
    world.gone("a");
    world.fails("volume_unmount data a", FailureClass::Uncertain);
    assert_eq!(vanishes(&mut world, "a", "data"), ["volume_unmount data a"]);
    world.done("volume_unmount data a");
    assert!(world.core.pods().is_empty());
}

#[test]
fn a_mount_that_vanishes_while_it_is_refreshed_is_mounted_again_unless_the_refresh_brings_it_back() {
    let follows = || volhost_core::DesiredVolume { follows_source: true, ..plain("a", "data") };
    for class in [FailureClass::Final, FailureClass::Uncertain, FailureClass::Transient] {
        let mut world = World::new();
        world.desire("a", vec![follows()]);
        world.settle();
        world.step(Event::SourceChanged { uid: uid("a") });
        world.notices.clear();
        assert!(vanishes(&mut world, "a", "data").is_empty() && world.notices.is_empty(), "it may be the refresh");
        world.fails("revolume_mount data a", class);
        assert!(world.reasons().contains(&"VolumeVanished"), "{class:?}");
        assert_eq!(world.state("a", "data"), VolumeState::Uncertain, "{class:?}");
        assert_eq!(world.tick(), ["volume_mount data a"]);
    }
    let mut world = World::new();
    world.desire("a", vec![follows()]);
    world.settle();
    world.step(Event::SourceChanged { uid: uid("a") });
    vanishes(&mut world, "a", "data");
    world.notices.clear();
    world.done("revolume_mount data a");
    assert!(!world.reasons().contains(&"VolumeVanished"));
    assert_eq!(world.state("a", "data"), VolumeState::Mounted);
}

#[test]
fn a_mount_that_vanishes_while_it_grows_is_mounted_again() {
    let mut world = World::new();
    world.desire("a", vec![sized(&staged("disk"), 10)]);
    world.settle();
    assert_eq!(world.desire("a", vec![sized(&staged("disk"), 20)]), ["volume_fs_resize disk a"]);
    let volume = staged("disk").unique_name;
    world.step(Event::Vanished { pod: uid("a"), volume });
    assert_eq!(world.done("volume_fs_resize disk a"), ["volume_mount disk a"]);
}

fn device_vanishes(world: &mut World, name: &str) -> Vec<String> {
    world.step(Event::DeviceVanished { volume: staged(name).unique_name })
}

#[test]
fn a_staging_mount_that_vanished_is_reported_and_made_again_while_its_pods_keep_theirs() {
    let mut world = World::new();
    world.step(Event::SourcesSynced);
    world.desire("a", vec![staged("disk")]);
    world.settle();
    world.notices.clear();
    assert_eq!(device_vanishes(&mut world, "disk"), ["revolume_mount disk a"]);
    assert_eq!(world.reasons(), ["VolumeVanished"]);
    assert!(matches!(world.running[0].kind, OperationKind::Mount { staged: false, .. }));
    assert_eq!(world.state("a", "disk"), VolumeState::Mounted, "what the pod has stays");
    // A failure leaves the pod what it has, and is tried again.
    world.fails("revolume_mount disk a", FailureClass::Final);
    assert_eq!(world.state("a", "disk"), VolumeState::Mounted);
    assert_eq!(world.tick(), ["revolume_mount disk a"]);
    assert!(world.done("revolume_mount disk a").is_empty());
    assert!(device_vanishes(&mut world, "disk") == ["revolume_mount disk a"], "and so the next time");
}

#[test]
fn the_nodes_own_mount_that_vanishes_is_made_before_another_pod_gets_the_volume() {
    let mut world = World::new();
    world.desire("a", vec![staged("disk")]);
    world.settle();
    device_vanishes(&mut world, "disk");
    world.fails("revolume_mount disk a", FailureClass::Transient);
    world.desire("b", vec![staged("disk")]);
    world.tick();
    let all_make_it = world.running.iter().all(|one| matches!(one.kind, OperationKind::Mount { staged: false, .. }));
    assert!(all_make_it && !world.running.is_empty());
}

#[test]
fn a_staging_mount_that_vanishes_while_it_is_unmounted_counts_as_the_operation_reports() {
    let mut world = World::new();
    world.step(Event::SourcesSynced);
    world.desire("a", vec![staged("disk")]);
    world.settle();
    world.gone("a");
    assert_eq!(world.done("volume_unmount disk a"), ["unmount_device disk"]);
    world.notices.clear();
    assert!(device_vanishes(&mut world, "disk").is_empty() && world.notices.is_empty());
    world.fails("unmount_device disk", FailureClass::Transient);
    assert!(world.reasons().contains(&"VolumeVanished"));
    assert_eq!(device_vanishes(&mut world, "disk"), ["unmount_device disk"], "tried at once");
    world.done("unmount_device disk");
    assert!(world.core.unused_volumes().is_empty());
}

#[test]
fn one_that_vanishes_before_its_pod_is_named_is_not_taken_over() {
    let mut world = World::new();
    world.recovered("a", &plain("a", "data"), true);
    vanishes(&mut world, "a", "data");
    assert_eq!(world.desire("a", vec![plain("a", "data")]), ["volume_mount data a"]);
}
