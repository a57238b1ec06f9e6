//! Edits of PersistentVolumes and of pods while volumes are mounted.

use volhost_core::{DesiredVolume, DeviceReport, Event, OperationReport};
use volhost_model::names::UniqueVolumeName;
use volhost_model::view::{PodPhase, VolumeState};
use volhost_model::{Failure, FailureClass};

use crate::kit::*;

fn with_options(volume: &DesiredVolume, options: &[&str]) -> DesiredVolume {
    let options = options.iter().map(ToString::to_string).collect();
    changed(volume, |spec| spec.persistent_volume.as_mut().unwrap().mount_options = options)
}

fn with_fs_type(volume: &DesiredVolume, fs_type: &str) -> DesiredVolume {
    changed(volume, |spec| spec.fields.insert("fsType".into(), fs_type.into()))
}

fn mounted(volume: &DesiredVolume) -> World {
    let mut world = World::new();
    world.step(Event::SourcesSynced);
    world.desire("a", vec![volume.clone()]);
    world.settle();
    world.notices.clear();
    world
}

#[test]
fn an_edited_persistent_volume_stays_mounted_and_the_edit_is_reported_once() {
    for volume in [shared("disk"), staged("disk"), DesiredVolume { stageable: false, ..staged("disk") }] {
        let edited = with_fs_type(&with_options(&volume, &["noatime"]), "xfs");
        let mut world = mounted(&volume);
        assert!(world.desire("a", vec![edited.clone()]).is_empty());
        assert!(world.desire("a", vec![edited]).is_empty());
        assert_eq!(world.core.pod(&uid("a")).unwrap().phase, PodPhase::Mounted);
        assert_eq!(world.view("a", "disk").pending_edit, "mountOptions, test.fsType");
        assert_eq!(world.reasons(), ["VolumeEditPending"]);
        assert!(world.notices[0].message.contains("applies at its next mount"), "{}", world.notices[0].message);
        world.desire("a", vec![volume]);
        assert_eq!(world.view("a", "disk").pending_edit, "", "it was taken back");
    }
}

#[test]
fn an_edit_of_the_handle_does_not_unmount_the_volume_from_its_pod() {
    let volume = shared("disk");
    let mut world = mounted(&volume);
    let mut edited = changed(&volume, |spec| spec.fields.insert("handle".into(), "other".into()));
    edited.unique_name = UniqueVolumeName::shared(&plugin(), "other").unwrap();
    assert!(world.desire("a", vec![edited.clone()]).is_empty());
    assert_eq!(world.view("a", "disk").pending_edit, "test.handle");
    assert_eq!(world.core.pod(&uid("a")).unwrap().phase, PodPhase::Mounted);
    assert_eq!(world.gone("a"), ["volume_unmount disk a"]);
    assert_eq!(world.desire("b", vec![edited]), ["volume_attach disk"], "the next pod gets the volume as it is now");
}

#[test]
fn an_edit_applies_at_the_next_mount_staging_included() {
    let volume = staged("disk");
    let edited = with_options(&volume, &["noatime"]);
    let mut world = mounted(&volume);
    world.desire("a", vec![edited.clone()]);
    world.desire("b", vec![edited.clone()]);
    world.settle();
    assert_eq!(world.view("b", "disk").pending_edit, "mountOptions", "the node has it staged without the edit");
    world.gone("a");
    world.settle();
    world.gone("b");
    assert!(world.desire("c", vec![edited]).is_empty(), "it is being unmounted");
    assert_eq!(world.done("volume_unmount disk b"), ["unmount_device disk"]);
    assert_eq!(world.done("unmount_device disk"), ["volume_mount disk c"]);
    let options = &world.running[0].spec.as_ref().unwrap().persistent_volume.as_ref().unwrap().mount_options;
    assert_eq!(options, &["noatime"]);
    world.done("volume_mount disk c");
    assert_eq!(world.view("c", "disk").pending_edit, "");
}

#[test]
fn a_volume_that_is_staged_but_not_published_is_staged_again_after_an_edit() {
    let volume = staged("disk");
    let mut world = World::new();
    world.desire("a", vec![volume.clone()]);
    let failure = Failure::new(FailureClass::Final, "MountVolume.SetUp", "no");
    let device = Some(DeviceReport::Mounted);
    world.end("volume_mount disk a", OperationReport { device, ..OperationReport::failed(failure) });
    assert_eq!(world.desire("a", vec![with_options(&volume, &["ro"])]), ["unmount_device disk"]);
}

#[test]
fn a_size_that_changes_with_an_edit_expands_the_volume() {
    let volume = shared("disk");
    let mut world = mounted(&volume);
    assert_eq!(world.desire("a", vec![sized(&with_options(&volume, &["noatime"]), 20)]), ["volume_fs_resize disk a"]);
}

#[test]
fn an_edit_while_the_host_was_down_does_not_unmount_the_volume() {
    let volume = shared("disk");
    let mut world = World::new();
    world.recovered("a", &volume, true);
    assert!(world.desire("a", vec![with_options(&volume, &["noatime"])]).is_empty());
    assert!(world.step(Event::SourcesSynced).is_empty());
    assert_eq!(world.state("a", "disk"), VolumeState::Mounted);
    assert_eq!(world.view("a", "disk").pending_edit, "mountOptions");
}

/// One inline volume that pods share, under this name.
fn inline(name: &str) -> DesiredVolume {
    let unique_name = UniqueVolumeName::shared(&plugin(), "image").unwrap();
    DesiredVolume { unique_name, stageable: true, ..plain("a", name) }
}

#[test]
fn each_of_two_names_of_one_volume_is_shown_by_itself() {
    let mut world = World::new();
    world.desire("a", vec![inline("one"), inline("two")]);
    world.settle();
    let view = world.core.pod(&uid("a")).unwrap();
    let names: Vec<&str> = view.volumes.iter().map(|volume| volume.name.as_str()).collect();
    assert_eq!((names, view.ready, view.total), (vec!["one", "two"], 2, 2));
    assert_eq!(view.volumes[0].path, view.volumes[1].path);
}

#[test]
fn a_name_that_leaves_the_pod_does_not_unmount_the_volume_of_the_other_name() {
    for left in ["one", "two"] {
        let mut world = World::new();
        world.desire("a", vec![inline("one"), inline("two")]);
        world.settle();
        let path = world.view("a", left).path;
        assert!(world.desire("a", vec![inline(left)]).is_empty(), "{left}");
        assert_eq!(world.view("a", left).path, path);
        assert_eq!(world.core.pod(&uid("a")).unwrap().phase, PodPhase::Mounted);
        assert_eq!(world.gone("a"), ["volume_unmount one a"]);
    }
}

#[test]
fn the_order_of_two_names_does_not_matter() {
    let mut world = World::new();
    world.desire("a", vec![inline("one"), inline("two")]);
    world.settle();
    assert!(world.desire("a", vec![inline("two"), inline("one")]).is_empty());
}
