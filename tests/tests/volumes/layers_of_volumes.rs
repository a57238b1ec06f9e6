//! Overlays over other volumes of their pod: claims, images, folders. What lies below comes first,
//! goes last, is never written to, and is there though no container mounts it.

use std::fs;
use std::path::{Path, PathBuf};

use volhost_tests::loop_devices::LoopDevices;
use volhost_tests::manifests::{local_volume, loop_volume, pod};
use volhost_tests::wait::eventually;
use volhost_tests::{Node, artifacts};

const OVERLAY: &str = "volhost.io~overlay";
const LOCAL: &str = "kubernetes.io~local-volume";
const CLAIMED: &str = "name: base, persistentVolumeClaim: { claimName: models-claim }";
const APP: &str = "name: app, csi: { driver: overlay.volhost.io, volumeAttributes: { baseVolume: base } }";
const GRANTS: &str = "[grants.\"volhost.io/overlay\"]\ninterfaces = [\"overlays\", \"pod-volumes\"]\nhost-paths = [\"$NODE/disk\"]\n\
                      [grants.\"volhost.io/loop\"]\ninterfaces = [\"id-maps\"]\nloop-files = [\"$NODE/disk\"]\n\
                      [grants.\"volhost.io/image-file\"]\ninterfaces = [\"id-maps\"]\nimage-files = [\"$NODE/disk\"]\n";

/// A node with a folder `disk/models`. Its loop devices go with it.
struct Layers {
    node: Node,
    devices: LoopDevices,
}

impl Layers {
    fn start() -> Self {
        let plugins = ["overlay", "loop", "image-file", "config-map"].map(artifacts::plugin);
        let node = plugins.into_iter().fold(Node::builder(), |node, file| node.plugin(file)).config(GRANTS).start();
        fs::create_dir(node.folder().join("disk/models")).unwrap();
        fs::write(node.folder().join("disk/models/model"), "gigabytes").unwrap();
        let devices = LoopDevices::below(node.folder());
        Self { node, devices }
    }

    /// The claim of the folder `disk/models`.
    fn claim_models(&self) {
        let path = self.node.folder().join("disk/models").display().to_string();
        self.node.manifest("models.yaml", &local_volume("models", &path, "test-node"));
    }

    /// A pod with these volumes, of which its container mounts `app` alone.
    fn add(&self, name: &str, volumes: &[&str]) {
        let text = pod(name, &format!("uid-{name}"), volumes);
        self.node.manifest(&format!("{name}.yaml"), &text.replace("        - { name: base, mountPath: /base }\n", ""));
    }

    fn up(&self, name: &str, volumes: &[&str]) {
        self.add(name, volumes);
        self.node.wait_mounted(&format!("default/{name}"));
    }

    fn app(&self, name: &str, file: &str) -> PathBuf {
        self.node.volume(&format!("uid-{name}"), OVERLAY, "app").join(file)
    }

    fn remove_all(&self) {
        for entry in fs::read_dir(self.node.folder().join("manifests")).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }

    fn left(&self) -> Vec<PathBuf> {
        let root = self.node.path(&self.node.root());
        let folders = ["pods", "plugins", "state/devices", "state/pods"].map(|folder| root.join(folder));
        let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    fn assert_nothing_is_left(&self) {
        assert!(
            eventually(|| self.left().is_empty() && self.devices.all().is_empty()),
            "{:?} {:?}\n{}",
            self.left(),
            self.devices.all(),
            self.node.log()
        );
    }
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| format!("{}: {error}", path.display()))
}

#[test]
fn many_pods_share_the_volume_of_a_claim_and_none_can_write_to_it() {
    let layers = Layers::start();
    layers.claim_models();
    for name in ["a", "b", "c"] {
        layers.up(name, &[APP, CLAIMED]);
    }
    for name in ["a", "b", "c"] {
        assert_eq!(text(&layers.app(name, "model")), "gigabytes");
        fs::write(layers.app(name, "model"), name).unwrap();
        fs::write(layers.app(name, "new"), name).unwrap();
        assert!(layers.node.volume(&format!("uid-{name}"), LOCAL, "models").join("model").exists(), "it is mounted");
    }
    for name in ["a", "b", "c"] {
        assert_eq!((text(&layers.app(name, "model")), text(&layers.app(name, "new"))), (name.into(), name.into()));
    }
    let models = layers.node.folder().join("disk/models");
    assert_eq!(text(&models.join("model")), "gigabytes");
    assert!(!models.join("new").exists());
    let shown = layers.node.ok(&["describe", "pod", "a"]);
    let made_of = shown.lines().find(|line| line.trim_start().starts_with("Made of:")).unwrap_or_default();
    assert!(made_of.trim_end().ends_with("base"), "{shown}");
    for name in ["a", "b", "c"] {
        layers.node.remove_manifest(&format!("{name}.yaml"));
        layers.node.wait_unmounted(&format!("default/{name}"));
    }
    layers.assert_nothing_is_left();
    assert_eq!(text(&models.join("model")), "gigabytes");
}

