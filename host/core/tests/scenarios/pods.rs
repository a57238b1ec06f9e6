//! Pods come, change and go.

use volhost_core::{DesiredVolume, Event};
use volhost_model::FailureClass;
use volhost_model::view::{PodPhase, VolumeState};

use crate::kit::*;

#[test]
fn a_refreshed_volume_is_remounted_when_due_and_a_failure_waits() {
    let refreshed = DesiredVolume { refreshed: true, follows_source: true, ..plain("a", "fresh") };
    let follows = DesiredVolume { follows_source: true, ..plain("a", "config") };
    let mut world = World::new();
    world.desire("a", vec![refreshed, follows, plain("a", "plain")]);
    world.settle();
    assert_eq!(world.step(Event::Refresh), ["revolume_mount fresh a"]);
    assert!(world.step(Event::Refresh).is_empty(), "it is being done");
    world.fails("revolume_mount fresh a", FailureClass::Transient);
    assert!(world.step(Event::Refresh).is_empty(), "its back-off runs");
    assert_eq!(world.state("a", "fresh"), VolumeState::Mounted);
}

#[test]
fn nothing_desired_starts_nothing() {
    let mut world = World::new();
    assert!(world.step(Event::SourcesSynced).is_empty());
    assert!(world.gone("never-seen").is_empty());
    assert!(world.core.pods().is_empty());
}

#[test]
fn a_volume_is_mounted_by_one_operation_and_unmounted_by_one() {
    let mut world = World::new();
    assert_eq!(world.desire("a", vec![plain("a", "data")]), ["volume_mount data a"]);
    assert_eq!(world.state("a", "data"), VolumeState::Mounting);
    assert!(world.done("volume_mount data a").is_empty());
    assert_eq!(world.core.pod(&uid("a")).unwrap().phase, PodPhase::Mounted);
    assert_eq!(world.view("a", "data").path, "pods/a/volumes/test.example~p/data");
    assert_eq!(world.gone("a"), ["volume_unmount data a"]);
    assert_eq!(world.core.pod(&uid("a")).unwrap().phase, PodPhase::Unmounting);
    world.done("volume_unmount data a");
    assert!(world.core.pods().is_empty());
    assert_eq!(world.reasons(), ["SuccessfulMountVolume", "SuccessfulUnmount"]);
}

#[test]
fn the_same_pod_again_changes_nothing() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "data")]);
    world.settle();
    assert!(world.desire("a", vec![plain("a", "data")]).is_empty());
    assert_eq!(world.state("a", "data"), VolumeState::Mounted);
}

#[test]
fn a_volume_that_the_pod_no_longer_lists_is_unmounted() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "data"), plain("a", "logs")]);
    world.settle();
    assert_eq!(world.desire("a", vec![plain("a", "data")]), ["volume_unmount logs a"]);
}

#[test]
fn a_volume_that_cannot_be_resolved_any_more_stays_mounted() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "data"), plain("a", "logs")]);
    world.settle();
    assert!(world.desire_with("a", vec![plain("a", "logs")], vec!["data"]).is_empty());
    assert_eq!(world.state("a", "data"), VolumeState::Mounted);
    let view = world.core.pod(&uid("a")).unwrap();
    assert_eq!((view.phase, view.ready, view.total), (PodPhase::Mounted, 2, 2));
    assert_eq!(view.errors, ["volume \"data\": claim is not bound"]);
    assert_eq!(world.view("a", "data").failure.unwrap().message, "claim is not bound");
    assert!(world.desire("a", vec![plain("a", "data"), plain("a", "logs")]).is_empty());
    assert_eq!(world.core.pod(&uid("a")).unwrap().phase, PodPhase::Mounted);
}

#[test]
fn an_unresolved_volume_is_reported_once_for_each_reason() {
    let mut world = World::new();
    world.desire_with("a", vec![], vec!["data"]);
    world.desire_with("a", vec![], vec!["data"]);
    assert_eq!(world.reasons(), ["UnresolvedVolume"]);
}

#[test]
fn a_changed_source_is_unmounted_before_the_new_one_is_mounted() {
    let mut world = World::new();
    let old = plain("a", "data");
    world.desire("a", vec![old.clone()]);
    world.settle();
    let new = changed(&old, |spec| spec.read_only = true);
    assert_eq!(world.desire("a", vec![new]), ["volume_unmount data a"]);
    assert!(!world.running[0].spec.as_ref().unwrap().read_only, "the old spec is unmounted");
    assert_eq!(world.done("volume_unmount data a"), ["volume_mount data a"]);
    assert!(world.running[0].spec.as_ref().unwrap().read_only);
}

