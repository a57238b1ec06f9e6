//! Volumes that are made of other volumes of their pod.

use volhost_core::{DesiredVolume, Event, OperationKind, OperationReport};
use volhost_model::view::VolumeState;
use volhost_model::{Failure, FailureClass, NeededVolume};

use crate::kit::*;

fn over(pod: &str, name: &str, below: &[&DesiredVolume]) -> DesiredVolume {
    let needs = below.iter().map(|below| NeededVolume {
        name: below.outer_name.clone(),
        unique_name: below.unique_name.clone(),
        plugin: below.plugin.clone(),
        spec_name: below.spec.name.clone(),
    });
    DesiredVolume { needs: needs.collect(), ..plain(pod, name) }
}

/// A pod `a` whose volume `app` is made of its volume `base`, both wanted.
fn pair() -> (DesiredVolume, DesiredVolume) {
    let base = plain("a", "base");
    (over("a", "app", &[&base]), base)
}

fn synced() -> World {
    let mut world = World::new();
    world.step(Event::SourcesSynced);
    world
}

fn mounted() -> World {
    let (app, base) = pair();
    let mut world = synced();
    world.desire("a", vec![app, base]);
    world.settle();
    world.notices.clear();
    world
}

#[test]
fn the_base_of_a_volume_is_mounted_first_and_unmounted_last() {
    let (app, base) = pair();
    let mut world = synced();
    assert_eq!(world.desire("a", vec![app, base]), ["volume_mount base a"]);
    assert!(world.notices.is_empty(), "waiting for it is no fault");
    assert_eq!(world.view("a", "app").made_of, ["base"]);
    assert_eq!(world.done("volume_mount base a"), ["volume_mount app a"]);
    assert_eq!(world.running[0].needs.len(), 1);
    world.done("volume_mount app a");
    assert_eq!(world.state("a", "app"), VolumeState::Mounted);
    assert_eq!(world.gone("a"), ["volume_unmount app a"]);
    assert_eq!(world.done("volume_unmount app a"), ["volume_unmount base a"]);
    world.done("volume_unmount base a");
    assert!(world.core.pods().is_empty());
}

#[test]
fn the_failure_of_a_base_is_reported_to_the_pod() {
    let (app, base) = pair();
    let mut world = synced();
    world.desire("a", vec![app, base]);
    assert!(world.fails("volume_mount base a", FailureClass::Final).is_empty());
    assert!(world.notices.iter().all(|notice| notice.volume == Some(plain("a", "base").unique_name)));
    let deadline = world.now + MS;
    world.step(Event::WaitMounted { waiter: 1, uid: uid("a"), deadline });
    world.now = deadline;
    world.step(Event::Timer);
    let failure = world.answers.remove(0).1.unwrap_err();
    let app = failure.volumes.iter().find(|volume| volume.name == "app").unwrap();
    assert!(app.reason.contains("made of volume base"), "{}", app.reason);
    world.now += 1_000 * MS;
    assert_eq!(world.step(Event::Timer), ["volume_mount base a"]);
    assert_eq!(world.done("volume_mount base a"), ["volume_mount app a"]);
}

#[test]
fn a_base_stays_while_the_volume_made_of_it_may_be_mounted() {
    let mut world = mounted();
    world.gone("a");
    assert!(world.fails("volume_unmount app a", FailureClass::Uncertain).is_empty());
    assert_eq!(world.tick(), ["volume_unmount app a"]);
    assert_eq!(world.done("volume_unmount app a"), ["volume_unmount base a"]);
}

#[test]
fn a_base_waits_for_a_running_mount() {
    let (app, base) = pair();
    let mut world = synced();
    world.desire("a", vec![app, base]);
    world.done("volume_mount base a");
    assert!(world.gone("a").is_empty());
    assert_eq!(world.fails("volume_mount app a", FailureClass::Final), ["volume_unmount base a"]);
}

#[test]
fn replacing_a_base_replaces_the_volume_made_of_it() {
    let mut world = mounted();
    let (app, base) = pair();
    let other = changed(&base, |spec| {
        spec.fields.insert("size".into(), serde_json::Value::from(2));
    });
    assert_eq!(world.desire("a", vec![app, other]), ["volume_unmount app a"]);
    assert_eq!(world.done("volume_unmount app a"), ["volume_unmount base a"]);
    assert_eq!(world.done("volume_unmount base a"), ["volume_mount base a"]);
    assert_eq!(world.done("volume_mount base a"), ["volume_mount app a"]);
}

#[test]
fn another_base_means_another_mount() {
    let mut world = mounted();
    let next = plain("a", "next");
    let app = over("a", "app", &[&next]);
    let mut started = world.desire("a", vec![app, next]);
    started.sort();
    assert_eq!(started, ["volume_mount next a", "volume_unmount app a"]);
    assert_eq!(world.done("volume_unmount app a"), ["volume_unmount base a"]);
    assert_eq!(world.done("volume_mount next a"), ["volume_mount app a"]);
}

#[test]
fn a_pod_that_cannot_be_resolved_keeps_both() {
    let mut world = mounted();
    assert!(world.desire_with("a", vec![], vec!["app"]).is_empty());
    assert!(world.desire_with("a", vec![], vec!["app", "base"]).is_empty());
    assert_eq!(world.state("a", "app"), VolumeState::Mounted);
}

