//! Waiting callers get true answers, with the cause.

use volhost_core::Event;
use volhost_model::FailureClass;
use volhost_model::view::VolumeState;

use crate::kit::*;

fn wait_mounted(world: &mut World, pod: &str, seconds: u64) {
    let deadline = world.now + seconds * 1_000 * MS;
    world.step(Event::WaitMounted { waiter: 1, uid: uid(pod), deadline });
}

fn wait_unmounted(world: &mut World, pod: &str, seconds: u64) {
    let deadline = world.now + seconds * 1_000 * MS;
    world.step(Event::WaitUnmounted { waiter: 2, uid: uid(pod), deadline });
}

#[test]
fn a_wait_is_answered_when_the_last_volume_is_mounted() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "x"), plain("a", "y")]);
    wait_mounted(&mut world, "a", 60);
    world.done("volume_mount x a");
    assert!(world.answers.is_empty());
    world.done("volume_mount y a");
    assert_eq!(world.answers, [(1, Ok(()))]);
    wait_mounted(&mut world, "a", 60);
    assert_eq!(world.answers.len(), 2, "satisfied already");
}

#[test]
fn a_pod_without_volumes_is_mounted() {
    let mut world = World::new();
    world.desire("a", vec![]);
    wait_mounted(&mut world, "a", 60);
    assert_eq!(world.answers, [(1, Ok(()))]);
}

#[test]
fn waiting_for_an_unknown_pod_fails_at_once() {
    let mut world = World::new();
    wait_mounted(&mut world, "a", 60);
    let failure = world.answers[0].1.clone().unwrap_err();
    assert!(failure.unknown_pod && !failure.timed_out);
}

#[test]
fn a_pod_that_goes_away_ends_the_wait_for_it() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "x")]);
    wait_mounted(&mut world, "a", 60);
    world.gone("a");
    assert!(world.answers[0].1.clone().unwrap_err().unknown_pod);
}

#[test]
fn a_wait_that_times_out_names_every_volume_its_step_and_its_cause() {
    let mut world = World::new();
    world.desire_with("a", vec![plain("a", "bad"), plain("a", "good"), plain("a", "hangs")], vec!["claimed"]);
    world.done("volume_mount good a");
    world.fails("volume_mount bad a", FailureClass::Final);
    let id = world.running[0].id;
    world.step(Event::OperationOverdue { id, message: "mount(2) of server:/x".into() });
    wait_mounted(&mut world, "a", 0);
    let failure = world.answers[0].1.clone().unwrap_err();
    assert!(failure.timed_out && !failure.unknown_pod);
    assert_eq!(failure.pod, "ns/a");
    let seen: Vec<_> =
        failure.volumes.iter().map(|v| (v.name.as_str(), v.state, v.step.as_str(), v.reason.as_str())).collect();
    assert_eq!(
        seen,
        [
            ("bad", VolumeState::Pending, "MountVolume.SetUp", ""),
            ("hangs", VolumeState::Mounting, "volume_mount is running", "past its deadline: mount(2) of server:/x"),
            ("claimed", VolumeState::Unresolved, "resolving the volume", "claim is not bound"),
        ]
    );
    assert_eq!(failure.volumes[0].failure.as_ref().unwrap().message, "disk on fire");
    assert!(failure.volumes[0].retry_at.is_some());
}

#[test]
fn a_claim_that_is_bound_in_time_ends_the_wait_well() {
    let mut world = World::new();
    world.desire_with("a", vec![], vec!["data"]);
    wait_mounted(&mut world, "a", 60);
    assert!(world.answers.is_empty());
    world.desire("a", vec![plain("a", "data")]);
    world.settle();
    assert_eq!(world.answers, [(1, Ok(()))]);
}

#[test]
fn a_volume_that_the_source_forgot_keeps_the_pod_waiting() {
    let mut world = World::new();
    let desired = volhost_core::DesiredPod { pod: pod("a", vec![outer("data")]), volumes: vec![], unresolved: vec![] };
    world.step(Event::PodDesired(desired));
    wait_mounted(&mut world, "a", 1);
    world.tick();
    assert_eq!(world.answers[0].1.clone().unwrap_err().volumes[0].name, "data");
}

#[test]
fn unmounted_means_that_nothing_is_uncertain_either() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "x")]);
    world.fails("volume_mount x a", FailureClass::Uncertain);
    world.gone("a");
    wait_unmounted(&mut world, "a", 60);
    world.fails("volume_unmount x a", FailureClass::Uncertain);
    assert!(world.answers.is_empty());
    world.tick();
    world.done("volume_unmount x a");
    assert_eq!(world.answers, [(2, Ok(()))]);
}

#[test]
fn a_wait_for_an_unmount_that_times_out_lists_the_volumes_left() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "x")]);
    world.settle();
    world.gone("a");
    world.fails("volume_unmount x a", FailureClass::Final);
    wait_unmounted(&mut world, "a", 0);
    let failure = world.answers[0].1.clone().unwrap_err();
    assert!(failure.timed_out && !failure.unknown_pod);
    assert_eq!(failure.volumes[0].name, "x");
    assert!(failure.volumes[0].failure.is_some());
}

#[test]
fn one_timer_is_armed_for_the_earliest_of_all() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "x")]);
    wait_mounted(&mut world, "a", 100);
    assert_eq!(world.armed, Some(world.now + 100_000 * MS));
    world.fails("volume_mount x a", FailureClass::Final);
    assert!(world.armed.is_some_and(|at| FIRST_WAIT.contains(&(at - world.now))), "{:?}", world.armed);
    world.armed = None;
    world.step(Event::SourcesSynced);
    assert_eq!(world.armed, None, "it is armed already");
}

#[test]
fn a_caller_that_left_is_not_answered() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "x")]);
    wait_mounted(&mut world, "a", 60);
    world.step(Event::WaitCancelled { waiter: 1 });
    world.settle();
    assert!(world.answers.is_empty());
}

#[test]
fn draining_ends_the_wait_for_mounts() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "x")]);
    wait_mounted(&mut world, "a", 60);
    world.step(Event::Drain);
    let failure = world.answers[0].1.clone().unwrap_err();
    assert!(!failure.timed_out && !failure.unknown_pod);
    assert!(failure.volumes[0].reason.contains("drain"));
}

#[test]
fn twenty_pods_are_waited_for_each_by_itself() {
    let mut world = World::new();
    let pods: Vec<String> = (0..20).map(|n| format!("pod{n}")).collect();
    for pod in &pods {
        world.desire(pod, vec![plain(pod, "x")]);
    }
    world.settle();
    for (waiter, pod) in pods.iter().enumerate() {
        world.gone(pod);
        let deadline = world.now + 1_000 * MS;
        world.step(Event::WaitUnmounted { waiter: waiter as u64, uid: uid(pod), deadline });
    }
    for pod in pods.iter().step_by(2) {
        world.done(&format!("volume_unmount x {pod}"));
    }
    assert_eq!(world.answers.len(), 10);
    world.tick();
    assert_eq!(world.answers.len(), 20, "the others at their deadline");
    for (waiter, result) in &world.answers {
        assert_eq!(result.is_ok(), waiter % 2 == 0, "{waiter}");
    }
}

#[test]
fn a_pod_without_volumes_is_unmounted_and_so_is_an_unknown_one() {
    let mut world = World::new();
    world.desire("a", vec![]);
    wait_unmounted(&mut world, "a", 60);
    wait_unmounted(&mut world, "unknown", 60);
    assert_eq!(world.answers, [(2, Ok(())), (2, Ok(()))]);
}