#[test]
fn a_volume_that_follows_its_source_is_refreshed_in_place() {
    let mut world = World::new();
    let mut volume = plain("a", "config");
    volume.follows_source = true;
    world.desire("a", vec![volume.clone()]);
    world.settle();
    assert_eq!(world.step(Event::SourceChanged { uid: uid("a") }), ["revolume_mount config a"]);
    // Changed again meanwhile: what runs may have read the old content.
    assert!(world.step(Event::SourceChanged { uid: uid("a") }).is_empty());
    assert_eq!(world.done("revolume_mount config a"), ["revolume_mount config a"]);
    assert!(world.done("revolume_mount config a").is_empty());
    let new = changed(&volume, |spec| spec.source = "other".into());
    assert_eq!(world.desire("a", vec![new]), ["revolume_mount config a"]);
}

#[test]
fn an_unresolved_volume_whose_source_changed_is_refreshed_once_it_is_resolved() {
    let mut world = World::new();
    let volume = DesiredVolume { follows_source: true, ..plain("a", "config") };
    world.desire("a", vec![volume.clone()]);
    world.settle();
    world.desire_with("a", vec![], vec!["config"]);
    assert!(world.step(Event::SourceChanged { uid: uid("a") }).is_empty());
    assert_eq!(world.desire("a", vec![volume]), ["revolume_mount config a"]);
}

#[test]
fn a_failed_refresh_keeps_the_mounted_content() {
    for class in [FailureClass::Final, FailureClass::Uncertain, FailureClass::Transient] {
        let mut world = World::new();
        let mut volume = plain("a", "config");
        volume.follows_source = true;
        world.desire("a", vec![volume]);
        world.settle();
        world.step(Event::SourceChanged { uid: uid("a") });
        assert!(world.fails("revolume_mount config a", class).is_empty());
        assert_eq!(world.state("a", "config"), VolumeState::Mounted, "{class:?}");
        assert!(world.view("a", "config").failure.is_some());
        assert_eq!(world.tick(), ["revolume_mount config a"]);
    }
}

#[test]
fn a_change_of_the_source_ends_the_wait_of_a_failed_refresh_and_of_a_failed_first_mount() {
    let mut world = World::new();
    let mut volume = plain("a", "config");
    volume.follows_source = true;
    world.desire("a", vec![volume]);
    for _ in 0..5 {
        world.fails("volume_mount config a", FailureClass::Final);
        world.tick();
    }
    world.fails("volume_mount config a", FailureClass::Final);
    assert_eq!(world.step(Event::SourceChanged { uid: uid("a") }), ["volume_mount config a"]);
    world.done("volume_mount config a");
    world.step(Event::SourceChanged { uid: uid("a") });
    world.fails("revolume_mount config a", FailureClass::Final);
    assert_eq!(world.step(Event::SourceChanged { uid: uid("a") }), ["revolume_mount config a"]);
}

#[test]
fn a_change_of_the_source_does_not_hurry_volumes_that_do_not_follow_it() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "data")]);
    world.fails("volume_mount data a", FailureClass::Final);
    assert!(world.step(Event::SourceChanged { uid: uid("a") }).is_empty());
}

#[test]
fn a_pod_that_comes_back_while_it_is_unmounted_is_mounted_again() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "data")]);
    world.settle();
    world.gone("a");
    assert!(world.desire("a", vec![plain("a", "data")]).is_empty());
    assert!(
        world.core.mounted_volumes_of(&uid("a")).is_empty(),
        "a volume that is being unmounted is not reported as mounted"
    );
    assert_eq!(world.done("volume_unmount data a"), ["volume_mount data a"]);
}

#[test]
fn a_mount_that_ends_after_its_pod_is_undone() {
    for (class, undone) in [(None, true), (Some(FailureClass::Uncertain), true), (Some(FailureClass::Final), false)] {
        let mut world = World::new();
        world.desire("a", vec![plain("a", "data")]);
        assert!(world.gone("a").is_empty());
        let started = match class {
            None => world.done("volume_mount data a"),
            Some(class) => world.fails("volume_mount data a", class),
        };
        assert_eq!(!started.is_empty(), undone, "{class:?}");
        assert_eq!(world.core.pods().is_empty(), !undone, "{class:?}");
    }
}

#[test]
fn two_names_for_one_volume_are_one_mount() {
    let mut world = World::new();
    let first = shared("disk");
    let mut second = first.clone();
    second.outer_name = outer("again");
    world.desire("a", vec![first, second]);
    world.settle();
    let view = world.core.pod(&uid("a")).unwrap();
    assert_eq!((view.phase, view.volumes.len()), (PodPhase::Mounted, 2));
    assert_eq!((view.volumes[0].name.as_str(), view.volumes[1].name.as_str()), ("disk", "again"));
    assert_eq!(view.volumes[0].path, view.volumes[1].path);
}

