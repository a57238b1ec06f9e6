//! Volumes that are attached, mounted once for the node, handed over as devices and grown: the
//! plugin `loop`, from the manifest to the file system and back. Nothing may be left: no mount, no
//! loop device, no folder, no record.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use volhost_tests::loop_devices::LoopDevices;
use volhost_tests::manifests::{device_pod, loop_volume, pod};
use volhost_tests::wait::eventually;
use volhost_tests::{Node, artifacts};

const LOOP: &str = "volhost.io~loop";
const MIB: u64 = 1 << 20;

/// A node that may keep images in its folder `disk`. Its loop devices go with it, whatever the test
/// came to.
struct LoopNode {
    node: Node,
    devices: LoopDevices,
}

impl LoopNode {
    fn start() -> Self {
        let node = Node::builder()
            .plugin(artifacts::plugin("loop"))
            .config("[grants.\"volhost.io/loop\"]\ninterfaces = [\"id-maps\"]\nloop-files = [\"$NODE/disk\"]\n")
            .start();
        let devices = LoopDevices::below(node.folder());
        Self { node, devices }
    }

    fn image(&self, name: &str) -> PathBuf {
        self.node.folder().join("disk").join(name)
    }

    fn volume(&self, uid: &str, name: &str) -> PathBuf {
        self.node.volume(uid, LOOP, name)
    }

    /// The link to a pod's device, as seen from the test.
    fn link(&self, uid: &str, name: &str) -> PathBuf {
        self.node.path(&self.node.root().join("pods").join(uid).join("volumeDevices").join(LOOP).join(name))
    }

    /// The mounts below the root folder, without the root's own and the records'.
    fn mounts(&self) -> Vec<PathBuf> {
        let (pods, plugins) = (self.node.root().join("pods"), self.node.root().join("plugins"));
        let all = self.node.all_mounts().into_iter().map(|mount| mount.point);
        all.filter(|point| point.starts_with(&pods) || point.starts_with(&plugins)).collect()
    }

    /// Waits until the volume is detached, then checks that nothing of it is left. The folder of a
    /// pod is removed a moment after its last volume.
    fn assert_nothing_is_left(&self) {
        self.node.wait_event(&["SuccessfulDetachVolume"]);
        assert_eq!(self.mounts(), Vec::<PathBuf>::new());
        assert_eq!(self.devices.all(), Vec::<String>::new());
        let root = self.node.path(&self.node.root());
        for folder in ["pods", "plugins", "state/devices", "state/pods"] {
            let left = || left_in(&root.join(folder));
            assert!(eventually(|| left().is_empty()), "{folder}: {:?}", left());
        }
    }
}

/// Every file below a folder, and every folder two levels below it: what is made for one volume.
fn left_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn claimed(name: &str) -> String {
    format!("name: data, persistentVolumeClaim: {{ claimName: {name}-claim }}")
}

#[test]
fn an_image_is_made_formatted_mounted_and_left_in_order() {
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let host = LoopNode::start();
        let node = &host.node;
        node.manifest("pv.yaml", &loop_volume("pv", "data.img", fs_type, "512Mi", ""));
        node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
        node.wait_mounted("default/a");
        let mounts = node.pod_mounts();
        assert_eq!(mounts.len(), 1, "{mounts:?}");
        assert_eq!(mounts[0].fs_type, fs_type);
        fs::write(host.volume("uid-a", "pv").join("file"), fs_type).unwrap();
        assert_eq!(fs::metadata(host.image("data.img")).unwrap().len(), 512 * MIB);

        node.remove_manifest("a.yaml");
        node.wait_unmounted("default/a");
        host.assert_nothing_is_left();

        node.manifest("b.yaml", &pod("b", "uid-b", &[&claimed("pv")]));
        node.wait_mounted("default/b");
        assert_eq!(fs::read_to_string(host.volume("uid-b", "pv").join("file")).unwrap(), fs_type, "the data stays");
        node.ok(&["drain"]);
        assert!(host.devices.all().is_empty() && host.mounts().is_empty());
    }
}

