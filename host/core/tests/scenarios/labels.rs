//! SELinux labels of volumes that pods share: what the kubelet's tests of several pods with one
//! volume cover. Each pod's label has been worked out already; none is a pod whose files are
//! labelled one by one, or that has no label.

use volhost_core::DesiredVolume;
use volhost_model::FailureClass;
use volhost_model::view::VolumeState;

use crate::kit::*;

const ONE: Option<&str> = Some("system_u:object_r:container_file_t:s0:c1,c2");
const OTHER: Option<&str> = Some("system_u:object_r:container_file_t:s0:c3,c4");

fn labelled(volume: &DesiredVolume, label: Option<&str>) -> DesiredVolume {
    changed(volume, |spec| spec.selinux_label = label.map(str::to_owned))
}

#[test]
fn pods_with_the_same_label_share_a_volume_and_others_wait_with_the_reason() {
    for (first, second, shares) in
        [(ONE, ONE, true), (None, None, true), (ONE, OTHER, false), (ONE, None, false), (None, ONE, false)]
    {
        for volume in [shared("disk"), staged("disk")] {
            let mut world = World::new();
            world.desire("a", vec![labelled(&volume, first)]);
            world.settle();
            world.notices.clear();
            let started = world.desire("b", vec![labelled(&volume, second)]);
            if shares {
                assert_eq!(started, ["volume_mount disk b"], "{first:?} {second:?}");
                continue;
            }
            assert!(started.is_empty(), "{first:?} {second:?}: {started:?}");
            assert_eq!(world.reasons(), ["FailedMount"], "said once");
            let said = &world.notices[0].message;
            assert!(said.contains("conflicting SELinux labels of volume") && said.contains("ns/a"), "{said}");
            assert!(first.or(second).is_some_and(|label| said.contains(label)), "{said}");
            assert_eq!(world.state("a", "disk"), VolumeState::Mounted, "who has it keeps it");
            // The node mounts it anew for the second, and does not detach it for that.
            assert_eq!(world.gone("a"), ["volume_unmount disk a"]);
            assert_eq!(world.done("volume_unmount disk a"), ["unmount_device disk"]);
            assert_eq!(world.done("unmount_device disk"), ["volume_mount disk b"]);
            assert_eq!(world.running[0].spec.as_ref().unwrap().selinux_label.as_deref(), second);
            world.settle();
            assert_eq!(world.state("b", "disk"), VolumeState::Mounted);
            assert_eq!(world.view("b", "disk").selinux_label, second.unwrap_or_default());
        }
    }
}

#[test]
fn a_pod_whose_label_changes_gets_its_volume_anew() {
    let mut world = World::new();
    world.desire("a", vec![labelled(&shared("disk"), ONE)]);
    world.settle();
    assert_eq!(world.desire("a", vec![labelled(&shared("disk"), OTHER)]), ["volume_unmount disk a"]);
    assert_eq!(world.done("volume_unmount disk a"), ["unmount_device disk"]);
    assert_eq!(world.done("unmount_device disk"), ["volume_mount disk a"]);
    world.settle();
    assert_eq!(world.state("a", "disk"), VolumeState::Mounted);
}

#[test]
fn a_volume_of_one_pod_alone_has_the_label_of_that_pod() {
    let mut world = World::new();
    world.desire("a", vec![labelled(&plain("a", "data"), ONE)]);
    world.desire("b", vec![labelled(&plain("b", "data"), OTHER)]);
    world.settle();
    assert_eq!((world.state("a", "data"), world.state("b", "data")), (VolumeState::Mounted, VolumeState::Mounted));
}

#[test]
fn of_two_pods_that_wait_the_one_that_fits_goes_first_and_the_other_waits_on() {
    let mut world = World::new();
    world.desire("a", vec![labelled(&staged("disk"), ONE)]);
    world.settle();
    world.desire("b", vec![labelled(&staged("disk"), OTHER)]);
    world.gone("a");
    assert_eq!(world.desire("c", vec![labelled(&staged("disk"), ONE)]), Vec::<String>::new(), "an unmount runs");
    assert_eq!(world.done("volume_unmount disk a"), ["volume_mount disk c"], "the node's mount fits it");
    world.settle();
    world.gone("c");
    world.settle();
    assert_eq!(world.state("b", "disk"), VolumeState::Mounted);
}

#[test]
fn a_device_that_could_not_be_unmounted_for_another_label_is_tried_again() {
    let mut world = World::new();
    world.desire("a", vec![labelled(&staged("disk"), ONE)]);
    world.settle();
    world.desire("b", vec![labelled(&staged("disk"), OTHER)]);
    world.gone("a");
    world.done("volume_unmount disk a");
    assert!(world.fails("unmount_device disk", FailureClass::Uncertain).is_empty());
    assert_eq!(world.tick(), ["unmount_device disk"]);
    assert_eq!(world.done("unmount_device disk"), ["volume_mount disk b"]);
}

#[test]
fn a_recovered_volume_keeps_its_label_and_an_unrecorded_one_stays_with_its_pod() {
    let volume = labelled(&staged("disk"), ONE);
    let mut world = World::new();
    world.recovered("a", &volume, true);
    assert!(world.desire("a", vec![volume.clone()]).is_empty(), "it is mounted as it is wanted");
    assert!(world.desire("b", vec![labelled(&staged("disk"), OTHER)]).is_empty());
    assert!(world.notices.iter().any(|notice| notice.message.contains("conflicting SELinux labels")));

    // A volume without a recorded label is not unmounted under its pod, and has the label that the
    // pod wants from then on.
    let mut world = World::new();
    world.step(volhost_core::Event::Recovered(volhost_core::RecoveredVolume {
        pod: uid("a"),
        known_pod: None,
        plugin: volume.plugin.clone(),
        spec_name: volume.spec.name.clone(),
        unique_name: volume.unique_name.clone(),
        spec: None,
        intact: false,
        at_folder: false,
        attachable: false,
        stageable: true,
        container_mounts: volume.container_mounts.clone(),
        needs: std::sync::Arc::default(),
    }));
    assert_eq!(world.desire("a", vec![volume]), ["volume_mount disk a"]);
    world.settle();
    assert!(world.desire("b", vec![labelled(&staged("disk"), OTHER)]).is_empty());
    assert!(world.notices.iter().any(|notice| notice.message.contains("conflicting SELinux labels")));
}

#[test]
fn an_unused_volume_without_a_recorded_label_is_mounted_anew_for_a_label() {
    let volume = labelled(&staged("disk"), ONE);
    for (label, first) in [(ONE, "unmount_device disk"), (None, "volume_mount disk a")] {
        let mut world = World::new();
        world.step(volhost_core::Event::RecoveredDevice(volhost_core::RecoveredDevice {
            plugin: volume.plugin.clone(),
            unique_name: volume.unique_name.clone(),
            spec_name: volume.spec.name.clone(),
            spec: None,
            attachable: false,
            stageable: true,
        }));
        let mut started = world.desire("a", vec![labelled(&volume, label)]);
        started.extend(world.step(volhost_core::Event::SourcesSynced));
        assert_eq!(started, [first]);
        world.settle();
        assert_eq!(world.state("a", "disk"), VolumeState::Mounted);
    }
}
