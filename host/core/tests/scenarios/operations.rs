//! Which operations run side by side, and how long a failed one waits (rule R3).

use volhost_core::{DesiredVolume, DeviceReport, Event, OperationReport};
use volhost_model::view::VolumeState;
use volhost_model::{Failure, FailureClass};

use crate::kit::*;

#[test]
fn mounts_of_volumes_that_are_not_shared_run_side_by_side() {
    let mut world = World::new();
    assert_eq!(world.desire("a", vec![plain("a", "x"), plain("a", "y")]).len(), 2);
    assert_eq!(world.desire("b", vec![plain("b", "x")]).len(), 1);
}

#[test]
fn mounts_of_one_shared_volume_run_one_after_the_other() {
    let mut world = World::new();
    assert_eq!(world.desire("a", vec![staged("disk")]), ["volume_mount disk a"]);
    assert!(world.desire("b", vec![staged("disk")]).is_empty());
    assert!(world.desire("c", vec![staged("disk")]).is_empty());
    assert_eq!(world.done("volume_mount disk a"), ["volume_mount disk b"]);
}

#[test]
fn an_unmount_waits_for_another_pods_mount_of_the_volume() {
    let mut world = World::new();
    world.desire("a", vec![staged("disk")]);
    world.settle();
    world.desire("b", vec![staged("disk")]);
    assert!(world.gone("a").is_empty());
    assert_eq!(world.done("volume_mount disk b"), ["volume_unmount disk a"]);
}

#[test]
fn the_device_waits_for_the_last_pod() {
    let mut world = World::new();
    world.desire("a", vec![staged("disk")]);
    world.desire("b", vec![staged("disk")]);
    world.settle();
    world.gone("a");
    assert!(world.done("volume_unmount disk a").is_empty());
    world.gone("b");
    assert_eq!(world.done("volume_unmount disk b"), ["unmount_device disk"]);
    assert!(world.desire("c", vec![staged("disk")]).is_empty(), "the device's key is taken");
    assert_eq!(world.done("unmount_device disk"), ["volume_mount disk c"]);
}

#[test]
fn a_failed_key_waits_twice_as_long_each_time() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "data")]);
    for seconds in [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 122.0, 122.0] {
        let begun = world.now;
        assert!(world.fails("volume_mount data a", FailureClass::Final).is_empty());
        assert!(world.desire("a", vec![plain("a", "data")]).is_empty(), "an event does not shorten the wait");
        assert_eq!(world.tick(), ["volume_mount data a"]);
        // Spread by a quarter: longer until the longest wait is reached, and shorter from then on.
        let bounds = if seconds == 122.0 { 91.5..=122.0 } else { seconds..=seconds * 1.25 };
        assert!(bounds.contains(&((world.now - begun) as f64 / 1e6)), "{seconds}");
    }
    assert_eq!(world.view("a", "data").failures, 10);
}

#[test]
fn another_operation_on_the_key_starts_at_once_and_wipes_the_wait() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "data")]);
    world.fails("volume_mount data a", FailureClass::Uncertain);
    assert_eq!(world.gone("a"), ["volume_unmount data a"]);
    world.fails("volume_unmount data a", FailureClass::Uncertain);
    assert_eq!(world.desire("a", vec![plain("a", "data")]), ["volume_mount data a"]);
    let begun = world.now;
    world.fails("volume_mount data a", FailureClass::Uncertain);
    world.tick();
    assert!(FIRST_WAIT.contains(&(world.now - begun)));
}

#[test]
fn a_success_wipes_the_wait() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "data")]);
    world.fails("volume_mount data a", FailureClass::Final);
    world.tick();
    world.settle();
    let view = world.view("a", "data");
    assert_eq!((view.failures, view.failure, view.retry_at), (0, None, None));
    assert!(world.core.operations().is_empty());
}

#[test]
fn a_pod_whose_mount_fails_does_not_delay_another_pod_of_the_volume() {
    let mut world = World::new();
    world.desire("a", vec![staged("disk")]);
    world.desire("b", vec![staged("disk")]);
    let failure = Failure::new(FailureClass::Final, "MountVolume.SetUp", "bad fsGroup");
    let report = OperationReport { device: Some(DeviceReport::Mounted), ..OperationReport::failed(failure) };
    assert_eq!(world.end("volume_mount disk a", report), ["volume_mount disk b"]);
}

#[test]
fn a_device_that_fails_makes_every_pod_wait_and_the_next_one_try() {
    let mut world = World::new();
    world.desire("a", vec![staged("disk")]);
    world.desire("b", vec![staged("disk")]);
    assert!(world.fails("volume_mount disk a", FailureClass::Final).is_empty());
    assert!(world.view("b", "disk").failure.is_some(), "b shows the cause too");
    assert_eq!(world.tick(), ["volume_mount disk b"]);
}