#[test]
fn mapped_groups_let_pods_share_an_image_of_which_no_file_is_changed() {
    let host = LoopNode::start();
    let node = &host.node;
    let volume = loop_volume("pv", "data.img", "ext4", "64Mi", "");
    node.manifest(
        "pv.yaml",
        &volume.replacen("{ name: pv }", "{ name: pv, annotations: { volhost.io/fs-group: map } }", 1),
    );
    let with_group = |name: &str, group: u32| {
        let context = format!("spec:\n  securityContext: {{ fsGroup: {group} }}\n");
        pod(name, &format!("uid-{name}"), &[&claimed("pv")]).replacen("spec:\n", &context, 1)
    };
    node.manifest("owner.yaml", &pod("owner", "uid-owner", &[&claimed("pv")]));
    node.wait_mounted("default/owner");
    let stored = host.volume("uid-owner", "pv");
    fs::write(stored.join("file"), "x").unwrap();
    for path in [stored.clone(), stored.join("file")] {
        std::os::unix::fs::chown(path, None, Some(700)).unwrap();
    }
    for (name, group) in [("a", 4321), ("b", 5678)] {
        node.manifest(&format!("{name}.yaml"), &with_group(name, group));
        node.wait_mounted(&format!("default/{name}"));
        let shown = host.volume(&format!("uid-{name}"), "pv");
        assert_eq!(
            (fs::metadata(&shown).unwrap().gid(), fs::metadata(shown.join("file")).unwrap().gid()),
            (group, group)
        );
    }
    assert_eq!(fs::metadata(stored.join("file")).unwrap().gid(), 700, "on disk it is as it was");
    node.ok(&["drain"]);
    assert!(host.devices.all().is_empty() && host.mounts().is_empty());
}

#[test]
fn two_pods_share_one_staging_mount_and_the_last_unstages_it() {
    let host = LoopNode::start();
    let node = &host.node;
    node.manifest("pv.yaml", &loop_volume("pv", "data.img", "ext4", "64Mi", ""));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.manifest(
        "b.yaml",
        &pod("b", "uid-b", &["name: data, persistentVolumeClaim: { claimName: pv-claim, readOnly: true }"]),
    );
    node.wait_mounted("default/a");
    node.wait_mounted("default/b");
    assert_eq!(host.mounts().len(), 3, "one for the node, one a pod: {:?}", host.mounts());
    fs::write(host.volume("uid-a", "pv").join("file"), "shared").unwrap();
    assert_eq!(fs::read_to_string(host.volume("uid-b", "pv").join("file")).unwrap(), "shared");
    assert!(fs::write(host.volume("uid-b", "pv").join("file"), "x").is_err(), "one pod has it read-only");

    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    assert_eq!(fs::read_to_string(host.volume("uid-b", "pv").join("file")).unwrap(), "shared");
    assert_eq!(host.mounts().len(), 2);
    node.remove_manifest("b.yaml");
    node.wait_unmounted("default/b");
    host.assert_nothing_is_left();
}

#[test]
fn the_files_are_given_to_the_pods_group() {
    let host = LoopNode::start();
    let node = &host.node;
    node.manifest("pv.yaml", &loop_volume("pv", "data.img", "ext4", "64Mi", ""));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_mounted("default/a");
    fs::create_dir(host.volume("uid-a", "pv").join("folder")).unwrap();
    fs::write(host.volume("uid-a", "pv").join("folder/file"), "x").unwrap();
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");

    let grouped =
        pod("b", "uid-b", &[&claimed("pv")]).replace("spec:\n", "spec:\n  securityContext: { fsGroup: 4321 }\n");
    node.manifest("b.yaml", &grouped);
    node.wait_mounted("default/b");
    let root = host.volume("uid-b", "pv");
    let seen = |path: &str| {
        let metadata = fs::metadata(root.join(path)).unwrap();
        (metadata.gid(), metadata.mode() & 0o7777)
    };
    assert_eq!(seen("folder/file"), (4321, 0o664));
    assert_eq!(seen("folder"), (4321, 0o2775));
    assert_eq!(seen("").0, 4321);
    node.ok(&["drain"]);
}

#[test]
fn a_block_volume_is_a_device_in_the_pods_folder() {
    let host = LoopNode::start();
    let node = &host.node;
    node.manifest("pv.yaml", &loop_volume("pv", "raw.img", "ext4", "16Mi", "  volumeMode: Block"));
    node.manifest("a.yaml", &device_pod("a", "uid-a", "pv-claim"));
    node.wait_mounted("default/a");
    let device = fs::read_link(host.link("uid-a", "pv")).unwrap();
    assert!(fs::metadata(&device).unwrap().file_type().is_block_device(), "{}", device.display());
    let usage = node.wait_usage("raw");
    assert_eq!(usage["capacity"], 16 * MIB, "{usage}");
    assert!(usage["used"].is_null() && usage["abnormal"].is_null(), "{usage}");
    fs::write(&device, b"by the pod").unwrap();
    assert_eq!(host.devices.all().len(), 2, "the device, and the pin that keeps it: {:?}", host.devices.all());

    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    host.assert_nothing_is_left();
    let image = fs::read(host.image("raw.img")).unwrap();
    assert_eq!(&image[..10], b"by the pod");
}

