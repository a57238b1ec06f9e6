//! A mounted, staged or attached volume stays with its plugin, whatever a source now
//! resolves.

use std::sync::Arc;

use volhost_core::{DesiredPod, DesiredVolume, Event, RecoveredDevice, UnresolvedVolume};
use volhost_model::FailureClass;
use volhost_model::names::{PluginName, UniqueVolumeName};
use volhost_model::view::{PodPhase, VolumeState};

use crate::kit::*;

fn fallback() -> PluginName {
    PluginName::new("test.example/fallback").unwrap()
}

/// The volume as another plugin would serve it, which names and stages it in its own way.
fn by_fallback(pod: &str, volume: &DesiredVolume) -> DesiredVolume {
    DesiredVolume {
        plugin: fallback(),
        unique_name: UniqueVolumeName::of_pod(&fallback(), &uid(pod), &volume.spec.name),
        attachable: false,
        stageable: false,
        ..volume.clone()
    }
}

fn unresolved(world: &mut World, name: &str, volume: &DesiredVolume) -> Vec<String> {
    let missing = UnresolvedVolume {
        spec: Some(Arc::clone(&volume.spec)),
        ..UnresolvedVolume::new(volume.outer_name.clone(), "no loaded plugin serves it")
    };
    let pod = pod(name, vec![volume.outer_name.clone()]);
    world.step(Event::PodDesired(DesiredPod { pod, volumes: vec![], unresolved: vec![missing] }))
}

fn synced() -> World {
    let mut world = World::new();
    world.step(Event::SourcesSynced);
    world
}

#[test]
fn a_mounted_volume_is_not_taken_over_by_another_plugin() {
    for volume in [plain("a", "data"), shared("disk"), raw("disk"), staged("disk")] {
        let mut world = synced();
        world.desire("a", vec![volume.clone()]);
        world.settle();
        world.notices.clear();
        assert!(world.desire("a", vec![by_fallback("a", &volume)]).is_empty(), "{}", volume.unique_name);
        let view = world.view("a", volume.outer_name.as_str());
        assert_eq!((view.state, view.plugin), (VolumeState::Mounted, plugin().to_string()));
        let pod = world.core.pod(&uid("a")).unwrap();
        assert_eq!((pod.phase, pod.ready, pod.total), (PodPhase::Mounted, 1, 1));
        assert!(pod.errors[0].contains("test.example/fallback does not take it over"), "{:?}", pod.errors);
        assert!(view.failure.unwrap().message.contains("what is mounted stays"));
        assert_eq!(world.reasons(), ["UnresolvedVolume"], "it is reported once");
        world.desire("a", vec![by_fallback("a", &volume)]);
        assert_eq!(world.reasons(), ["UnresolvedVolume"]);

        assert!(world.desire("a", vec![volume.clone()]).is_empty(), "its plugin is back");
        assert!(world.core.pod(&uid("a")).unwrap().errors.is_empty());
        assert_eq!(world.gone("a").len(), 1);
    }
}

#[test]
fn a_pod_that_is_deleted_while_its_plugin_is_missing_is_unmounted_by_that_plugin() {
    let mut world = synced();
    world.desire("a", vec![shared("disk")]);
    world.settle();
    world.desire("a", vec![by_fallback("a", &shared("disk"))]);
    assert_eq!(world.gone("a"), ["volume_unmount disk a"]);
    assert_eq!(world.running[0].plugin, plugin());
}

#[test]
fn a_volume_whose_plugin_is_missing_is_mounted_and_says_so() {
    let mut world = synced();
    world.desire("a", vec![shared("disk")]);
    world.settle();
    assert!(unresolved(&mut world, "a", &shared("disk")).is_empty());
    let pod = world.core.pod(&uid("a")).unwrap();
    assert_eq!((pod.phase, pod.ready), (PodPhase::Mounted, 1));
    assert!(world.view("a", "disk").failure.unwrap().message.contains("no loaded plugin serves it"));
}

#[test]
fn a_volume_whose_plugin_is_being_asked_stays_without_a_warning() {
    let mut world = synced();
    world.desire("a", vec![shared("disk")]);
    world.settle();
    world.notices.clear();
    let asked = UnresolvedVolume {
        spec: Some(Arc::clone(&shared("disk").spec)),
        is_pending: true,
        ..UnresolvedVolume::new(outer("disk"), "the plugin is being asked")
    };
    let pod = pod("a", vec![outer("disk")]);
    assert!(world.step(Event::PodDesired(DesiredPod { pod, volumes: vec![], unresolved: vec![asked] })).is_empty());
    let view = world.core.pod(&uid("a")).unwrap();
    assert_eq!((view.phase, view.errors.len(), view.volumes[0].failure.is_some()), (PodPhase::Mounted, 0, false));
    assert!(world.notices.is_empty());
}

