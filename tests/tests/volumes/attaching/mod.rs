//! Who attaches a volume, and how many: limits, volumes that another node has, and a controller
//! that attaches in the host's place.

mod other_nodes;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use volhost_tests::manifests::{loop_volume, pod};
use volhost_tests::{Node, artifacts};

const GRANT: &str = "[grants.\"volhost.io/loop\"]\ninterfaces = [\"id-maps\"]\nloop-files = [\"$NODE/disk\"]\n";

/// The loop devices over files of a folder; they go with the test.
struct LoopDevices(PathBuf);

impl LoopDevices {
    fn all(&self) -> Vec<String> {
        let list = Command::new("losetup").args(["-l", "-n", "-O", "NAME,BACK-FILE"]).output().expect("losetup runs");
        let text = String::from_utf8(list.stdout).unwrap();
        let of_ours = text.lines().filter_map(|line| line.split_once(' '));
        let of_ours = of_ours.filter(|(_, file)| Path::new(file.trim()).starts_with(&self.0));
        of_ours.map(|(device, _)| device.to_owned()).collect()
    }
}

impl Drop for LoopDevices {
    fn drop(&mut self) {
        for device in self.all() {
            let _ = Command::new("losetup").args(["-d", &device]).status();
        }
    }
}

fn claimed(name: &str) -> String {
    format!("name: data, persistentVolumeClaim: {{ claimName: {name}-claim }}")
}

fn losetup(arguments: &[&str]) -> String {
    let done = Command::new("losetup").args(arguments).output().expect("losetup runs");
    assert!(done.status.success(), "losetup {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_volume_beyond_the_limit_waits_for_room_and_names_the_volumes_in_its_way() {
    let config = format!("{GRANT}[attach-limits]\n\"volhost.io/loop\" = 1\n");
    let node = Node::builder().plugin(artifacts::plugin("loop")).config(&config).start();
    let devices = LoopDevices(node.folder().to_owned());
    for name in ["one", "two"] {
        node.manifest(&format!("{name}.yaml"), &loop_volume(name, &format!("{name}.img"), "ext4", "32Mi", ""));
    }
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("one")]));
    node.wait_mounted("default/a");
    let described = node.ok(&["describe", "pod", "a"]);
    assert!(described.contains("the host, as /dev/loop"), "{described}");
    node.manifest("b.yaml", &pod("b", "uid-b", &[&claimed("two")]));
    node.wait_event(&["FailedAttachVolume", "default/b", "may have 1 volumes attached", "one.img"]);
    assert_eq!(devices.all().len(), 1);
    node.remove_manifest("a.yaml");
    node.wait_mounted("default/b");
    assert_eq!(devices.all().len(), 1);
    node.ok(&["drain"]);
}

#[test]
fn a_limit_for_what_is_no_plugin_stops_the_start_with_the_key() {
    let mut node = Node::builder().config("[attach-limits]\n\"no plugin\" = 1\n").build();
    assert!(!node.try_start());
    let log = node.log();
    assert!(log.contains("attach-limits") || log.contains("no plugin"), "{log}");
}

#[test]
fn a_controller_attaches_and_the_host_waits_for_its_word() {
    let node =
        Node::builder().plugin(artifacts::plugin("loop")).config(GRANT).arguments(&["--controller-attaches"]).start();
    let devices = LoopDevices(node.folder().to_owned());
    node.manifest("pv.yaml", &loop_volume("pv", "data.img", "ext4", "32Mi", ""));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_blocked("a", &["reports the volume as in use"]);
    let in_use = node.ok(&["attachments", "list"]);
    let name = in_use.split_whitespace().next().unwrap().to_owned();
    assert!(name.starts_with("volhost.io/loop/") && in_use.contains("not attached"), "{in_use}");

    // Seen, and not attached yet.
    node.ok(&["attachments", "set"]);
    node.wait_blocked("a", &["waits for the controller to attach"]);

    let image = node.folder().join("disk/data.img");
    fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
    let device = losetup(&["-f", "--show", &image.display().to_string()]);
    node.ok(&["attachments", "set", &format!("{name}={device}")]);
    node.wait_mounted("default/a");
    let described = node.ok(&["describe", "pod", "a"]);
    assert!(described.contains(&format!("the controller, as {device}")), "{described}");

    // A report that leaves out what is mounted takes nothing away.
    node.ok(&["attachments", "set"]);
    assert_eq!(node.pod_mounts().len(), 1);

    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    node.ok(&["drain"]);
    assert_eq!(node.ok(&["attachments", "list"]), "");
    assert_eq!(devices.all(), [device], "who attached it detaches it");
}