#[test]
fn an_operation_that_was_cancelled_for_one_pod_neither_delays_nor_misinforms_another() {
    let mut world = World::new();
    world.desire("a", vec![staged("disk")]);
    world.desire("b", vec![staged("disk")]);
    world.gone("a");
    let failure = Failure::new(FailureClass::Uncertain, "MountVolume.MountDevice", "the pod was deleted");
    let device = Some(DeviceReport::Uncertain);
    let report = OperationReport { cancelled: true, device, ..OperationReport::failed(failure) };
    assert_eq!(world.end("volume_mount disk a", report), ["volume_mount disk b"]);
    assert_eq!(world.view("b", "disk").failure, None);
    // A failure of its own counts.
    assert!(world.fails("volume_mount disk b", FailureClass::Final).is_empty());
    assert_eq!(world.view("b", "disk").failures, 1);
}

#[test]
fn a_new_plugin_is_tried_at_once() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "data")]);
    world.fails("volume_mount data a", FailureClass::Transient);
    let other = volhost_model::PluginName::new("test.example/other").unwrap();
    assert!(world.step(Event::PluginChanged { plugin: other }).is_empty());
    assert_eq!(world.step(Event::PluginChanged { plugin: plugin() }), ["volume_mount data a"]);
}

#[test]
fn storage_that_answers_again_is_tried_at_once_and_its_failures_count_on() {
    let mut world = World::new();
    let other = plain("b", "other");
    let data = plain("a", "data");
    let name = data.unique_name.clone();
    let answers = || Event::StorageAnswers(vec![name.clone()]);
    world.desire("a", vec![data]);
    world.fails("volume_mount data a", FailureClass::Final);
    world.desire("b", vec![other]);
    world.fails("volume_mount other b", FailureClass::Final);
    let failures = |world: &World| world.view("a", "data").failures;
    assert_eq!(world.step(answers()), ["volume_mount data a"], "the other volume waits");
    world.fails("volume_mount data a", FailureClass::Final);
    assert_eq!(failures(&world), 2);
    assert_eq!(world.step(answers()), ["volume_mount data a"]);
    world.fails("volume_mount data a", FailureClass::Final);
    assert_eq!(failures(&world), 3);
    assert!(world.step(answers()).is_empty(), "it was hurried after 2 failures, and is again after 4");
    world.now += 2_000 * MS + 2_000 * MS / 4;
    assert!(world.step(Event::Timer).contains(&"volume_mount data a".to_owned()));
    world.fails("volume_mount data a", FailureClass::Final);
    assert_eq!(world.step(answers()), ["volume_mount data a"]);
    world.done("volume_mount data a");
    assert!(world.step(answers()).is_empty(), "nothing has failed");
}

#[test]
fn an_overdue_operation_keeps_its_key_and_its_late_end_counts() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "data")]);
    let id = world.running[0].id;
    assert!(world.step(Event::OperationOverdue { id, message: "mount(2) hangs".into() }).is_empty());
    assert!(world.core.operations()[0].overdue);
    assert_eq!(world.reasons(), ["VolumeOverdue"]);
    assert!(world.gone("a").is_empty());
    assert_eq!(world.done("volume_mount data a"), ["volume_unmount data a"]);
}

#[test]
fn an_answer_without_a_waiter_is_ignored() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "data")]);
    let id = world.running[0].id;
    world.settle();
    for id in [id, 0, u64::MAX] {
        let failure = Failure::new(FailureClass::Final, "late", "too late");
        assert!(world.step(Event::OperationDone { id, report: OperationReport::failed(failure) }).is_empty());
    }
    assert_eq!(world.state("a", "data"), VolumeState::Mounted);
}

#[test]
fn the_event_of_a_failure_names_volume_step_and_cause() {
    let mut world = World::new();
    world.desire("a", vec![plain("a", "data")]);
    world.fails("volume_mount data a", FailureClass::Final);
    let notice = &world.notices[0];
    assert_eq!((notice.reason, notice.pod.as_str()), ("FailedMount", "ns/a"));
    assert_eq!(notice.message, "MountVolume.SetUp failed for volume \"data\": disk on fire");
}

#[test]
fn a_larger_capacity_expands_the_volume_and_does_not_remount_it() {
    let mut world = World::new();
    world.desire("a", vec![staged("disk")]);
    world.settle();
    let larger = changed(&staged("disk"), |spec| spec.persistent_volume.as_mut().unwrap().capacity = Some(20));
    assert_eq!(world.desire("a", vec![larger.clone()]), ["volume_fs_resize disk a"]);
    world.fails("volume_fs_resize disk a", FailureClass::Final);
    assert_eq!(world.state("a", "disk"), VolumeState::Mounted);
    assert!(world.reasons().contains(&"VolumeResizeFailed"));
    assert_eq!(world.tick(), ["volume_fs_resize disk a"]);
    world.settle();
    assert!(world.desire("a", vec![larger]).is_empty());
}

