//! Volumes that must be attached, by the host or by a controller, and volumes that only one pod may
//! use.

use std::collections::BTreeSet;

use volhost_core::{Config, Core, DesiredVolume, Event, NamedLimit, OperationReport};
use volhost_model::view::VolumeState;
use volhost_model::{FailureClass, PluginName};

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
fn a_volume_that_a_report_names_otherwise_than_the_node_is_found() {
    let mut world = World::with(Config::default());
    world.recovered("a", &shared("disk"), true);
    world.recovered("a", &DesiredVolume { attachable: true, ..plain("a", "inline") }, true);
    let of = |name: &str| BTreeSet::from([name.to_owned()]);
    assert!(world.core.has_other_name_of(&of("disk"), |_| false));
    assert!(!world.core.has_other_name_of(&of("disk"), |name| *name == shared("disk").unique_name));
    assert!(!world.core.has_other_name_of(&of("inline"), |_| false), "it is of no PersistentVolume");
    assert!(!world.core.has_other_name_of(&of("of-no-pod"), |_| false));
}

#[test]
fn a_volume_that_counts_as_attached_for_want_of_a_record_is_mounted_without_an_attachment() {
    let mut world = World::new();
    world.recovered("a", &shared("disk"), false);
    // Its driver attaches nothing.
    assert_eq!(world.desire("a", vec![staged("disk")]), ["volume_mount disk a"]);
    assert!(!world.running[0].attachable);
    world.settle();
    assert_eq!(world.state("a", "disk"), VolumeState::Mounted);
    world.step(Event::SourcesSynced);
    world.gone("a");
    world.done("volume_unmount disk a");
    assert_eq!(world.done("unmount_device disk"), ["volume_detach disk"], "it may be attached: it is detached");
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
fn a_volume_that_was_found_attached_before_any_report_gets_the_name_of_the_first_report() {
    let name = shared("disk").unique_name;
    let reported = vec![(name.clone(), "/dev/y".to_owned())];
    for report in [Event::NodeAttachments(reported.clone()), Event::AttachmentsSoFar(reported)] {
        let mut world = World::with(Config::default());
        world.desire("a", vec![shared("disk")]);
        world.step(Event::ReportedInUse(vec![name.clone()]));
        world.done("verify_controller_attached_volume disk");
        assert_eq!(world.running[0].device_path, None);
        world.fails("volume_mount disk a", FailureClass::Transient);
        world.step(report);
        assert_eq!(world.tick(), ["volume_mount disk a"]);
        assert_eq!(world.running[0].device_path.as_deref(), Some("/dev/y"));
    }
}

#[test]
fn a_volume_that_needs_no_attachment_is_not_verified() {
    let mut world = World::with(Config::default());
    assert_eq!(world.desire("a", vec![plain("a", "data"), staged("disk")]).len(), 2);
    assert!(world.core.volumes_in_use().is_empty());
}

#[test]
fn the_controller_settles_the_attachments_that_recovery_could_not_know() {
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

#[test]
fn a_node_that_is_full_is_named_as_the_cause_to_those_who_wait() {
    let mut world = World::new();
    world.desire("a", vec![shared("disk")]);
    let failure = volhost_model::Failure::new(FailureClass::Final, "AttachVolume.Attach", "no room for a 17th volume");
    world.end("volume_attach disk", OperationReport::failed(failure));
    let deadline = world.now;
    world.step(Event::WaitMounted { waiter: 1, uid: uid("a"), deadline });
    let failure = world.answers[0].1.clone().unwrap_err();
    assert_eq!(failure.volumes[0].step, "AttachVolume.Attach");
    assert_eq!(failure.volumes[0].failure.as_ref().unwrap().message, "no room for a 17th volume");
    assert_eq!(world.tick(), ["volume_attach disk"]);
}

#[test]
fn a_report_that_leaves_out_a_mounted_volume_takes_nothing_away() {
    let mut world = World::with(Config::default());
    let name = shared("disk").unique_name;
    world.desire("a", vec![shared("disk")]);
    world.step(Event::ReportedInUse(vec![name.clone()]));
    world.step(Event::NodeAttachments(vec![(name.clone(), "/dev/y".into())]));
    world.settle();
    assert!(world.step(Event::NodeAttachments(vec![])).is_empty());
    assert_eq!(world.state("a", "disk"), VolumeState::Mounted);
    assert!(world.core.volume_is_attached(&name));
}

#[test]
fn an_attachment_that_comes_and_goes_before_it_is_verified_delays_the_mount() {
    let mut world = World::with(Config::default());
    let name = shared("disk").unique_name;
    world.desire("a", vec![shared("disk")]);
    world.step(Event::ReportedInUse(vec![name.clone()]));
    world.step(Event::NodeAttachments(vec![(name.clone(), "/dev/y".into())]));
    world.step(Event::NodeAttachments(vec![]));
    assert!(world.fails("verify_controller_attached_volume disk", FailureClass::Final).is_empty());
    assert_eq!(world.state("a", "disk"), VolumeState::Attaching);
    world.now += 1_000 * MS;
    assert!(world.step(Event::Timer).is_empty(), "nothing is tried until it is reported again");
    let again = Event::NodeAttachments(vec![(name, "/dev/y".into())]);
    assert_eq!(world.step(again), ["verify_controller_attached_volume disk"]);
}

#[test]
fn a_report_of_volumes_in_use_replaces_the_one_before() {
    let mut world = World::with(Config::default());
    let (one, two) = (shared("one").unique_name, shared("two").unique_name);
    world.desire("a", vec![shared("one"), shared("two")]);
    world.step(Event::NodeAttachments(vec![(one.clone(), "/dev/1".into()), (two.clone(), "/dev/2".into())]));
    assert_eq!(world.step(Event::ReportedInUse(vec![one])), ["verify_controller_attached_volume one"]);
    world.fails("verify_controller_attached_volume one", FailureClass::Final);
    world.step(Event::ReportedInUse(vec![two]));
    world.done("verify_controller_attached_volume two");
    world.now += 1_000 * MS;
    assert!(world.step(Event::Timer).is_empty(), "one is not reported any more");
}

#[test]
fn a_volume_that_need_not_be_attached_any_more_is_mounted_and_its_attachment_given_up_at_the_end() {
    let mut world = World::new();
    world.desire("a", vec![shared("disk")]);
    world.fails("volume_attach disk", FailureClass::Uncertain);
    assert_eq!(world.desire("a", vec![staged("disk")]), ["volume_mount disk a"]);
    world.settle();
    world.gone("a");
    world.done("volume_unmount disk a");
    assert_eq!(world.done("unmount_device disk"), ["volume_detach disk"]);
}

#[test]
fn a_second_pod_of_an_attached_volume_needs_no_second_attachment() {
    let mut world = World::new();
    world.desire("a", vec![shared("disk")]);
    world.settle();
    assert_eq!(world.desire("b", vec![shared("disk")]), ["volume_mount disk b"]);
    world.settle();
    world.gone("a");
    assert!(world.done("volume_unmount disk a").is_empty(), "the other pod keeps the device and the attachment");
}

fn limited(name: &str, limit: u32) -> DesiredVolume {
    DesiredVolume { attach_limit: Some(limit), ..shared(name) }
}

#[test]
fn no_more_volumes_are_attached_than_may_be_and_the_next_waits_for_a_place() {
    let mut world = World::new();
    assert_eq!(world.desire("a", vec![limited("one", 2), limited("two", 2)]).len(), 2);
    assert!(world.desire("b", vec![limited("three", 2)]).is_empty(), "two are being attached");
    assert_eq!(world.reasons(), ["FailedAttachVolume"], "said once");
    let said = world.notices[0].message.clone();
    assert!(said.contains("may have 2 volumes attached to this node and has 2"), "{said}");
    assert!(said.contains("one") && said.contains("two"), "{said}");
    world.settle();
    assert_eq!(world.state("b", "three"), VolumeState::Attaching);
    world.gone("a");
    world.settle();
    assert_eq!(world.state("b", "three"), VolumeState::Mounted);
    assert_eq!(world.core.volumes_in_use().len(), 1);
}

#[test]
fn a_limit_of_volumes_named_alike_leaves_the_others_of_the_plugin_alone() {
    let of = |name: &str, limit| {
        let names = name.split('-').next().unwrap().to_owned() + "-";
        DesiredVolume { attach_limit_of: Some(NamedLimit { names, limit }), ..shared(name) }
    };
    let mut world = World::new();
    assert_eq!(world.desire("a", vec![of("fast-1", 1), of("slow-1", 2)]).len(), 2);
    assert_eq!(world.desire("b", vec![of("fast-2", 1), of("slow-2", 2)]), ["volume_attach slow-2"]);
    let said = world.notices[0].message.clone();
    assert!(said.contains("whose names begin with \"fast-\" attached to this node and has 1"), "{said}");
    assert!(said.contains("fast-1") && !said.contains("slow"), "{said}");
    world.settle();
    assert_eq!(world.state("b", "fast-2"), VolumeState::Attaching);
    // The driver has found room for another.
    assert_eq!(world.desire("b", vec![of("fast-2", 2), of("slow-2", 2)]), ["volume_attach fast-2"]);
    world.settle();
    // The plugin's own limit applies, too.
    let both = DesiredVolume { attach_limit: Some(4), ..of("other-1", 9) };
    assert!(world.desire("c", vec![both]).is_empty(), "four are attached");
}

#[test]
fn an_attachment_that_may_be_there_takes_a_place_and_one_that_failed_does_not() {
    let mut world = World::new();
    world.desire("a", vec![limited("one", 1)]);
    world.fails("volume_attach one", FailureClass::Uncertain);
    assert!(world.desire("b", vec![limited("two", 1)]).is_empty());
    assert_eq!(world.tick(), ["volume_attach one"], "it is not in its own way");
    assert_eq!(world.fails("volume_attach one", FailureClass::Final), ["volume_attach two"]);
}

#[test]
fn without_a_limit_for_its_plugin_a_volume_is_attached_beside_any_number() {
    let mut world = World::new();
    let many: Vec<DesiredVolume> = (0..20).map(|number| shared(&format!("disk{number}"))).collect();
    assert_eq!(world.desire("a", many).len(), 20);
}

#[test]
fn an_attachment_that_vanished_is_reported_and_made_again_before_the_next_mount() {
    let mut world = World::new();
    world.step(Event::SourcesSynced);
    let name = shared("disk").unique_name;
    world.desire("a", vec![shared("disk")]);
    world.settle();
    assert_eq!(world.core.attached_volumes().values().next().unwrap().as_slice(), std::slice::from_ref(&name));
    world.notices.clear();
    assert!(world.step(Event::NotAttached(vec![name.clone()])).is_empty(), "what is mounted stays");
    assert_eq!(world.reasons(), ["VolumeNotAttached"]);
    assert_eq!(world.state("a", "disk"), VolumeState::Mounted);
    assert!(world.step(Event::NotAttached(vec![name.clone()])).is_empty() && world.notices.len() == 1, "said once");
    assert_eq!(world.desire("b", vec![shared("disk")]), ["volume_attach disk"]);
    world.settle();
    assert_eq!(world.state("b", "disk"), VolumeState::Mounted);
    world.step(Event::NotAttached(vec![name]));
    world.gone("a");
    world.gone("b");
    world.settle();
    assert!(world.core.unused_volumes().is_empty(), "it is undone, not forgotten");
}

#[test]
fn an_attachment_that_was_not_found_and_cannot_be_made_again_is_not_forgotten() {
    let mut world = World::new();
    world.step(Event::SourcesSynced);
    world.desire("a", vec![shared("disk")]);
    world.settle();
    world.step(Event::NotAttached(vec![shared("disk").unique_name]));
    world.desire("b", vec![shared("disk")]);
    world.fails("volume_attach disk", FailureClass::Final);
    world.gone("b");
    assert_eq!(world.gone("a"), ["volume_unmount disk a"]);
    world.done("volume_unmount disk a");
    assert_eq!(world.done("unmount_device disk"), ["volume_detach disk"], "the look may have been wrong");
}

#[test]
fn a_look_that_an_operation_has_overtaken_says_nothing() {
    let mut world = World::new();
    let name = shared("disk").unique_name;
    world.desire("a", vec![shared("disk")]);
    world.done("volume_attach disk");
    world.step(Event::NotAttached(vec![name.clone()]));
    assert!(world.core.volume_is_attached(&name), "its mount is running");
}

#[test]
fn a_volume_that_the_controller_could_not_attach_shows_its_error_and_is_mounted_once_attached() {
    let mut world = World::with(Config::default());
    let name = shared("disk").unique_name;
    world.step(Event::AttachFailures(vec![(name.clone(), "no such disk".into())]));
    world.step(Event::ReportedInUse(vec![name.clone()]));
    world.step(Event::NodeAttachments(vec![]));
    assert!(world.desire("a", vec![shared("disk")]).is_empty());
    assert_eq!(world.reasons(), ["FailedAttachVolume"]);
    assert!(world.notices[0].message.contains("no such disk"), "{}", world.notices[0].message);
    world.step(Event::AttachFailures(vec![(name.clone(), "no such disk".into())]));
    assert_eq!(world.notices.len(), 1, "said once");
    world.step(Event::AttachFailures(vec![(name.clone(), "still none".into())]));
    assert_eq!(world.notices.len(), 2, "another cause is said");
    world.step(Event::AttachFailures(vec![]));
    assert_eq!(
        world.step(Event::NodeAttachments(vec![(name, "/dev/y".into())])),
        ["verify_controller_attached_volume disk"]
    );
    world.settle();
    assert_eq!(world.state("a", "disk"), VolumeState::Mounted);
}

#[test]
fn of_two_plugins_one_may_have_a_controller_and_the_other_not() {
    let theirs = DesiredVolume { plugin: PluginName::new("test.example/theirs").unwrap(), ..shared("theirs") };
    let mut world = World::new();
    world.core = Core::new(Config::default().with_host_attaches(true)).with_controllers_for([theirs.plugin.clone()]);
    let name = theirs.unique_name.clone();
    world.step(Event::NodeAttachments(vec![]));
    assert_eq!(world.desire("a", vec![shared("ours"), theirs]), ["volume_attach ours"]);
    world.settle();
    world.step(Event::ReportedInUse(vec![name.clone()]));
    let report = Event::NodeAttachments(vec![(name, "/dev/y".into())]);
    assert_eq!(world.step(report), ["verify_controller_attached_volume theirs"]);
    world.settle();
    assert_eq!(world.view("a", "ours").attached_by, "host");
    assert_eq!(world.view("a", "theirs").attached_by, "controller");
    world.step(Event::NodeAttachments(vec![]));
    assert!(
        world.core.volume_is_attached(&shared("ours").unique_name),
        "a report says nothing of what the host attached"
    );
    world.gone("a");
    let mut detached = vec![];
    while let Some(operation) = world.running.first().map(shown) {
        detached.extend(world.done(&operation).into_iter().filter(|started| started.contains("detach")));
    }
    assert_eq!(detached, ["volume_detach ours"], "the controller detaches what it attached");
}

/// The attachment fails because another node has the volume.
fn attached_to(world: &mut World, node: Option<&str>, class: FailureClass) {
    let failure = volhost_model::Failure::new(class, "AttachVolume.Attach", "another node has it");
    let other_node = node.map(str::to_owned);
    world.end("volume_attach disk", OperationReport { other_node, ..OperationReport::failed(failure) });
}

#[test]
fn the_node_that_has_a_volume_is_known_until_an_attempt_has_found_out_more() {
    let mut world = World::new();
    world.desire("a", vec![shared("disk")]);
    attached_to(&mut world, Some("node-b"), FailureClass::Final);
    assert_eq!(world.view("a", "disk").attached_elsewhere, "node-b");
    assert!(!world.core.volume_is_attached(&shared("disk").unique_name));
    // An attempt that never began, or whose end is unknown, says nothing of the other node.
    for class in [FailureClass::Transient, FailureClass::Uncertain] {
        world.tick();
        attached_to(&mut world, None, class);
        assert_eq!(world.view("a", "disk").attached_elsewhere, "node-b", "{class:?}");
    }
    world.tick();
    attached_to(&mut world, Some("node-c"), FailureClass::Final);
    assert_eq!(world.view("a", "disk").attached_elsewhere, "node-c");
    world.tick();
    attached_to(&mut world, None, FailureClass::Final);
    assert_eq!(world.view("a", "disk").attached_elsewhere, "", "it failed for another reason");
    world.tick();
    attached_to(&mut world, Some("node-b"), FailureClass::Final);
    world.tick();
    world.settle();
    assert_eq!(world.view("a", "disk").attached_elsewhere, "");
    assert_eq!(world.state("a", "disk"), VolumeState::Mounted);
}

#[test]
fn a_volume_of_another_node_is_not_detached_by_this_node() {
    let mut world = World::new();
    world.desire("a", vec![shared("disk")]);
    attached_to(&mut world, Some("node-b"), FailureClass::Final);
    assert!(world.gone("a").is_empty());
    assert!(world.core.unused_volumes().is_empty());
}

#[test]
fn a_partial_report_of_the_controller_says_nothing_of_other_volumes() {
    let mut world = World::with(Config::default());
    world.recovered("a", &shared("disk"), true);
    world.recovered("b", &shared("other"), true);
    let (disk, other) = (shared("disk").unique_name, shared("other").unique_name);
    let attached = |name: &volhost_model::UniqueVolumeName| (name.clone(), "/dev/y".to_owned());
    world.step(Event::AttachmentsSoFar(vec![attached(&disk)]));
    assert!(world.core.volume_is_attached(&disk) && !world.core.states_synced(), "of the other nothing is known");
    world.desire("b", vec![shared("other")]);
    world.step(Event::NodeAttachments(vec![attached(&disk), attached(&other)]));
    assert!(world.core.states_synced() && world.core.volume_is_attached(&other), "nothing was concluded before");
}