#[test]
fn a_wrong_report_is_found_out_by_the_plugin() {
    let node =
        Node::builder().plugin(artifacts::plugin("loop")).config(GRANT).arguments(&["--controller-attaches"]).start();
    let _devices = LoopDevices(node.folder().to_owned());
    let image = node.folder().join("disk/data.img");
    fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
    node.manifest("pv.yaml", &loop_volume("pv", "data.img", "ext4", "32Mi", ""));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_blocked("a", &["reports the volume as in use"]);
    let name = node.ok(&["attachments", "list"]).split_whitespace().next().unwrap().to_owned();
    node.ok(&["attachments", "set", &format!("{name}=/dev/loop9999")]);
    node.wait_event(&["default/a", "VerifyControllerAttachedVolume", "the plugin does not find it here"]);
    let device = losetup(&["-f", "--show", &image.display().to_string()]);
    node.ok(&["attachments", "set", &format!("{name}={device}")]);
    node.wait_mounted("default/a");
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    node.ok(&["drain"]);
}

#[test]
fn where_the_host_attaches_no_controllers_word_is_taken() {
    let node = Node::start_default();
    let said = node.fails(&["attachments", "set", "volhost.io/loop/x=/dev/loop0"]);
    assert!(said.contains("attaches its volumes itself") && said.contains("--controller-attaches"), "{said}");
}

#[test]
fn a_volume_that_another_node_has_alone_is_a_multi_attach_error() {
    let node = Node::builder()
        .plugin(artifacts::fixture("fixture-lying-devices"))
        .config("[grants.\"fixture.volhost/lying-devices\"]\nloop-files = [\"$NODE/disk\"]\n")
        .start();
    let volume = |name: &str, mode: &str| {
        loop_volume(name, "x", "ext4", "32Mi", "").replace("ReadWriteOnce", mode).replace(
            "csi: { driver: loop.volhost.io, volumeHandle: x, fsType: ext4 }",
            &format!("lyingDevices: {{ name: {name}, at: attach, how: conflict }}"),
        )
    };
    node.manifest("one.yaml", &volume("one", "ReadWriteOnce"));
    node.manifest("many.yaml", &volume("many", "ReadWriteMany"));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("one")]));
    node.wait_event(&[
        "FailedAttachVolume",
        "default/a",
        "Multi-Attach error for volume \"one\": Volume is already exclusively attached to one node and can't be attached to another",
        "node-b has it",
    ]);
    node.manifest("b.yaml", &pod("b", "uid-b", &[&claimed("many")]));
    node.wait_event(&["FailedAttachVolume", "default/b", "node-b has it"]);
    let events = node.ok(&["events"]);
    let of_many = events.lines().filter(|line| line.contains("default/b"));
    assert!(of_many.filter(|line| line.contains("Multi-Attach")).count() == 0, "{events}");
}

#[test]
fn an_attachment_that_vanishes_is_noticed_and_made_again() {
    let node = Node::builder()
        .plugin(artifacts::fixture("fixture-lying-devices"))
        .config("[grants.\"fixture.volhost/lying-devices\"]\nloop-files = [\"$NODE/disk\"]\n")
        .arguments(&["--verify-attached", "100ms"])
        .start();
    let devices = LoopDevices(node.folder().to_owned());
    // It is attached, and never mounted.
    let volume = loop_volume("pv", "x", "ext4", "32Mi", "").replace(
        "csi: { driver: loop.volhost.io, volumeHandle: x, fsType: ext4 }",
        "lyingDevices: { name: image, at: stage, how: retryable }",
    );
    node.manifest("pv.yaml", &volume);
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_event(&["FailedMount", "default/a", "MountDevice"]);
    let device = devices.all().remove(0);
    losetup(&["-d", &device]);
    node.wait_event(&["VolumeNotAttached", "default/a", "does not find it attached to this node any more"]);
    node.ok(&["drain"]);
    assert!(devices.all().is_empty());
}

/// A VolumeAttachment of this node for a PersistentVolume, with a status.
fn volume_attachment(volume: &str, attacher: &str, status: &str) -> String {
    format!(
        "apiVersion: storage.k8s.io/v1\nkind: VolumeAttachment\nmetadata: {{ name: va-{volume} }}\nspec: {{ attacher: {attacher}, nodeName: test-node, source: {{ persistentVolumeName: {volume} }} }}\nstatus: {{ {status} }}\n"
    )
}

