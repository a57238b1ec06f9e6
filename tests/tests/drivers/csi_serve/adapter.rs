//! volhost on both sides: a daemon that drives CSI drivers, and a plugin that is served as one.

use std::fs;

use volhost_tests::csi_serve::CsiServe;
use volhost_tests::loop_devices::LoopDevices;
use volhost_tests::manifests::{device_pod, pod};
use volhost_tests::{Node, artifacts};

const NAME: &str = "images.example.com";

struct Both {
    node: Node,
    served: CsiServe,
    devices: LoopDevices,
}

impl Both {
    fn start(arguments: &[&str]) -> Self {
        let mut node = Node::builder().plugin(artifacts::plugin("csi")).build();
        let registry = node.folder().join(volhost_tests::csi::REGISTRY);
        fs::create_dir_all(&registry).unwrap();
        node.add_arguments(&["--plugin-registry", &registry.display().to_string()]);
        node.start();
        let registry = registry.display().to_string();
        let own = ["--driver-name", NAME, "--registration-dir", &registry];
        let served = CsiServe::start(&node, &artifacts::plugin("loop"), &[&own[..], arguments].concat());
        node.wait_event(&["DriverRegistered", NAME]);
        let images = LoopDevices::below(&node.folder().join("disk"));
        Self { node, served, devices: images }
    }

    fn image(&self, name: &str, bytes: u64) {
        let file = fs::File::create(self.node.folder().join("disk").join(name)).unwrap();
        file.set_len(bytes).unwrap();
    }

    fn volume(&self, name: &str, capacity: &str, mode: &str) {
        // What a mounted file system of this type grows by, every root may have.
        let fs_type = if mode == "Filesystem" { ", fsType: xfs" } else { "" };
        let text = format!(
            "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{ name: {name} }}\nspec:\n  capacity: {{ storage: {capacity} }}\n  accessModes: [ReadWriteOnce]\n  volumeMode: {mode}\n  csi: {{ driver: {NAME}, volumeHandle: {name}-id{fs_type} }}\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{ name: {name}-claim }}\nspec:\n  accessModes: [ReadWriteOnce]\n  volumeMode: {mode}\n  resources: {{ requests: {{ storage: 1Mi }} }}\n  volumeName: {name}\n"
        );
        self.node.manifest(&format!("{name}.yaml"), &text);
    }

    fn drained(&self) {
        self.node.ok(&["drain"]);
        assert_eq!(self.node.pod_mounts(), []);
        assert!(self.devices.all().is_empty(), "{:?}\n{}", self.devices.all(), self.served.log());
    }
}

fn claimed(name: &str) -> String {
    format!("name: data, persistentVolumeClaim: {{ claimName: {name}-claim }}")
}

#[test]
fn a_daemon_uses_a_served_plugin_as_any_driver() {
    for attach in [&[][..], &["--enable-attach"][..]] {
        let mut both = Both::start(attach);
        both.image("pv-id", 320 << 20);
        both.volume("pv", "320Mi", "Filesystem");
        both.node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
        both.node.wait_mounted("default/a");
        let file = |uid: &str| both.node.volume(uid, "kubernetes.io~csi", "pv").join("hello");
        fs::write(file("uid-a"), "x").unwrap();
        both.node.manifest("b.yaml", &pod("b", "uid-b", &[&claimed("pv")]));
        both.node.wait_mounted("default/b");
        assert_eq!(fs::read_to_string(file("uid-b")).unwrap(), "x");
        let described = both.node.ok(&["describe", "volume", "pv"]);
        assert!(described.contains("Capacity") || described.contains("capacity"), "{described}");

        // It grows while it is used, and a restarted driver adopts what is mounted.
        both.served.kill();
        both.served.run(&both.node);
        both.volume("pv", "400Mi", "Filesystem");
        both.node.wait_event(&["FileSystemResizeSuccessful"]);
        assert_eq!(fs::metadata(both.node.folder().join("disk/pv-id")).unwrap().len(), 400 << 20);

        both.node.remove_manifest("a.yaml");
        both.node.wait_unmounted("default/a");
        both.node.remove_manifest("b.yaml");
        both.node.wait_unmounted("default/b");
        both.drained();
    }
}

#[test]
fn a_daemon_hands_a_served_plugins_device_to_a_pod() {
    let both = Both::start(&[]);
    both.image("raw-id", 16 << 20);
    both.volume("raw", "16Mi", "Block");
    both.node.manifest("a.yaml", &device_pod("a", "uid-a", "raw-claim"));
    both.node.wait_mounted("default/a");
    let link = both.node.root().join("pods/uid-a/volumeDevices/kubernetes.io~csi/raw");
    let device = fs::read_link(both.node.path(&link)).unwrap();
    let (_, images) = both.devices.files();
    assert_eq!(images, [both.node.folder().join("disk/raw-id")], "{device:?}");
    both.node.remove_manifest("a.yaml");
    both.node.wait_unmounted("default/a");
    both.drained();
}
