//! Which operations on one volume run side by side: the kubelet's matrix of its operation executor,
//! as far as one node has it. Volumes without attachment and device have a name for each pod, so
//! their mounts never meet.

use volhost_core::{Config, DesiredVolume, Event};
use volhost_model::FailureClass;

use crate::kit::*;

/// Every shape of a volume that pods share.
fn shapes() -> [DesiredVolume; 4] {
    let attached = DesiredVolume { stageable: false, ..shared("disk") };
    [shared("disk"), staged("disk"), attached, raw("disk")]
}

/// `volume_mount disk a` in the words for the volume's mode.
fn mount(volume: &DesiredVolume, pod: &str) -> String {
    format!("{} disk {pod}", if volume.spec.is_block() { "map_volume" } else { "volume_mount" })
}

fn unmount(volume: &DesiredVolume, pod: &str) -> String {
    format!("{} disk {pod}", if volume.spec.is_block() { "unmap_volume" } else { "volume_unmount" })
}

fn release(volume: &DesiredVolume) -> &'static str {
    match (volume.spec.is_block(), volume.stageable) {
        (true, _) => "unmap_device disk",
        (false, true) => "unmount_device disk",
        (false, false) => "volume_detach disk",
    }
}

/// The volume is ready for pods to mount it, and mounted by these.
fn used_by(volume: &DesiredVolume, pods: &[&str]) -> World {
    let mut world = World::new();
    for pod in pods {
        world.desire(pod, vec![volume.clone()]);
        world.settle();
    }
    world
}

#[test]
fn mounts_of_one_volume_for_two_pods_never_run_together() {
    for volume in shapes() {
        let mut world = used_by(&volume, &["z"]);
        assert_eq!(world.desire("a", vec![volume.clone()]), [mount(&volume, "a")]);
        assert!(world.desire("b", vec![volume.clone()]).is_empty());
        assert_eq!(world.done(&mount(&volume, "a")), [mount(&volume, "b")]);
    }
}

#[test]
fn unmounts_of_one_volume_for_two_pods_run_together() {
    for volume in shapes() {
        let mut world = used_by(&volume, &["a", "b"]);
        assert_eq!(world.gone("a"), [unmount(&volume, "a")]);
        assert_eq!(world.gone("b"), [unmount(&volume, "b")]);
    }
}

#[test]
fn a_mount_and_an_unmount_of_one_volume_never_run_together() {
    for volume in shapes() {
        let mut world = used_by(&volume, &["a"]);
        world.desire("b", vec![volume.clone()]);
        assert!(world.gone("a").is_empty());
        assert_eq!(world.done(&mount(&volume, "b")), [unmount(&volume, "a")]);
        assert!(world.desire("c", vec![volume.clone()]).is_empty());
        assert_eq!(world.done(&unmount(&volume, "a")), [mount(&volume, "c")]);
    }
}

#[test]
fn taking_a_volume_from_the_node_runs_alone() {
    for volume in shapes() {
        let mut world = used_by(&volume, &["a", "b"]);
        world.gone("a");
        world.gone("b");
        assert!(world.done(&unmount(&volume, "b")).is_empty(), "the other unmount still runs");
        assert_eq!(world.done(&unmount(&volume, "a")), [release(&volume)]);
        assert!(world.desire("c", vec![volume.clone()]).is_empty());
        assert!(!world.done(release(&volume)).is_empty());
    }
}

#[test]
fn an_attachment_is_made_and_given_up_one_after_the_other() {
    let mut world = World::new();
    assert_eq!(world.desire("a", vec![shared("disk")]), ["volume_attach disk"]);
    assert!(world.desire("b", vec![shared("disk")]).is_empty(), "one attachment is for all pods");
    world.gone("a");
    assert!(world.gone("b").is_empty(), "the attachment is being made");
    assert_eq!(world.done("volume_attach disk"), ["volume_detach disk"]);
    assert!(world.desire("a", vec![shared("disk")]).is_empty(), "it is being given up");
    assert_eq!(world.done("volume_detach disk"), ["volume_attach disk"]);
}

#[test]
fn one_verification_of_an_attachment_is_for_all_pods() {
    let mut world = World::with(Config::default());
    let name = shared("disk").unique_name;
    world.desire("a", vec![shared("disk")]);
    world.desire("b", vec![shared("disk")]);
    world.step(Event::NodeAttachments(vec![(name.clone(), "/dev/x".into())]));
    assert_eq!(world.step(Event::ReportedInUse(vec![name])), ["verify_controller_attached_volume disk"]);
    assert_eq!(world.done("verify_controller_attached_volume disk"), ["volume_mount disk b"], "a was served last");
}

#[test]
fn an_expansion_runs_alone_on_its_volume() {
    let mut world = used_by(&shared("disk"), &["a", "b"]);
    assert_eq!(world.desire("a", vec![sized(&shared("disk"), 20)]), ["volume_fs_resize disk a"]);
    assert!(world.gone("b").is_empty());
    assert!(world.desire("c", vec![shared("disk")]).is_empty());
    assert_eq!(world.done("volume_fs_resize disk a"), ["volume_unmount disk b"]);
}

#[test]
fn two_volumes_never_wait_for_each_other() {
    let mut world = World::new();
    assert_eq!(world.desire("a", vec![staged("one"), staged("two")]).len(), 2);
    world.fails("volume_mount one a", FailureClass::Final);
    world.done("volume_mount two a");
    assert_eq!(world.gone("a"), ["volume_unmount two a"]);
}

#[test]
fn a_running_operation_of_a_key_counts_before_a_failed_one() {
    let mut world = used_by(&staged("disk"), &["a"]);
    world.desire("b", vec![staged("disk")]);
    world.fails("volume_mount disk b", FailureClass::Final);
    // The failure of b delays no other pod; the operation of c delays b, even when its wait is
    // over.
    assert_eq!(world.desire("c", vec![staged("disk")]), ["volume_mount disk c"]);
    assert!(world.tick().is_empty());
    assert_eq!(world.done("volume_mount disk c"), ["volume_mount disk b"]);
    world.fails("volume_mount disk b", FailureClass::Final);
    assert_eq!(world.view("b", "disk").failures, 2, "the first failure is not forgotten");
}

#[test]
fn a_failure_of_an_unwanted_volume_is_forgotten() {
    let mut world = used_by(&staged("disk"), &["a"]);
    world.desire("b", vec![staged("disk")]);
    world.fails("volume_mount disk b", FailureClass::Final);
    world.gone("b");
    assert!(world.core.operations().is_empty());
    assert_eq!(
        world.desire("b", vec![staged("disk")]),
        ["volume_mount disk b"],
        "a new pod does not wait for an old one"
    );
}
