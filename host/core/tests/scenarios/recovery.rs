//! A new process finds what an earlier one left (rules R2 and R4).

use volhost_core::{Event, RecoveredDevice};
use volhost_model::FailureClass;
use volhost_model::view::VolumeState;

use crate::kit::*;

#[test]
fn a_complete_mount_that_is_wanted_is_taken_over_without_an_operation() {
    let mut world = World::new();
    world.recovered("a", &plain("a", "data"), true);
    assert!(world.desire("a", vec![plain("a", "data")]).is_empty());
    assert_eq!(world.state("a", "data"), VolumeState::Mounted);
    assert!(world.step(Event::SourcesSynced).is_empty());
}

#[test]
fn a_taken_over_volume_that_follows_its_source_is_ready_at_once_and_refreshed() {
    let mut world = World::new();
    let mut volume = plain("a", "config");
    volume.follows_source = true;
    world.recovered("a", &volume, true);
    assert_eq!(world.desire("a", vec![volume]), ["revolume_mount config a"]);
    assert_eq!(world.state("a", "config"), VolumeState::Mounted);
}

#[test]
fn an_incomplete_mount_that_is_wanted_is_mounted_again() {
    let mut world = World::new();
    world.recovered("a", &plain("a", "data"), false);
    assert_eq!(world.desire("a", vec![plain("a", "data")]), ["volume_mount data a"]);
    world.fails("volume_mount data a", FailureClass::Final);
    assert_eq!(
        world.state("a", "data"),
        VolumeState::Uncertain,
        "a failure proves nothing about what was there before"
    );
}

#[test]
fn nothing_recovered_is_unmounted_before_every_source_has_reported() {
    let mut world = World::new();
    world.recovered("a", &plain("a", "data"), true);
    world.recovered("b", &shared("disk"), true);
    assert!(world.gone("a").is_empty());
    let mut started = world.step(Event::SourcesSynced);
    started.sort();
    assert_eq!(started, ["volume_unmount data a", "volume_unmount disk b"]);
    world.settle();
    assert!(world.core.pods().is_empty() && world.core.unused_volumes().is_empty());
}

#[test]
fn a_volume_of_two_pods_is_unmounted_from_both_and_then_unstaged() {
    let mut world = World::new();
    world.recovered("a", &staged("disk"), true);
    world.recovered("b", &staged("disk"), true);
    let started = world.step(Event::SourcesSynced);
    assert_eq!(started, ["volume_unmount disk a", "volume_unmount disk b"], "unmounts of two pods run side by side");
    assert!(world.done("volume_unmount disk a").is_empty());
    assert_eq!(world.done("volume_unmount disk b"), ["unmount_device disk"]);
}

#[test]
fn a_recovered_volume_of_a_pod_with_unresolved_volumes_stays() {
    let mut world = World::new();
    world.recovered("a", &shared("disk"), true);
    world.step(Event::SourcesSynced);
    world.settle();
    let mut world = World::new();
    world.recovered("a", &shared("disk"), true);
    world.desire_with("a", vec![], vec!["claimed"]);
    assert!(world.step(Event::SourcesSynced).is_empty());
    assert_eq!(world.desire("a", vec![]), ["volume_unmount disk a"]);
}

#[test]
fn a_device_without_a_pod_is_unstaged() {
    let mut world = World::new();
    let disk = staged("disk");
    world.step(Event::RecoveredDevice(RecoveredDevice {
        plugin: disk.plugin,
        unique_name: disk.unique_name,
        spec_name: disk.spec.name.clone(),
        spec: None,
        attachable: false,
        stageable: true,
    }));
    assert_eq!(world.step(Event::SourcesSynced), ["unmount_device disk"]);
}

#[test]
fn a_known_volume_is_not_overwritten_by_a_recovered_one() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "data")]);
    world.settle();
    assert!(world.recovered("a", &plain("a", "data"), false).is_empty());
    assert_eq!(world.state("a", "data"), VolumeState::Mounted);
}

#[test]
fn a_complete_mount_is_not_adopted_after_a_failed_unmount() {
    let mut world = World::new();
    world.recovered("a", &plain("a", "data"), true);
    world.step(Event::SourcesSynced);
    assert!(world.desire("a", vec![plain("a", "data")]).is_empty(), "the unmount runs");
    assert_eq!(world.fails("volume_unmount data a", FailureClass::Uncertain), ["volume_mount data a"]);
}

#[test]
fn a_recovered_mount_that_could_not_be_mounted_again_is_unmounted_when_unwanted() {
    let mut world = World::new();
    world.recovered("a", &plain("a", "data"), false);
    world.desire("a", vec![plain("a", "data")]);
    world.step(Event::SourcesSynced);
    world.fails("volume_mount data a", FailureClass::Final);
    assert_eq!(world.gone("a"), ["volume_unmount data a"]);
}
