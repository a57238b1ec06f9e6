//! What is mounted stays as it is while its plugin is missing, while its PersistentVolume is
//! edited, and while its pod is.

use std::fs;
use std::path::PathBuf;

use volhost_tests::loop_devices::LoopDevices;
use volhost_tests::manifests::{device_pod, loop_volume, pod};
use volhost_tests::wait::eventually;
use volhost_tests::{Node, artifacts};

const LOOP: &str = "volhost.io~loop";
const OVERLAY: &str = "volhost.io~overlay";
const GRANTS: &str = "[grants.\"volhost.io/loop\"]\ninterfaces = [\"id-maps\"]\nloop-files = [\"$NODE/disk\"]\n\
                      [grants.\"volhost.io/overlay\"]\ninterfaces = [\"overlays\", \"pod-volumes\"]\nhost-paths = [\"$NODE/disk\"]\n";

/// The mounts of volumes, and the loop devices.
#[derive(Debug, PartialEq)]
struct Before {
    mounts: Vec<PathBuf>,
    devices: Vec<String>,
}

/// A node with the plugins `loop` and `overlay`, and with `csi`, which serves every driver that has
/// no plugin of its own.
struct Kept {
    node: Node,
    devices: LoopDevices,
}

impl Kept {
    fn start() -> Self {
        let plugins = ["loop", "overlay", "csi"].map(artifacts::plugin);
        let node = plugins.into_iter().fold(Node::builder(), |node, file| node.plugin(file)).config(GRANTS).start();
        let devices = LoopDevices::below(node.folder());
        Self { node, devices }
    }

    fn plugin(&self, file: &str) -> PathBuf {
        self.node.folder().join("plugins").join(file)
    }

    fn remove_plugin(&self, name: &str) {
        fs::remove_file(self.plugin(&format!("{name}.wasm"))).unwrap();
    }

    fn return_plugin(&self, name: &str) {
        let hidden = self.plugin(&format!(".{name}.wasm"));
        fs::copy(artifacts::plugin(name), &hidden).unwrap();
        fs::rename(hidden, self.plugin(&format!("{name}.wasm"))).unwrap();
    }

    /// Two pods with the claims of two images: `a` has one as a file system, `raw` the other as a
    /// device.
    fn mount_both(&self) -> Before {
        let node = &self.node;
        node.manifest("data.yaml", &loop_volume("data", "data.img", "ext4", "64Mi", ""));
        node.manifest("disk.yaml", &loop_volume("disk", "disk.img", "ext4", "64Mi", "  volumeMode: Block"));
        node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("data")]));
        node.manifest("raw.yaml", &device_pod("raw", "uid-raw", "disk-claim"));
        node.wait_mounted("default/a");
        node.wait_mounted("default/raw");
        fs::write(self.file(), "precious").unwrap();
        self.now()
    }

    fn now(&self) -> Before {
        Before { mounts: self.mounts(), devices: self.devices.all() }
    }

    fn file(&self) -> PathBuf {
        self.node.volume("uid-a", LOOP, "data").join("file")
    }

    fn assert_both_stay(&self, before: &Before) {
        assert_eq!(self.now(), *before, "{}", self.node.ok(&["events"]));
        assert_eq!(fs::read_to_string(self.file()).unwrap(), "precious");
        let events = self.node.ok(&["events"]);
        assert!(!events.contains("Unmount") && !events.contains("Detach"), "{events}");
    }

    fn mounts(&self) -> Vec<PathBuf> {
        let (pods, plugins) = (self.node.root().join("pods"), self.node.root().join("plugins"));
        let all = self.node.all_mounts().into_iter().map(|mount| mount.point);
        let mut all: Vec<_> = all.filter(|point| point.starts_with(&pods) || point.starts_with(&plugins)).collect();
        all.sort();
        all
    }
}

fn claimed(name: &str) -> String {
    format!("name: vol, persistentVolumeClaim: {{ claimName: {name}-claim }}")
}