#[test]
fn a_raised_capacity_grows_the_volume_while_it_is_used() {
    let host = LoopNode::start();
    let node = &host.node;
    // XFS, because ext4 grows only with CAP_SYS_RESOURCE, which root does not have in every
    // container.
    node.manifest("pv.yaml", &loop_volume("pv", "data.img", "xfs", "512Mi", ""));
    node.manifest("raw.yaml", &loop_volume("raw", "raw.img", "ext4", "16Mi", "  volumeMode: Block"));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.manifest("b.yaml", &device_pod("b", "uid-b", "raw-claim"));
    node.wait_mounted("default/a");
    node.wait_mounted("default/b");
    fs::write(host.volume("uid-a", "pv").join("file"), "before").unwrap();
    let size = || {
        let fs = rustix::fs::statvfs(host.volume("uid-a", "pv")).unwrap();
        fs.f_blocks * fs.f_frsize
    };
    assert!(size() < 512 * MIB);

    node.manifest("pv.yaml", &loop_volume("pv", "data.img", "xfs", "1Gi", ""));
    node.wait_event(&["FileSystemResizeSuccessful", "default/a"]);
    assert!(size() > 700 * MIB, "{}", size());
    assert_eq!(fs::read_to_string(host.volume("uid-a", "pv").join("file")).unwrap(), "before");

    node.manifest("raw.yaml", &loop_volume("raw", "raw.img", "ext4", "48Mi", "  volumeMode: Block"));
    node.wait_event(&["FileSystemResizeSuccessful", "default/b"]);
    let device = fs::read_link(host.link("uid-b", "raw")).unwrap();
    let bytes = Command::new("blockdev").arg("--getsize64").arg(&device).output().unwrap();
    assert_eq!(String::from_utf8(bytes.stdout).unwrap().trim(), (48 * MIB).to_string());
    node.ok(&["drain"]);
    assert!(host.devices.all().is_empty());
}

#[test]
fn an_image_with_other_data_is_never_formatted_and_the_pod_gets_an_event() {
    let host = LoopNode::start();
    let node = &host.node;
    fs::File::create(host.image("data.img")).unwrap().set_len(64 * MIB).unwrap();
    assert!(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(host.image("data.img")).status().unwrap().success());
    node.manifest("pv.yaml", &loop_volume("pv", "data.img", "xfs", "64Mi", ""));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_event(&["FailedMount", "default/a", "MountVolume.MountDevice", "ext4", "xfs"]);
    node.manifest("pv.yaml", &loop_volume("pv", "data.img", "ext4", "64Mi", ""));
    node.wait_mounted("default/a");
}

#[test]
fn what_a_pod_wrote_to_a_device_is_never_formatted_for_another() {
    let host = LoopNode::start();
    let node = &host.node;
    node.manifest("raw.yaml", &loop_volume("raw", "data.img", "ext4", "64Mi", "  volumeMode: Block"));
    node.manifest("a.yaml", &device_pod("a", "uid-a", "raw-claim"));
    node.wait_mounted("default/a");
    let device = fs::read_link(host.link("uid-a", "raw")).unwrap();
    let raw = fs::OpenOptions::new().write(true).open(&device).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&raw, b"by the pod", 37 * MIB).unwrap();
    raw.sync_all().unwrap();
    drop(raw);
    let before = fs::read(host.image("data.img")).unwrap();
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    host.assert_nothing_is_left();

    // The same image, by another PersistentVolume, as a file system.
    node.manifest("pv.yaml", &loop_volume("pv", "data.img", "ext4", "64Mi", ""));
    node.manifest("b.yaml", &pod("b", "uid-b", &[&claimed("pv")]));
    node.wait_event(&["FailedMount", "default/b", "data that no tool recognises", "blkdiscard --force --zeroout"]);
    assert!(fs::read(host.image("data.img")).unwrap() == before, "not a byte has changed");
    node.remove_manifest("b.yaml");
    node.wait_unmounted("default/b");
}