#[test]
fn below_may_lie_a_folder_of_the_pod_an_image_or_several() {
    let layers = Layers::start();
    let disk = layers.node.folder().join("disk");
    let packed = layers
        .node
        .inside("mkfs.erofs")
        .args([&disk.join("packed").display().to_string(), &disk.join("models").display().to_string()])
        .output()
        .unwrap();
    assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
    let image =
        "name: image, csi: { driver: image-file.volhost.io, fsType: erofs, volumeAttributes: { image: packed } }";
    layers.up("a", &["name: base, emptyDir: {}", APP]);
    assert_eq!(fs::read_dir(layers.app("a", "")).unwrap().count(), 0);
    let both = APP.replace("baseVolume: base", "baseVolume: \"base:image\", top: memory");
    layers.up("b", &["name: base, emptyDir: { medium: Memory }", image, &both]);
    assert_eq!(text(&layers.app("b", "model")), "gigabytes");
    fs::write(layers.app("b", "model"), "mine").unwrap();
    let read = APP.replace("csi: {", "csi: { readOnly: true,").replace("baseVolume: base", "baseVolume: image");
    layers.up("c", &[image, &read]);
    assert_eq!(text(&layers.app("c", "model")), "gigabytes");
    assert!(fs::write(layers.app("c", "new"), "x").is_err());
    for mount in
        layers.node.pod_mounts().iter().filter(|mount| mount.point.ends_with("uid-c/volumes/volhost.io~overlay/app"))
    {
        assert!(mount.options.iter().any(|option| option == "ro"), "{mount:?}");
    }
    layers.remove_all();
    layers.assert_nothing_is_left();
}

#[test]
fn a_device_below_goes_after_the_overlay_also_when_the_daemon_was_killed_between() {
    let mut layers = Layers::start();
    layers.node.manifest("models.yaml", &loop_volume("models", "models.img", "ext4", "16Mi", ""));
    for records in [true, false] {
        layers.up("a", &[APP, CLAIMED]);
        fs::write(layers.app("a", "mine"), "mine").unwrap();
        let before = layers.node.all_mounts();
        layers.node.kill();
        layers.node.start();
        layers.node.wait_mounted("default/a");
        assert_eq!(layers.node.all_mounts(), before, "both were taken over");
        assert_eq!(text(&layers.app("a", "mine")), "mine");
        layers.node.kill();
        if !records {
            let state = layers.node.root().join("state");
            let lost = ["pods", "devices"].map(|folder| state.join(folder));
            assert!(layers.node.inside("rm").arg("-r").args(lost).status().unwrap().success());
        }
        layers.node.remove_manifest("a.yaml");
        layers.node.start();
        layers.assert_nothing_is_left();
    }
}

#[test]
fn an_overlay_waits_for_a_missing_base_and_an_impossible_base_is_reported() {
    let layers = Layers::start();
    layers.node.manifest("config.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: c }\ndata: { k: v }\n");
    for (name, volumes, said) in [
        ("claim", vec![CLAIMED, APP], "which waits: error processing PVC default/models-claim"),
        ("none", vec![APP], "spec.volumes has only app"),
        ("changes", vec!["name: base, configMap: { name: c }", APP], "changes with its source"),
    ] {
        layers.add(name, &volumes);
        layers.node.wait_event(&["Warning", &format!("default/{name}")]);
        let really = layers.node.fails(&["wait", "pod", &format!("default/{name}"), "--timeout", "10ms"]);
        assert!(really.contains(said), "{name}: {really}");
        assert!(!layers.app(name, "").exists());
    }
    layers.claim_models();
    layers.node.wait_mounted("default/claim");
    assert_eq!(text(&layers.app("claim", "model")), "gigabytes");
    layers.node.ok(&["drain"]);
}

#[test]
fn a_base_that_fails_delays_its_overlay_and_nothing_else() {
    let layers = Layers::start();
    let missing = layers.node.folder().join("disk/missing");
    let base = format!("name: base, hostPath: {{ path: {}, type: Directory }}", missing.display());
    layers.add("a", &[APP, &base, "name: other, emptyDir: {}"]);
    layers.node.wait_event(&["FailedMount", "default/a", "missing"]);
    let said = layers.node.fails(&["wait", "pod", "default/a", "--timeout", "10ms"]);
    assert!(said.contains("it is made of volume base of the pod"), "{said}");
    assert!(!layers.app("a", "").exists());
    fs::create_dir(&missing).unwrap();
    fs::write(missing.join("model"), "late").unwrap();
    layers.node.wait_mounted("default/a");
    assert_eq!(text(&layers.app("a", "model")), "late");
    assert!(!layers.node.ok(&["events"]).lines().any(|line| line.contains("FailedMount") && line.contains("overlay")));
    layers.remove_all();
    layers.assert_nothing_is_left();
}