/// Another PersistentVolume whose folder has this name.
fn other_volume(folder: &str) -> DesiredVolume {
    let mut new = changed(&staged(folder), |spec| spec.persistent_volume.as_mut().unwrap().name = "other".into());
    new.unique_name = volhost_model::UniqueVolumeName::shared(&plugin(), "other-handle").unwrap();
    new
}

#[test]
fn another_volume_in_the_same_folder_waits_until_the_first_is_gone() {
    let mut world = World::new();
    let (old, new) = (staged("disk"), other_volume("disk"));
    world.desire("a", vec![old]);
    world.settle();
    assert_eq!(world.desire("a", vec![new]), ["volume_unmount disk a"]);
    let started = world.done("volume_unmount disk a");
    assert!(started.contains(&"volume_mount disk a".to_owned()), "{started:?}");
}

#[test]
fn another_volume_in_the_same_folder_is_mounted_when_the_first_has_failed() {
    for class in [FailureClass::Final, FailureClass::Transient] {
        let new = other_volume("disk");
        let mut world = World::new();
        world.desire("a", vec![staged("disk")]);
        assert!(world.desire("a", vec![new]).is_empty(), "the first still runs");
        assert_eq!(world.fails("volume_mount disk a", class), ["volume_mount disk a"], "{class:?}");
    }
}

#[test]
fn draining_takes_everything_away_whatever_sources_say() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "data"), shared("disk")]);
    world.settle();
    let mut started = world.step(Event::Drain);
    started.sort();
    assert_eq!(started, ["volume_unmount data a", "volume_unmount disk a"]);
    assert!(world.desire("b", vec![plain("b", "data")]).is_empty());
    world.settle();
    assert!(
        world.core.pods().is_empty() && world.core.unused_volumes().is_empty() && world.core.operations().is_empty()
    );
}

#[test]
fn the_end_of_a_drain_mounts_again_what_pods_want() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "data"), shared("disk")]);
    world.settle();
    world.step(Event::Drain);
    world.settle();
    world.desire("b", vec![plain("b", "data")]);
    assert!(world.core.is_draining());
    let mut started = world.step(Event::DrainEnded);
    started.sort();
    assert_eq!(started, ["volume_attach disk", "volume_mount data a", "volume_mount data b"]);
    assert!(!world.core.is_draining());
    world.settle();
    assert_eq!(world.core.mounted_volumes_of(&uid("a")).len(), 2);

    // A volume that had not been unmounted yet stays.
    assert_eq!(world.step(Event::Drain).len(), 3);
    world.step(Event::DrainEnded);
    world.settle();
    assert_eq!(world.core.mounted_volumes_of(&uid("a")).len(), 2);
    assert_eq!(world.core.mounted_volumes_of(&uid("b")).len(), 1);
}

#[test]
fn extra_groups_come_from_mounted_volumes_and_leave_out_the_pods_own() {
    let mut world = World::new();
    let with_gid =
        |name: &str, gid| changed(&shared(name), |spec| spec.persistent_volume.as_mut().unwrap().gid = Some(gid));
    world.desire("a", vec![with_gid("one", 7), with_gid("two", 5), with_gid("three", 5)]);
    assert!(world.core.extra_supplemental_groups(&uid("a")).is_empty());
    world.settle();
    assert_eq!(world.core.extra_supplemental_groups(&uid("a")), [5]);
}

#[test]
fn one_pod_among_ten_thousand_volumes_costs_only_itself() {
    let mut world = World::new();
    let volumes = |pod: &str| (0..10).map(|n| plain(pod, &format!("v{n}"))).collect::<Vec<_>>();
    for n in 0..1_000 {
        let pod = format!("pod{n}");
        world.desire(&pod, volumes(&pod));
        world.settle();
    }
    let begun = std::time::Instant::now();
    for n in 0..1_000 {
        world.desire(&format!("pod{n}"), volumes(&format!("pod{n}")));
        world.gone("unknown");
    }
    // A look at every volume would be 20 million looks, half a minute and more.
    assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
}

#[test]
fn a_pod_is_known_by_uid_and_name_while_it_is_listed() {
    let mut world = World::new();
    let seen = |world: &World| {
        let listed = world.core.pod(&uid("a")).is_some();
        assert_eq!(world.core.has_pod(&uid("a")), listed);
        assert_eq!(world.core.pod_named("ns", "a").cloned(), listed.then(|| uid("a")));
        listed
    };
    assert!(!seen(&world));
    world.desire("a", vec![plain("a", "one")]);
    world.desire("b", vec![]);
    assert!(seen(&world));
    assert_eq!((world.core.pod_named("other", "a"), world.core.pod_named("ns", "c")), (None, None));
    world.settle();
    world.gone("a");
    assert!(seen(&world), "its volume is still mounted");
    world.settle();
    assert!(!seen(&world));
}
