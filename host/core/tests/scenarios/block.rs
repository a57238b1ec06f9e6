//! Volumes that pods use as devices: mapped, not mounted. The kubelet's reconciler tests for block
//! volumes.

use volhost_core::{Config, DeviceReport, Event, OperationKind, OperationReport};
use volhost_model::view::VolumeState;
use volhost_model::{Failure, FailureClass};

use crate::kit::*;

fn map_fails(world: &mut World, class: FailureClass, device: Option<DeviceReport>) -> Vec<String> {
    let failure = Failure::new(class, "MapVolume.MapPodDevice", "no such device");
    world.end("map_volume raw a", OperationReport { device, ..OperationReport::failed(failure) })
}

fn mapping() -> World {
    let mut world = World::new();
    world.desire("a", vec![raw("raw")]);
    assert_eq!(world.done("volume_attach raw"), ["map_volume raw a"]);
    world
}

#[test]
fn attach_map_unmap_and_detach_in_this_order() {
    let mut world = mapping();
    world.done("map_volume raw a");
    assert_eq!(world.view("a", "raw").path, "pods/a/volumeDevices/test.example~p/raw");
    assert_eq!(world.core.volumes_in_use(), [raw("raw").unique_name]);
    assert_eq!(world.gone("a"), ["unmap_volume raw a"]);
    assert_eq!(world.done("unmap_volume raw a"), ["unmap_device raw"]);
    assert_eq!(world.done("unmap_device raw"), ["volume_detach raw"]);
    world.done("volume_detach raw");
    assert!(world.core.unused_volumes().is_empty() && world.core.volumes_in_use().is_empty());
}

#[test]
fn where_a_controller_attaches_it_is_verified_mapped_and_left_to_the_controller() {
    let name = raw("raw").unique_name;
    let mut world = World::with(Config::default());
    world.desire("a", vec![raw("raw")]);
    world.step(Event::NodeAttachments(vec![(name.clone(), "/dev/x".into())]));
    assert_eq!(world.step(Event::ReportedInUse(vec![name])), ["verify_controller_attached_volume raw"]);
    assert_eq!(world.done("verify_controller_attached_volume raw"), ["map_volume raw a"]);
    world.settle();
    assert_eq!(world.gone("a"), ["unmap_volume raw a"]);
    assert_eq!(world.done("unmap_volume raw a"), ["unmap_device raw"]);
    assert!(world.done("unmap_device raw").is_empty(), "the controller detaches");
    assert!(world.core.volumes_in_use().is_empty());
}

#[test]
fn a_map_that_timed_out_is_uncertain_and_undone_when_unwanted() {
    let mut world = mapping();
    map_fails(&mut world, FailureClass::Uncertain, None);
    assert_eq!(world.state("a", "raw"), VolumeState::Uncertain);
    assert_eq!(world.gone("a"), ["unmap_volume raw a"]);
}

#[test]
fn a_map_that_failed_leaves_no_mapping_and_its_device_is_unmapped() {
    let mut world = mapping();
    map_fails(&mut world, FailureClass::Final, Some(DeviceReport::Mounted));
    assert_eq!(world.state("a", "raw"), VolumeState::Pending);
    assert_eq!(world.reasons().last(), Some(&"FailedMapVolume"));
    assert_eq!(world.gone("a"), ["unmap_device raw"]);
}

#[test]
fn a_map_that_timed_out_and_then_failed_is_not_there() {
    let mut world = mapping();
    map_fails(&mut world, FailureClass::Uncertain, Some(DeviceReport::Mounted));
    assert_eq!(world.tick(), ["map_volume raw a"]);
    assert_eq!(world.running[0].kind, OperationKind::Map { staged: true });
    map_fails(&mut world, FailureClass::Final, Some(DeviceReport::Mounted));
    assert_eq!(world.gone("a"), ["unmap_device raw"]);
}

#[test]
fn a_device_that_could_not_be_staged_is_absent() {
    for (device, left) in
        [(DeviceReport::Unmounted, "volume_detach raw"), (DeviceReport::Uncertain, "unmap_device raw")]
    {
        let class = if device == DeviceReport::Uncertain { FailureClass::Uncertain } else { FailureClass::Final };
        let mut world = mapping();
        map_fails(&mut world, class, Some(device));
        assert_eq!(world.gone("a"), [left], "{device:?}");
    }
}

#[test]
fn a_staged_device_stays_staged_when_a_second_pod_cannot_map_it() {
    for class in [FailureClass::Final, FailureClass::Uncertain, FailureClass::Transient] {
        let mut world = mapping();
        world.settle();
        world.desire("b", vec![raw("raw")]);
        world.fails("map_volume raw b", class);
        assert_eq!(world.state("a", "raw"), VolumeState::Mounted, "{class:?}");
        assert_eq!(world.tick(), ["map_volume raw b"]);
        assert_eq!(world.running[0].kind, OperationKind::Map { staged: true }, "{class:?}");
    }
}

#[test]
fn without_its_plugin_nothing_is_mapped_unmapped_or_taken_from_the_node_and_nothing_changes() {
    let mut world = mapping();
    world.fails("map_volume raw a", FailureClass::Transient);
    assert_eq!(world.state("a", "raw"), VolumeState::Pending);
    assert_eq!(world.step(Event::PluginChanged { plugin: plugin() }), ["map_volume raw a"]);
    world.settle();
    world.gone("a");
    world.fails("unmap_volume raw a", FailureClass::Transient);
    assert_eq!(world.core.mounted_volumes_of(&uid("a")).len(), 1, "it is mounted as before");
    assert_eq!(world.step(Event::PluginChanged { plugin: plugin() }), ["unmap_volume raw a"]);
    world.done("unmap_volume raw a");
    world.fails("unmap_device raw", FailureClass::Transient);
    assert_eq!(world.core.unused_volumes().len(), 1);
    assert_eq!(world.step(Event::PluginChanged { plugin: plugin() }), ["unmap_device raw"]);
}

#[test]
fn a_larger_capacity_expands_a_device_that_is_mapped() {
    let mut world = mapping();
    world.settle();
    assert_eq!(world.desire("a", vec![sized(&raw("raw"), 20)]), ["volume_fs_resize raw a"]);
    world.settle();
    assert!(world.desire("a", vec![sized(&raw("raw"), 20)]).is_empty());
}

#[test]
fn a_recovered_device_whose_map_fails_stays_uncertain_and_is_unmapped_when_unwanted() {
    let mut world = World::new();
    world.recovered("a", &raw("raw"), false);
    world.desire("a", vec![raw("raw")]);
    world.done("volume_attach raw");
    map_fails(&mut world, FailureClass::Final, Some(DeviceReport::Mounted));
    assert_eq!(world.state("a", "raw"), VolumeState::Uncertain);
    world.step(Event::SourcesSynced);
    assert_eq!(world.gone("a"), ["unmap_volume raw a"]);
}

#[test]
fn a_volume_wanted_in_the_other_mode_is_unmounted_and_made_anew() {
    let mut world = mapping();
    world.settle();
    assert_eq!(world.desire("a", vec![shared("raw")]), ["unmap_volume raw a"]);
    assert_eq!(world.done("unmap_volume raw a"), ["volume_mount raw a"]);
}