#[test]
fn after_a_restart_the_order_is_known_again() {
    let (app, base) = pair();
    for intact in [true, false] {
        let mut world = World::new();
        for volume in [&app, &base] {
            assert!(world.recovered("a", volume, intact).is_empty());
        }
        assert_eq!(world.step(Event::SourcesSynced), ["volume_unmount app a"]);
        assert_eq!(world.done("volume_unmount app a"), ["volume_unmount base a"]);
    }
    let mut world = World::new();
    for volume in [&app, &base] {
        world.recovered("a", volume, true);
    }
    assert!(world.desire("a", vec![app, base]).is_empty(), "both are taken over");
    assert_eq!(world.step(Event::Drain), ["volume_unmount app a"]);
    assert_eq!(world.done("volume_unmount app a"), ["volume_unmount base a"]);
}

#[test]
fn a_base_for_the_node_goes_from_there_after_all() {
    let base = shared("base");
    let app = over("a", "app", &[&base]);
    let mut world = synced();
    world.desire("a", vec![app, base]);
    world.settle();
    world.gone("a");
    let mut order = vec![];
    while !world.running.is_empty() {
        let id = world.running[0].id;
        order.push(shown(&world.running.remove(0)));
        world.step(Event::OperationDone { id, report: OperationReport::done() });
    }
    assert_eq!(order, ["volume_unmount app a", "volume_unmount base a", "unmount_device base", "volume_detach base"]);
}

/// Numbers that look random, from a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Which of the two may be mounted, as the executor of the operations knows.
#[derive(Default)]
struct Mounted {
    app: bool,
    base: bool,
}

/// Checks the running operations against the mounts.
fn check(world: &World, mounted: &Mounted, seed: u64) {
    for operation in &world.running {
        let is_mount = matches!(operation.kind, OperationKind::Mount { .. });
        match (operation.spec_name.as_str(), is_mount) {
            ("app", true) => assert!(mounted.base, "seed {seed}: app is made without its base"),
            ("base", false) => assert!(!mounted.app, "seed {seed}: the base goes below app"),
            _ => {}
        }
    }
}

#[test]
fn in_any_order_of_events_no_volume_is_mounted_without_its_base_and_all_comes_to_rest() {
    for seed in 0..400 {
        let mut chance = Chance(seed);
        let (mut world, mut mounted) = (synced(), Mounted::default());
        let (app, base) = pair();
        for _ in 0..60 {
            match chance.below(6) {
                0 => drop(world.gone("a")),
                1 => {
                    let size = chance.below(3);
                    let base = changed(&base, |spec| {
                        spec.fields.insert("size".into(), serde_json::Value::from(size));
                    });
                    world.desire("a", vec![app.clone(), base]);
                }
                2 if world.armed.is_some() => drop(world.tick()),
                _ if world.running.is_empty() => {}
                _ => end_one(&mut world, &mut mounted, &mut chance),
            }
            check(&world, &mounted, seed);
        }
        world.desire("a", vec![app.clone(), base.clone()]);
        rest(&mut world, &mut mounted, seed);
        assert!(mounted.app && mounted.base, "seed {seed}");
        world.gone("a");
        rest(&mut world, &mut mounted, seed);
        assert!(!mounted.app && !mounted.base && world.core.pods().is_empty(), "seed {seed}");
    }
}

fn end_one(world: &mut World, mounted: &mut Mounted, chance: &mut Chance) {
    let at = usize::try_from(chance.below(world.running.len() as u64)).unwrap();
    let operation = world.running.remove(at);
    let class = [None, None, Some(FailureClass::Final), Some(FailureClass::Uncertain), Some(FailureClass::Transient)]
        [usize::try_from(chance.below(5)).unwrap()];
    let is_mount = matches!(operation.kind, OperationKind::Mount { .. });
    let it = if operation.spec_name.as_str() == "app" { &mut mounted.app } else { &mut mounted.base };
    match class {
        None => *it = is_mount,
        Some(FailureClass::Uncertain) => *it = true,
        Some(FailureClass::Final) if is_mount => *it = false,
        _ => {}
    }
    let report = class.map_or_else(OperationReport::done, |class| {
        OperationReport::failed(Failure::new(class, "MountVolume.SetUp", "disk on fire"))
    });
    world.step(Event::OperationDone { id: operation.id, report });
}

/// From now on everything succeeds.
fn rest(world: &mut World, mounted: &mut Mounted, seed: u64) {
    for _ in 0..200 {
        check(world, mounted, seed);
        if world.running.is_empty() {
            match world.armed {
                Some(_) => drop(world.tick()),
                None => return,
            }
            continue;
        }
        let operation = world.running.remove(0);
        let is_mount = matches!(operation.kind, OperationKind::Mount { .. });
        let it = if operation.spec_name.as_str() == "app" { &mut mounted.app } else { &mut mounted.base };
        *it = is_mount;
        world.step(Event::OperationDone { id: operation.id, report: OperationReport::done() });
    }
    panic!("seed {seed}: it does not come to rest");
}
