//! The kubelet's uncertain-device and uncertain-mount scenarios (rule R1).

use volhost_core::{DeviceReport, OperationKind, OperationReport};
use volhost_model::view::VolumeState;
use volhost_model::{Failure, FailureClass};

use crate::kit::*;

fn mount_of(world: &World) -> (bool, bool) {
    match world.running[0].kind {
        OperationKind::Mount { staged, remount } => (staged, remount),
        other => panic!("{other:?}"),
    }
}

fn device_fails(world: &mut World, class: FailureClass, device: Option<DeviceReport>) {
    let failure = Failure::new(class, "MountVolume.MountDevice", "no medium");
    world.end("volume_mount disk a", OperationReport { device, ..OperationReport::failed(failure) });
}

fn with_disk() -> World {
    let mut world = World::new();
    world.desire("a", vec![staged("disk")]);
    world
}

#[test]
fn a_mount_that_timed_out_is_uncertain_and_undone_when_unwanted() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "data")]);
    world.fails("volume_mount data a", FailureClass::Uncertain);
    assert_eq!(world.state("a", "data"), VolumeState::Uncertain);
    assert_eq!(world.core.possibly_mounted_volumes_of(&uid("a")).len(), 1);
    assert!(world.core.mounted_volumes_of(&uid("a")).is_empty());
    assert_eq!(world.gone("a"), ["volume_unmount data a"]);
}

#[test]
fn a_mount_that_failed_is_not_there() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "data")]);
    world.fails("volume_mount data a", FailureClass::Final);
    assert_eq!(world.state("a", "data"), VolumeState::Pending);
    assert!(world.gone("a").is_empty());
    assert!(world.core.pods().is_empty() && world.core.operations().is_empty());
}

#[test]
fn a_timeout_and_then_a_failure_leave_nothing() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "data")]);
    world.fails("volume_mount data a", FailureClass::Uncertain);
    assert_eq!(world.tick(), ["volume_mount data a"]);
    world.fails("volume_mount data a", FailureClass::Final);
    assert!(world.gone("a").is_empty());
}

#[test]
fn a_transient_failure_changes_no_state() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "data")]);
    world.fails("volume_mount data a", FailureClass::Uncertain);
    world.tick();
    world.fails("volume_mount data a", FailureClass::Transient);
    assert_eq!(world.state("a", "data"), VolumeState::Uncertain);
}

#[test]
fn a_device_that_timed_out_is_mounted_again_and_unmounted_when_unwanted() {
    let mut world = with_disk();
    device_fails(&mut world, FailureClass::Uncertain, Some(DeviceReport::Uncertain));
    world.tick();
    assert_eq!(mount_of(&world), (false, false));
    device_fails(&mut world, FailureClass::Uncertain, None);
    world.gone("a");
    world.settle();
    assert!(world.core.unused_volumes().is_empty());
}

#[test]
fn a_device_that_failed_after_a_timeout_is_not_there() {
    let mut world = with_disk();
    device_fails(&mut world, FailureClass::Uncertain, Some(DeviceReport::Uncertain));
    world.tick();
    device_fails(&mut world, FailureClass::Final, Some(DeviceReport::Unmounted));
    assert!(world.gone("a").is_empty());
    assert!(world.core.unused_volumes().is_empty());
}

#[test]
fn a_mounted_device_stays_mounted_when_a_later_mount_fails() {
    for class in [FailureClass::Final, FailureClass::Uncertain] {
        let mut world = with_disk();
        device_fails(&mut world, FailureClass::Final, Some(DeviceReport::Mounted));
        world.tick();
        assert_eq!(mount_of(&world), (true, false));
        device_fails(&mut world, class, None);
        world.tick();
        assert_eq!(mount_of(&world), (true, false), "{class:?}");
    }
}

#[test]
fn a_failed_unmount_is_published_and_tried_again_after_a_wait() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "data")]);
    world.settle();
    world.gone("a");
    world.notices.clear();
    world.fails("volume_unmount data a", FailureClass::Final);
    assert_eq!(world.reasons(), ["FailedUnmount"]);
    assert_eq!(world.state("a", "data"), VolumeState::Uncertain);
    let begun = world.now;
    assert_eq!(world.tick(), ["volume_unmount data a"]);
    assert!(FIRST_WAIT.contains(&(world.now - begun)));
}

#[test]
fn a_device_whose_unmount_failed_is_not_forgotten() {
    let mut world = with_disk();
    world.settle();
    world.gone("a");
    assert_eq!(world.done("volume_unmount disk a"), ["unmount_device disk"]);
    world.fails("unmount_device disk", FailureClass::Final);
    assert_eq!(world.core.unused_volumes()[0].state, VolumeState::Unused);
    assert!(world.reasons().contains(&"FailedUnmountDevice"));
    // A pod that wants it now gets it mounted anew.
    assert_eq!(world.desire("b", vec![staged("disk")]), ["volume_mount disk b"]);
    assert_eq!(mount_of(&world), (false, false));
}

#[test]
fn a_mount_that_succeeds_but_cannot_be_expanded_is_uncertain() {
    let mut world = with_disk();
    let failure = Failure::new(FailureClass::Uncertain, "MountVolume.Setup", "failed while expanding volume");
    world.end(
        "volume_mount disk a",
        OperationReport { device: Some(DeviceReport::Mounted), ..OperationReport::failed(failure) },
    );
    assert_eq!(world.state("a", "disk"), VolumeState::Uncertain);
    world.tick();
    world.settle();
    assert_eq!(world.state("a", "disk"), VolumeState::Mounted);
}

#[test]
fn a_failed_device_leaves_a_mount_that_may_exist_uncertain() {
    // The first try came as far as the pod's mount and heard nothing of either; the second fails at
    // the device already.
    for class in [FailureClass::Final, FailureClass::Uncertain] {
        for device in [Some(DeviceReport::Unmounted), Some(DeviceReport::Uncertain), None] {
            let mut world = with_disk();
            device_fails(&mut world, FailureClass::Uncertain, None);
            world.tick();
            device_fails(&mut world, class, device);
            assert_eq!(world.state("a", "disk"), VolumeState::Uncertain, "{class:?} {device:?}");
            assert_eq!(world.gone("a"), ["volume_unmount disk a"], "{class:?} {device:?}");
        }
    }
}

#[test]
fn a_device_that_timed_out_has_not_come_to_the_pods_mount() {
    let mut world = with_disk();
    device_fails(&mut world, FailureClass::Uncertain, Some(DeviceReport::Uncertain));
    assert!(world.core.possibly_mounted_volumes_of(&uid("a")).is_empty());
    assert_eq!(world.gone("a"), ["unmount_device disk"]);
}

#[test]
fn a_device_that_failed_is_not_there() {
    let mut world = with_disk();
    device_fails(&mut world, FailureClass::Final, Some(DeviceReport::Unmounted));
    assert_eq!(world.state("a", "disk"), VolumeState::Pending);
    assert!(world.gone("a").is_empty());
    assert!(world.core.unused_volumes().is_empty());
}

#[test]
fn an_unmount_that_timed_out_is_repeated_or_the_volume_mounted_again() {
    for (back, expected) in [(false, "volume_unmount data a"), (true, "volume_mount data a")] {
        let mut world = World::new();
        world.desire("a", vec![plain("a", "data")]);
        world.settle();
        world.gone("a");
        world.fails("volume_unmount data a", FailureClass::Uncertain);
        let started = if back { world.desire("a", vec![plain("a", "data")]) } else { world.tick() };
        assert_eq!(started, [expected]);
    }
}