#[test]
fn volume_attachments_are_a_controllers_word_and_what_they_say_reaches_the_plugin() {
    let mut node = Node::builder()
        .plugin(artifacts::fixture("fixture-lying-devices"))
        .config("[grants.\"fixture.volhost/lying-devices\"]\nloop-files = [\"$NODE/disk\"]\n")
        .arguments(&["--controller-attaches"])
        .start();
    let devices = LoopDevices(node.folder().to_owned());
    let volume = loop_volume("pv", "x", "ext4", "32Mi", "").replace(
        "csi: { driver: loop.volhost.io, volumeHandle: x, fsType: ext4 }",
        "lyingDevices: { name: image, at: stage, how: report }",
    );
    let word = |status: &str| volume_attachment("pv", "fixture.volhost/lying-devices", status);
    node.manifest("pv.yaml", &volume);
    node.manifest("va.yaml", &word("attached: false, attachError: { message: the array is full, errorCode: 8 }"));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_event(&["FailedAttachVolume", "default/a", "the array is full", "ResourceExhausted"]);

    let image = node.folder().join("disk/image");
    fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let device = losetup(&["-f", "--show", &image.display().to_string()]);
    node.manifest("va.yaml", &word("attached: true, attachmentMetadata: { lun: '4', array: a1 }"));
    node.wait_mounted("default/a");
    node.wait_event(&["AttachmentReported", "default/a", "va-pv: array=a1, lun=4"]);
    let described = node.ok(&["describe", "pod", "a"]);
    assert!(described.contains("the controller, as va-pv"), "{described}");

    // After a restart the answer is repeated; a limit that is gone unmounts nothing.
    assert!(node.terminate().success());
    node.start();
    node.wait_mounted("default/a");
    node.remove_manifest("va.yaml");
    node.manifest("b.yaml", &pod("b", "uid-b", &["name: data, emptyDir: {}"]));
    node.wait_mounted("default/b");
    assert_eq!(node.pod_mounts().iter().filter(|mount| mount.fs_type == "ext4").count(), 1);

    node.manifest("va.yaml", &word("attached: true, detachError: { message: the array hangs }"));
    node.wait_event(&["FailedDetachVolume", "the array hangs"]);
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    node.ok(&["drain"]);
    assert_eq!(devices.all(), [device], "who attached it detaches it");
}

#[test]
fn one_plugin_may_have_a_controller_while_the_host_attaches_the_others_volumes() {
    let config = format!(
        "controller-attaches-for = [\"fixture.volhost/lying-devices\"]\n{GRANT}[grants.\"fixture.volhost/lying-devices\"]\nloop-files = [\"$NODE/disk\"]\n"
    );
    let node = Node::builder()
        .plugin(artifacts::plugin("loop"))
        .plugin(artifacts::fixture("fixture-lying-devices"))
        .config(&config)
        .start();
    let _devices = LoopDevices(node.folder().to_owned());
    node.manifest("ours.yaml", &loop_volume("ours", "ours.img", "ext4", "32Mi", ""));
    let theirs = loop_volume("theirs", "x", "ext4", "32Mi", "")
        .replace("csi: { driver: loop.volhost.io, volumeHandle: x, fsType: ext4 }", "lyingDevices: { name: image }");
    node.manifest("theirs.yaml", &theirs);
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("ours")]));
    node.wait_mounted("default/a");
    node.manifest("b.yaml", &pod("b", "uid-b", &[&claimed("theirs")]));
    node.wait_blocked("b", &["reports the volume as in use"]);
    let image = node.folder().join("disk/image");
    fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    losetup(&["-f", "--show", &image.display().to_string()]);
    node.manifest("va.yaml", &volume_attachment("theirs", "fixture.volhost/lying-devices", "attached: true"));
    node.wait_mounted("default/b");
    node.manifest("va2.yaml", &volume_attachment("ours", "loop.volhost.io", "attached: true"));
    node.wait_event(&["VolumeAttachmentIgnored", "va-ours", "attaches volumes of volhost.io/loop itself"]);
    node.remove_manifest("a.yaml");
    node.remove_manifest("b.yaml");
    node.wait_unmounted("default/a");
    node.wait_unmounted("default/b");
    node.ok(&["drain"]);
}

#[test]
fn a_plugins_own_limit_is_enforced_and_so_is_its_answer_that_there_is_no_room() {
    let node = Node::builder()
        .plugin(artifacts::fixture("fixture-lying-devices"))
        .config("[grants.\"fixture.volhost/lying-devices\"]\nloop-files = [\"$NODE/disk\"]\n[attach-limits]\n\"fixture.volhost/lying-devices\" = 5\n")
        .start();
    let devices = LoopDevices(node.folder().to_owned());
    let volume = |name: &str, fields: &str| {
        loop_volume(name, "x", "ext4", "32Mi", "").replace(
            "csi: { driver: loop.volhost.io, volumeHandle: x, fsType: ext4 }",
            &format!("lyingDevices: {{ name: {name}, image: {name}, {fields} }}"),
        )
    };
    for name in ["one", "two"] {
        node.manifest(&format!("{name}.yaml"), &volume(name, "limit: 1"));
    }
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("one")]));
    node.wait_mounted("default/a");
    node.manifest("b.yaml", &pod("b", "uid-b", &[&claimed("two")]));
    node.wait_event(&["FailedAttachVolume", "default/b", "may have 1 volumes attached"]);
    assert_eq!(devices.all().len(), 1);
    node.remove_manifest("a.yaml");
    node.wait_mounted("default/b");
    node.manifest("full.yaml", &volume("full", "at: attach, how: no-place"));
    node.manifest("c.yaml", &pod("c", "uid-c", &[&claimed("full")]));
    node.wait_event(&["FailedAttachVolume", "default/c", "attach limit exceeded", "the array has eight ports"]);
    node.remove_manifest("b.yaml");
    node.remove_manifest("c.yaml");
    node.ok(&["drain"]);
    assert!(devices.all().is_empty());
}