#[test]
fn a_size_that_is_refused_is_asked_for_again_by_another_size_or_another_pod_alone() {
    let mut world = World::new();
    world.desire("a", vec![staged("disk")]);
    world.settle();
    let of_size =
        |size| changed(&staged("disk"), |spec| spec.persistent_volume.as_mut().unwrap().capacity = Some(size));
    let refused = |size| {
        let failure = Failure::new(FailureClass::Final, "NodeExpandVolume", "in use");
        OperationReport { refused_size: Some(size), ..OperationReport::failed(failure) }
    };
    assert_eq!(world.desire("a", vec![of_size(20)]), ["volume_fs_resize disk a"]);
    assert!(world.end("volume_fs_resize disk a", refused(20)).is_empty());
    assert!(world.reasons().contains(&"VolumeResizeFailed"));
    assert!(world.desire("a", vec![of_size(20)]).is_empty(), "it is not asked for again");
    assert_eq!(world.desire("a", vec![of_size(30)]), ["volume_fs_resize disk a"]);
    assert!(world.end("volume_fs_resize disk a", refused(30)).is_empty());
    // A mount for another pod finds out anew, and leaves the size that it found.
    assert_eq!(world.desire("b", vec![of_size(30)]), ["volume_mount disk b"]);
    let mounted = OperationReport { size: Some(10), ..OperationReport::done() };
    assert_eq!(world.end("volume_mount disk b", mounted), ["volume_fs_resize disk a"]);
}

#[test]
fn a_volume_that_cannot_be_expanded_here_or_is_read_only_is_left_alone() {
    let grow = |spec: &mut volhost_model::VolumeSpec| spec.persistent_volume.as_mut().unwrap().capacity = Some(20);
    let mut fixed = staged("fixed");
    fixed.expandable = false;
    let read_only = changed(&staged("ro"), |spec| spec.read_only = true);
    let mut world = World::new();
    world.desire("a", vec![fixed.clone(), read_only.clone()]);
    world.settle();
    assert!(world.desire("a", vec![changed(&fixed, grow), changed(&read_only, grow)]).is_empty());
}

#[test]
fn the_clock_may_be_at_its_end() {
    let mut world = World::new();
    world.now = u64::MAX;
    world.desire("a", vec![plain("a", "data")]);
    assert_eq!(
        world.fails("volume_mount data a", FailureClass::Final),
        ["volume_mount data a"],
        "no time is left to wait"
    );
    world.settle();
    assert_eq!(world.state("a", "data"), VolumeState::Mounted);
}

#[test]
fn every_outcome_is_an_event_unmounts_included() {
    let check = |volume: DesiredVolume, steps: &[(&str, &str, &str)]| {
        let mut world = World::new();
        world.desire("a", vec![volume]);
        for (operation, failed, done) in steps {
            if operation.contains("volume_unmount") || operation.contains("unmap_volume") {
                world.gone("a");
            }
            world.notices.clear();
            world.fails(operation, FailureClass::Transient);
            assert_eq!(world.reasons(), [*failed], "{operation} fails");
            world.tick();
            world.notices.clear();
            world.done(operation);
            assert_eq!(world.reasons(), [*done], "{operation} is done");
        }
        assert!(world.running.is_empty() && world.core.unused_volumes().is_empty());
    };
    check(
        shared("disk"),
        &[
            ("volume_attach disk", "FailedAttachVolume", "SuccessfulAttachVolume"),
            ("volume_mount disk a", "FailedMount", "SuccessfulMountVolume"),
            ("volume_unmount disk a", "FailedUnmount", "SuccessfulUnmount"),
            ("unmount_device disk", "FailedUnmountDevice", "SuccessfulUnmountDevice"),
            ("volume_detach disk", "FailedDetachVolume", "SuccessfulDetachVolume"),
        ],
    );
    check(
        raw("raw"),
        &[
            ("volume_attach raw", "FailedAttachVolume", "SuccessfulAttachVolume"),
            ("map_volume raw a", "FailedMapVolume", "SuccessfulMountVolume"),
            ("unmap_volume raw a", "FailedUnmount", "SuccessfulUnmount"),
            ("unmap_device raw", "FailedUnmountDevice", "SuccessfulUnmountDevice"),
            ("volume_detach raw", "FailedDetachVolume", "SuccessfulDetachVolume"),
        ],
    );
}