#[test]
fn a_volume_that_is_only_staged_or_attached_stays_with_its_plugin() {
    for (volume, ends) in [(shared("disk"), 2), (shared("disk"), 1)] {
        let mut world = synced();
        world.desire("a", vec![volume.clone()]);
        world.done("volume_attach disk");
        if ends == 2 {
            let device = Some(volhost_core::DeviceReport::Mounted);
            let failure = volhost_model::Failure::new(FailureClass::Final, "MountVolume.SetUp", "no");
            let report = volhost_core::OperationReport { device, ..volhost_core::OperationReport::failed(failure) };
            world.end("volume_mount disk a", report);
        } else {
            world.fails("volume_mount disk a", FailureClass::Transient);
        }
        assert!(
            world.desire("a", vec![by_fallback("a", &volume)]).is_empty(),
            "it is not released, nor mounted by another"
        );
        assert!(unresolved(&mut world, "a", &volume).is_empty());
        assert!(world.desire_with("a", vec![], vec!["disk"]).is_empty(), "nor when nothing is known of it");
        assert!(world.core.pods()[0].volumes[0].failure.is_some());
        assert_eq!(world.desire("a", vec![]).len(), 1, "it is released when the pod does not want it any more");
    }
}

#[test]
fn another_pod_does_not_get_a_volume_from_a_second_plugin() {
    let mut world = synced();
    world.desire("a", vec![shared("disk")]);
    world.settle();
    assert!(world.desire("b", vec![by_fallback("b", &shared("disk"))]).is_empty());
    assert_eq!(world.core.pod(&uid("b")).unwrap().phase, PodPhase::Mounting);
    assert_eq!(world.desire("b", vec![shared("disk")]), ["volume_mount disk b"]);
}

#[test]
fn after_a_restart_a_volume_stays_with_the_plugin_that_its_record_names() {
    for volume in [plain("a", "data"), shared("disk"), raw("disk")] {
        let mut world = World::new();
        world.recovered("a", &volume, true);
        assert!(world.desire("a", vec![by_fallback("a", &volume)]).is_empty());
        assert!(world.step(Event::SourcesSynced).is_empty(), "{}", volume.unique_name);
        let pod = world.core.pod(&uid("a")).unwrap();
        assert_eq!((pod.phase, pod.ready), (PodPhase::Mounted, 1), "it is taken over as it is");
        assert!(world.desire("a", vec![volume]).is_empty());
    }
}

#[test]
fn after_a_restart_a_volume_without_a_record_stays_with_the_plugin_of_its_folder() {
    let volume = plain("a", "data");
    let mut world = World::new();
    world.step(Event::Recovered(volhost_core::RecoveredVolume {
        pod: uid("a"),
        known_pod: None,
        plugin: plugin(),
        spec_name: volume.spec.name.clone(),
        unique_name: volume.unique_name.clone(),
        spec: None,
        intact: false,
        at_folder: false,
        attachable: false,
        stageable: false,
        container_mounts: Arc::default(),
        needs: Arc::default(),
    }));
    world.desire("a", vec![by_fallback("a", &volume)]);
    assert!(world.step(Event::SourcesSynced).is_empty());
}

#[test]
fn after_a_restart_a_staged_volume_stays_for_a_pod_whose_claim_cannot_be_resolved() {
    let mut world = World::new();
    let volume = shared("disk");
    world.step(Event::RecoveredDevice(RecoveredDevice {
        plugin: plugin(),
        unique_name: volume.unique_name.clone(),
        spec_name: volume.spec.name.clone(),
        spec: Some(Arc::clone(&volume.spec)),
        attachable: true,
        stageable: true,
    }));
    let waits = |claim: &str| {
        let missing =
            UnresolvedVolume { claim: Some(claim.into()), ..UnresolvedVolume::new(outer("data"), "not bound") };
        let pod = pod("a", vec![outer("data")]);
        Event::PodDesired(DesiredPod { pod, volumes: vec![], unresolved: vec![missing] })
    };
    world.step(waits("ns/disk"));
    assert!(world.step(Event::SourcesSynced).is_empty());
    assert_eq!(world.step(waits("ns/other")), ["unmount_device disk"], "it is no volume of the pod");
}

#[test]
fn another_inline_volume_under_the_same_name_replaces_the_first() {
    let old = plain("a", "data");
    let mut world = synced();
    world.desire("a", vec![old.clone()]);
    world.settle();
    let new = by_fallback("a", &changed(&old, |spec| spec.source = "other".into()));
    assert!(world.desire("a", vec![new]).contains(&"volume_unmount data a".to_owned()));
}