#[test]
fn an_image_that_a_pod_has_as_a_device_is_no_file_system_for_another() {
    let host = LoopNode::start();
    let node = &host.node;
    node.manifest("raw.yaml", &loop_volume("raw", "data.img", "ext4", "64Mi", "  volumeMode: Block"));
    node.manifest("pv.yaml", &loop_volume("pv", "data.img", "ext4", "64Mi", ""));
    node.manifest("a.yaml", &device_pod("a", "uid-a", "raw-claim"));
    node.wait_mounted("default/a");
    node.manifest("b.yaml", &pod("b", "uid-b", &[&claimed("pv")]));
    node.wait_event(&["FailedMount", "default/b", "as a device or as a file system", "not as both"]);
    let blank = fs::read(host.image("data.img")).unwrap().iter().all(|byte| *byte == 0);
    assert!(blank, "nothing was written below the first pod");
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    node.wait_mounted("default/b");
    fs::write(host.volume("uid-b", "pv").join("file"), "x").unwrap();
    // And the other way round.
    node.manifest("a.yaml", &device_pod("a", "uid-a", "raw-claim"));
    node.wait_event(&["FailedMapVolume", "default/a", "as a device or as a file system"]);
    assert_eq!(fs::read_to_string(host.volume("uid-b", "pv").join("file")).unwrap(), "x");
    for name in ["a", "b"] {
        node.remove_manifest(&format!("{name}.yaml"));
        node.wait_unmounted(&format!("default/{name}"));
    }
}

#[test]
fn a_volume_in_the_wrong_mode_is_reported_with_the_way_out() {
    let host = LoopNode::start();
    let node = &host.node;
    node.manifest("fs.yaml", &loop_volume("fs", "fs.img", "ext4", "64Mi", ""));
    node.manifest("raw.yaml", &loop_volume("raw", "raw.img", "ext4", "64Mi", "  volumeMode: Block"));
    node.manifest("a.yaml", &device_pod("a", "uid-a", "fs-claim"));
    node.wait_event(&["UnresolvedVolume", "default/a", "volumeMode Filesystem", "list it in volumeMounts"]);
    node.manifest("b.yaml", &pod("b", "uid-b", &[&claimed("raw")]));
    node.wait_event(&["UnresolvedVolume", "default/b", "volumeMode Block", "list it in volumeDevices"]);
    assert!(host.devices.all().is_empty() && host.mounts().is_empty());
}

#[test]
fn a_device_in_use_is_reported_and_kept_until_it_is_free() {
    let host = LoopNode::start();
    let node = &host.node;
    node.manifest("pv.yaml", &loop_volume("pv", "data.img", "ext4", "64Mi", ""));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_mounted("default/a");
    let elsewhere = node.folder().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let device = host.devices.all().remove(0);
    assert!(node.inside("mount").arg(&device).arg(&elsewhere).status().unwrap().success());

    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    node.wait_event(&["FailedUnmountDevice", "is in use when it was no longer expected to be", &device]);
    assert_eq!(host.devices.all(), std::slice::from_ref(&device), "it is not detached below its user");
    assert!(node.inside("umount").arg(&elsewhere).status().unwrap().success());
    host.assert_nothing_is_left();
}

#[test]
fn a_device_mount_that_is_still_shown_elsewhere_stays() {
    let host = LoopNode::start();
    let node = &host.node;
    node.manifest("pv.yaml", &loop_volume("pv", "data.img", "ext4", "64Mi", ""));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_mounted("default/a");
    let elsewhere = node.root().join("pods/elsewhere");
    fs::create_dir_all(node.path(&elsewhere)).unwrap();
    let bind = |command: &mut Command| assert!(command.status().unwrap().success());
    bind(node.inside("mount").arg("--bind").arg(node.volume_inside("uid-a", LOOP, "pv")).arg(&elsewhere));
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    node.wait_event(&["FailedUnmountDevice", "still mounted by other references", "pods/elsewhere"]);
    bind(node.inside("umount").arg(&elsewhere));
    fs::remove_dir(node.path(&elsewhere)).unwrap();
    host.assert_nothing_is_left();
}

