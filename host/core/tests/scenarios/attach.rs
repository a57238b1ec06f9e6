//! Volumes that must be attached, by the host or by a controller, and volumes that only one pod may use.

use volhost_core::{Config, Event, OperationReport};
use volhost_model::FailureClass;
use volhost_model::view::VolumeState;

use crate::kit::*;

#[test]
fn attach_mount_unmount_detach_in_this_order() {
    let mut world = World::new();
    assert_eq!(world.desire("a", vec![shared("disk")]), ["volume_attach disk"]);
    assert_eq!(world.state("a", "disk"), VolumeState::Attaching);
    let report = OperationReport { device_path: Some("/dev/x".into()), ..OperationReport::done() };
    assert_eq!(world.end("volume_attach disk", report), ["volume_mount disk a"]);
    assert_eq!(world.running[0].device_path.as_deref(), Some("/dev/x"));
    world.settle();
    assert!(world.core.volume_is_attached(&shared("disk").unique_name));
    assert_eq!(world.gone("a"), ["volume_unmount disk a"]);
    assert_eq!(world.done("volume_unmount disk a"), ["unmount_device disk"]);
    assert_eq!(world.done("unmount_device disk"), ["volume_detach disk"]);
    assert_eq!(world.core.volumes_in_use().len(), 1);
    world.done("volume_detach disk");
    assert!(world.core.volumes_in_use().is_empty() && world.core.unused_volumes().is_empty());
}

#[test]
fn an_uncertain_attachment_is_detached_when_unwanted() {
    let mut world = World::new();
    world.desire("a", vec![shared("disk")]);
    world.fails("volume_attach disk", FailureClass::Uncertain);
    assert_eq!(world.gone("a"), ["volume_detach disk"]);
    world.fails("volume_detach disk", FailureClass::Final);
    assert!(world.reasons().contains(&"FailedDetachVolume"));
    assert_eq!(world.tick(), ["volume_detach disk"]);
}

#[test]
fn an_attachment_that_failed_leaves_nothing_to_detach() {
    let mut world = World::new();
    world.desire("a", vec![shared("disk")]);
    world.fails("volume_attach disk", FailureClass::Final);
    assert_eq!(world.notices[0].reason, "FailedAttachVolume");
    assert_eq!(world.notices[0].pod, "ns/a");
    assert!(world.gone("a").is_empty());
}

#[test]
fn with_a_controller_the_mount_waits_for_both_reports_and_no_wait_is_counted_as_a_failure() {
    let mut world = World::with(Config::default());
    let name = shared("disk").unique_name;
    assert!(world.desire("a", vec![shared("disk")]).is_empty());
    assert_eq!(world.core.volumes_in_use(), vec![name.clone()]);
    assert!(world.step(Event::NodeAttachments(vec![])).is_empty());
    assert!(world.step(Event::ReportedInUse(vec![name.clone()])).is_empty());
    let attached = Event::NodeAttachments(vec![(name.clone(), "/dev/y".into())]);
    assert_eq!(world.step(attached), ["verify_controller_attached_volume disk"]);
    assert_eq!(world.done("verify_controller_attached_volume disk"), ["volume_mount disk a"]);
    assert_eq!(world.running[0].device_path.as_deref(), Some("/dev/y"));
    assert!(world.notices.is_empty());
    world.settle();
    world.gone("a");
    world.settle();
    assert!(world.core.volumes_in_use().is_empty(), "the controller detaches");
}

#[test]
fn a_volume_that_needs_no_attachment_is_not_verified() {
    let mut world = World::with(Config::default());
    assert_eq!(world.desire("a", vec![plain("a", "data"), staged("disk")]).len(), 2);
    assert!(world.core.volumes_in_use().is_empty());
}

#[test]
fn the_controller_settles_what_recovery_could_not_know() {
    let mut world = World::with(Config::default());
    world.recovered("a", &shared("disk"), false);
    assert!(!world.core.states_synced());
    world.step(Event::NodeAttachments(vec![(shared("disk").unique_name, "/dev/z".into())]));
    assert!(world.core.states_synced() && world.core.volume_is_attached(&shared("disk").unique_name));
    assert_eq!(world.desire("a", vec![shared("disk")]), ["volume_mount disk a"]);
    assert_eq!(world.running[0].device_path.as_deref(), Some("/dev/z"));
}

#[test]
fn a_single_pod_volume_moves_from_a_pod_that_is_gone_to_a_new_one() {
    let once = changed(&staged("disk"), |spec| {
        spec.persistent_volume.as_mut().unwrap().access_modes = vec!["ReadWriteOncePod".into()]
    });
    let mut world = World::new();
    world.desire("a", vec![once.clone()]);
    world.settle();
    world.notices.clear();
    assert!(world.desire("b", vec![once.clone()]).is_empty());
    assert!(world.desire("b", vec![once]).is_empty());
    assert_eq!(world.reasons(), ["FailedMount"], "said once");
    assert!(world.notices[0].message.contains("ReadWriteOncePod") && world.notices[0].message.contains("ns/a"));
    assert_eq!(world.gone("a"), ["volume_unmount disk a"]);
    assert_eq!(world.done("volume_unmount disk a"), ["volume_mount disk b"]);
}