#[test]
fn volumes_stay_while_the_file_of_their_plugin_is_missing_and_users_get_an_event() {
    let kept = Kept::start();
    let node = &kept.node;
    let before = kept.mount_both();
    kept.remove_plugin("loop");
    node.wait_event(&["PluginRetired", "volhost.io/loop"]);
    node.wait_event(&["UnresolvedVolume", "default/a", "volhost.io/loop", "stays"]);
    node.wait_event(&["UnresolvedVolume", "default/raw", "volhost.io/loop", "stays"]);
    kept.assert_both_stay(&before);
    let described = node.ok(&["describe", "pod", "a"]);
    assert!(described.contains("Mounted, 1 of 1 volumes ready"), "{described}");
    assert!(described.contains("Last error") && described.contains("volhost.io/loop"), "{described}");
    let top = node.ok(&["top", "--once"]);
    assert!(top.contains("2 of 2 volumes mounted, 2 in trouble"), "{top}");

    kept.return_plugin("loop");
    assert!(eventually(|| node.ok(&["top", "--once"]).contains("0 in trouble")), "the plugin serves its volumes again");
    kept.assert_both_stay(&before);
    node.remove_manifest("a.yaml");
    node.remove_manifest("raw.yaml");
    node.wait_unmounted("default/a");
    node.wait_unmounted("default/raw");
    assert!(eventually(|| kept.devices.all().is_empty()), "no loop device is left");
}

#[test]
fn volumes_stay_when_their_plugin_is_missing_after_a_restart() {
    let mut kept = Kept::start();
    let before = kept.mount_both();
    kept.node.kill();
    kept.remove_plugin("loop");
    kept.node.start();
    kept.node.wait_event(&["UnresolvedVolume", "default/a", "volhost.io/loop"]);
    kept.node.wait_event(&["UnresolvedVolume", "default/raw", "volhost.io/loop"]);
    // What is cleaned up after a start is cleaned up by now.
    kept.node.manifest("b.yaml", &pod("b", "uid-b", &["name: scratch, emptyDir: {}"]));
    kept.node.wait_mounted("default/b");
    kept.node.remove_manifest("b.yaml");
    kept.node.wait_unmounted("default/b");
    let described = kept.node.ok(&["describe", "pod", "a"]);
    assert!(described.contains("Mounted, 1 of 1 volumes ready"), "{described}");
    assert_eq!(kept.now(), before);
    assert_eq!(fs::read_to_string(kept.file()).unwrap(), "precious");
    kept.return_plugin("loop");
    assert!(
        eventually(|| kept.node.ok(&["top", "--once"]).contains("0 in trouble")),
        "the plugin serves its volumes again"
    );
    assert_eq!(kept.now(), before);
}

#[test]
fn what_was_written_over_a_base_stays_while_the_overlay_plugin_is_missing() {
    let kept = Kept::start();
    let node = &kept.node;
    fs::create_dir(node.folder().join("disk/models")).unwrap();
    let path = node.folder().join("disk/models").display().to_string();
    let base = format!("name: base, hostPath: {{ path: {path} }}");
    let app = "name: app, csi: { driver: overlay.volhost.io, volumeAttributes: { baseVolume: base } }";
    node.manifest("a.yaml", &pod("a", "uid-a", &[app, &base]));
    node.wait_mounted("default/a");
    let file = node.volume("uid-a", OVERLAY, "app").join("file");
    fs::write(&file, "precious").unwrap();
    kept.remove_plugin("overlay");
    node.wait_event(&["UnresolvedVolume", "default/a", "volhost.io/overlay"]);
    node.wait_mounted("a");
    kept.return_plugin("overlay");
    assert!(eventually(|| node.ok(&["top", "--once"]).contains("0 in trouble")), "the plugin serves its volumes again");
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    assert!(!node.ok(&["events"]).contains("Unmount"));
}

