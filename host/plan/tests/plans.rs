//! Plans of a node with volumes that are mounted, fail or hang.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "tests may panic, and use a part of the scenarios' kit"
)]

#[path = "../../core/tests/scenarios/kit.rs"]
mod kit;

use kit::{World, plain, pod, shared, uid};
use volhost_core::{DesiredPod, Event};
use volhost_model::FailureClass;
use volhost_model::view::{PodPhase, VolumeState};
use volhost_plan::{Plan, plan};

fn planned(world: &World, events: Vec<Event>) -> Plan {
    plan(world.core.clone(), world.now, events)
}

fn operations(plan: &Plan) -> Vec<String> {
    let line =
        |one: &volhost_plan::PlannedOperation| format!("{} {} {} {}", one.round, one.name, one.spec_name, one.pod);
    plan.operations.iter().map(line).collect()
}

fn desired(name: &str, volumes: Vec<volhost_core::DesiredVolume>) -> Event {
    let used = volumes.iter().map(|volume| volume.outer_name.clone()).collect();
    Event::PodDesired(DesiredPod { pod: pod(name, used), volumes, unresolved: vec![] })
}

#[test]
fn each_operation_follows_what_it_needs_and_the_machine_itself_is_not_changed() {
    let mut world = World::new();
    world.step(Event::SourcesSynced);
    let plan = planned(&world, vec![desired("a", vec![shared("data"), plain("a", "cache")])]);
    assert_eq!(operations(&plan), ["1 volume_mount cache ns/a", "1 volume_attach data ", "2 volume_mount data ns/a"]);
    assert_eq!((plan.pods[0].phase, plan.pods[0].ready, plan.waiting.len()), (Some(PodPhase::Mounted), 2, 0));
    assert!(world.core.pods().is_empty());

    world.desire("a", vec![shared("data")]);
    world.settle();
    let gone = planned(&world, vec![Event::PodGone { uid: uid("a") }]);
    assert_eq!(operations(&gone), ["1 volume_unmount data ns/a", "2 unmount_device data ", "3 volume_detach data "]);
    assert_eq!((gone.pods[0].name.as_str(), gone.pods[0].phase), ("ns/a", None));
    assert_eq!(operations(&planned(&world, vec![Event::Drain])), operations(&gone));
}

#[test]
fn what_runs_now_is_assumed_to_succeed_unless_it_is_overdue() {
    let mut world = World::new();
    world.step(Event::SourcesSynced);
    world.desire("a", vec![plain("a", "cache")]);
    let gone = || vec![Event::PodGone { uid: uid("a") }];
    let plan = planned(&world, gone());
    assert_eq!((plan.running, operations(&plan)), (1, vec!["1 volume_unmount cache ns/a".to_owned()]));
    let id = world.running[0].id;
    world.step(Event::OperationOverdue { id, message: "mount".to_owned() });
    let plan = planned(&world, gone());
    assert_eq!((plan.running, operations(&plan)), (0, vec![]));
    assert_eq!(plan.waiting.len(), 1);
    assert_eq!(plan.waiting[0].reason, "an operation on it has passed its deadline");
}

#[test]
fn what_waits_for_its_next_try_goes_on_waiting() {
    let mut world = World::new();
    world.step(Event::SourcesSynced);
    world.desire("a", vec![plain("a", "cache")]);
    world.fails("volume_mount cache a", FailureClass::Final);
    let plan = planned(&world, vec![desired("a", vec![plain("a", "cache"), plain("a", "more")])]);
    assert_eq!(operations(&plan), ["1 volume_mount more ns/a"]);
    assert_eq!((plan.waiting.len(), plan.waiting[0].state), (1, VolumeState::Pending));
    assert!(plan.waiting[0].reason.contains("waits for its next try") && plan.waiting[0].retry_at.is_some());
}