#[test]
fn a_killed_daemon_adopts_mounted_volumes_and_unmounts_unwanted_ones() {
    let mut host = LoopNode::start();
    host.node.manifest("pv.yaml", &loop_volume("pv", "data.img", "ext4", "64Mi", ""));
    host.node.manifest("raw.yaml", &loop_volume("raw", "raw.img", "ext4", "16Mi", "  volumeMode: Block"));
    host.node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    host.node.manifest("b.yaml", &device_pod("b", "uid-b", "raw-claim"));
    host.node.wait_mounted("default/a");
    host.node.wait_mounted("default/b");
    fs::write(host.volume("uid-a", "pv").join("file"), "stays").unwrap();
    let (mounts, devices) = (host.node.all_mounts(), host.devices.all());
    host.node.kill();
    host.node.start();
    host.node.wait_mounted("default/a");
    host.node.wait_mounted("default/b");
    assert_eq!((host.node.all_mounts(), host.devices.all()), (mounts.clone(), devices.clone()));
    assert!(!host.node.ok(&["events"]).contains("SuccessfulMount"), "nothing was mounted again");

    // Without records the kernel and the folders tell enough to leave a live pod's volumes alone.
    host.node.kill();
    assert!(host.node.inside("umount").arg(host.node.root().join("state")).status().unwrap().success());
    host.node.start();
    host.node.wait_mounted("default/a");
    host.node.wait_mounted("default/b");
    assert_eq!(fs::read_to_string(host.volume("uid-a", "pv").join("file")).unwrap(), "stays");
    assert_eq!(host.node.all_mounts().len(), mounts.len());
    assert_eq!(host.devices.all(), devices);

    host.node.kill();
    host.node.remove_manifest("a.yaml");
    host.node.remove_manifest("b.yaml");
    host.node.start();
    host.node.wait_event(&["SuccessfulDetachVolume", "data.img"]);
    host.node.wait_event(&["SuccessfulDetachVolume", "raw.img"]);
    host.assert_nothing_is_left();
}

#[test]
fn volumes_that_are_only_staged_or_attached_are_found_again_and_detached() {
    let mut host = LoopNode::start();
    host.node.manifest("pv.yaml", &loop_volume("pv", "data.img", "ext4", "64Mi", ""));
    host.node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    host.node.wait_mounted("default/a");
    let record = host.node.path(&host.node.root().join("state/devices"));
    for records in ["whole", "lost"] {
        host.node.kill();
        // As if the process had died between the pod's unmount and the device's.
        let point = host.node.volume_inside("uid-a", LOOP, "pv");
        assert!(host.node.inside("umount").arg(&point).status().unwrap().success());
        fs::remove_dir(host.node.path(&point)).unwrap();
        let _ = fs::remove_dir_all(host.node.path(&host.node.root().join("state/pods")));
        if records == "lost" {
            fs::remove_dir_all(&record).unwrap();
        }
        host.node.remove_manifest("a.yaml");
        assert_eq!(host.mounts().len(), 1);
        host.node.start();
        host.assert_nothing_is_left();
        host.node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
        host.node.wait_mounted("default/a");
    }
    // And attached only.
    host.node.kill();
    for point in [host.node.volume_inside("uid-a", LOOP, "pv"), host.mounts().remove(0)] {
        let _ = host.node.inside("umount").arg(&point).status().unwrap();
    }
    for point in host.mounts() {
        assert!(host.node.inside("umount").arg(&point).status().unwrap().success());
    }
    host.node.remove_manifest("a.yaml");
    host.node.start();
    host.assert_nothing_is_left();
}

#[test]
fn kills_between_the_steps_end_in_the_desired_state() {
    let mut host = LoopNode::start();
    host.node.manifest("pv.yaml", &loop_volume("pv", "data.img", "ext4", "64Mi", ""));
    host.node.manifest("raw.yaml", &loop_volume("raw", "raw.img", "ext4", "16Mi", "  volumeMode: Block"));
    for round in 0..12 {
        let on = |n: usize| !(round + n).is_multiple_of(3);
        let set = |node: &Node, name: &str, text: String, wanted: bool| {
            if wanted {
                node.manifest(name, &text);
            } else {
                let _ = fs::remove_file(node.folder().join("manifests").join(name));
            }
        };
        set(&host.node, "a.yaml", pod("a", "uid-a", &[&claimed("pv")]), on(0));
        set(&host.node, "b.yaml", pod("b", "uid-b", &[&claimed("pv")]), on(1));
        set(&host.node, "c.yaml", device_pod("c", "uid-c", "raw-claim"), on(2));
        // A little work is let happen first, more of it each round.
        for _ in 0..round {
            host.node.ok(&["get", "pods"]);
        }
        host.node.kill();
        host.node.start();
    }
    host.node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    host.node.manifest("c.yaml", &device_pod("c", "uid-c", "raw-claim"));
    host.node.wait_mounted("default/a");
    host.node.wait_mounted("default/c");
    for name in ["a", "b", "c"] {
        let _ = fs::remove_file(host.node.folder().join("manifests").join(format!("{name}.yaml")));
        host.node.wait_unmounted(&format!("default/{name}"));
    }
    host.node.wait_event(&["SuccessfulDetachVolume", "data.img"]);
    host.node.wait_event(&["SuccessfulDetachVolume", "raw.img"]);
    host.assert_nothing_is_left();
}