#[test]
fn an_edited_persistent_volume_stays_mounted_and_the_edit_applies_at_the_next_mount() {
    let kept = Kept::start();
    let node = &kept.node;
    let before = kept.mount_both();
    node.manifest("data.yaml", &loop_volume("data", "data.img", "ext4", "64Mi", "  mountOptions: [commit=30]"));
    node.wait_event(&["VolumeEditPending", "default/a", "mountOptions", "next mount"]);
    kept.assert_both_stay(&before);
    let described = node.ok(&["describe", "volume", "vol"]);
    assert!(described.contains("mountOptions; applies at the next mount"), "{described}");
    assert!(node.ok(&["describe", "pod", "a"]).contains("Mounted, 1 of 1 volumes ready"));
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    node.manifest("b.yaml", &pod("b", "uid-b", &[&claimed("data")]));
    node.wait_mounted("default/b");
    let all = node.all_mounts();
    let staged =
        all.iter().find(|mount| mount.point.starts_with(node.root().join("plugins")) && mount.fs_type == "ext4");
    assert!(staged.unwrap().fs_options.iter().any(|option| option == "commit=30"), "{staged:?}");
}

#[test]
fn a_name_that_leaves_a_pod_keeps_the_volume_of_its_other_name() {
    let kept = Kept::start();
    let node = &kept.node;
    let (vol, again) = (claimed("data"), claimed("data").replace("name: vol", "name: again"));
    node.manifest("data.yaml", &loop_volume("data", "data.img", "ext4", "64Mi", ""));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&vol, &again]));
    node.wait_mounted("default/a");
    fs::write(kept.file(), "precious").unwrap();
    let before = kept.now();
    let described = || node.ok(&["describe", "pod", "a"]);
    assert!(described().contains("2 of 2 volumes ready"), "{}", described());
    node.manifest("a.yaml", &pod("a", "uid-a", &[&again]));
    assert!(eventually(|| described().contains("1 of 1 volumes ready")), "{}", described());
    assert_eq!(kept.now(), before, "{}", node.ok(&["events"]));
    assert_eq!(fs::read_to_string(kept.file()).unwrap(), "precious");
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
}

#[test]
fn a_file_system_that_a_user_mounted_inside_a_volume_keeps_everything() {
    let kept = Kept::start();
    let node = &kept.node;
    kept.mount_both();
    let inner = node.volume_inside("uid-a", LOOP, "data").join("inner");
    fs::create_dir(node.path(&inner)).unwrap();
    let mount = node.inside("mount").args(["-t", "tmpfs", "users"]).arg(&inner).status().unwrap();
    assert!(mount.success());
    fs::write(node.path(&inner).join("file"), "a user's").unwrap();

    node.remove_manifest("a.yaml");
    node.wait_event(&["FailedUnmount", "pod default/a", "data/inner"]);
    assert_eq!(fs::read_to_string(node.path(&inner).join("file")).unwrap(), "a user's");
    assert_eq!(fs::read_to_string(kept.file()).unwrap(), "precious");

    assert!(node.inside("umount").arg(&inner).status().unwrap().success());
    node.wait_unmounted("default/a");
}

#[test]
fn a_volume_by_a_claim_shows_its_events_and_a_pod_that_waits_the_step_and_the_driver() {
    let mut node = Node::builder().plugin(artifacts::plugin("csi")).build();
    let registry = node.folder().join(volhost_tests::csi::REGISTRY).display().to_string();
    node.add_arguments(&["--plugin-registry", &registry]);
    node.start();
    let driver = volhost_tests::csi::CsiDriver::start(&node, "csi.test", &["stage"]);
    driver.order("NodeStageVolume wait");
    let volume = loop_volume("data", "data-id", "ext4", "32Mi", "").replace("loop.volhost.io", "csi.test");
    node.manifest("data.yaml", &volume);
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("data")]));
    assert!(eventually(|| driver.count("NodeStageVolume") > 0), "the driver is asked");
    node.wait_blocked("a", &["volume_mount is running for ", "grpc csi.test", "NodeStageVolume"]);
    for described in [node.ok(&["describe", "pod", "a"]), node.ok(&["describe", "volume", "vol"])] {
        assert!(described.contains("Running:") && described.contains("volume_mount for "), "{described}");
        assert!(described.contains("grpc csi.test") && described.contains("NodeStageVolume"), "{described}");
    }
    driver.order("");
    driver.let_go();
    node.wait_event(&["SuccessfulMountVolume", "default/a"]);
    let described = node.ok(&["describe", "volume", "vol"]);
    assert!(described.contains("SuccessfulMountVolume"), "{described}");
}
