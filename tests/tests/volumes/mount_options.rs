//! `spec.mountOptions` of a PersistentVolume, from the manifest to what the kernel says of the
//! mounts.

use volhost_tests::loop_devices::LoopDevices;
use volhost_tests::manifests::{loop_volume, pod};
use volhost_tests::{Node, artifacts};

fn claimed(name: &str) -> String {
    format!("name: data, persistentVolumeClaim: {{ claimName: {name}-claim }}")
}

fn node() -> (Node, LoopDevices) {
    let node = Node::builder()
        .plugin(artifacts::plugin("loop"))
        .config("[grants.\"volhost.io/loop\"]\nloop-files = [\"$NODE/disk\"]\ninterfaces = [\"id-maps\"]\n")
        .start();
    let devices = LoopDevices::below(node.folder());
    (node, devices)
}

#[test]
fn options_of_the_file_system_and_of_the_mount_are_in_force() {
    let (node, _devices) = node();
    let types = [("ext4", "commit=31"), ("xfs", "logbsize=64k"), ("btrfs", "commit=31")];
    for (fs_type, option) in types {
        let more = format!("  mountOptions: [\"{option},noexec\", nosuid]");
        node.manifest(
            &format!("{fs_type}.yaml"),
            &loop_volume(fs_type, &format!("{fs_type}.img"), fs_type, "512Mi", &more),
        );
        node.manifest(&format!("pod-{fs_type}.yaml"), &pod(fs_type, fs_type, &[&claimed(fs_type)]));
    }
    for (fs_type, option) in types {
        node.wait_mounted(&format!("default/{fs_type}"));
        let mounts = node.all_mounts();
        let of_node = mounts.iter().find(|mount| mount.fs_type == fs_type && mount.point.ends_with("globalmount"));
        assert!(of_node.unwrap().fs_options.iter().any(|found| found == option), "{of_node:?}");
        let of_pod = node.pod_mounts().into_iter().find(|mount| mount.fs_type == fs_type).unwrap();
        for flag in ["noexec", "nosuid"] {
            assert!(of_pod.options.iter().any(|found| found == flag), "{flag}: {of_pod:?}");
        }
    }
    node.ok(&["drain"]);
}

#[test]
fn an_option_that_the_file_system_lacks_is_reported_in_the_kernels_words() {
    let (node, _devices) = node();
    node.manifest("pv.yaml", &loop_volume("pv", "x.img", "ext4", "32Mi", "  mountOptions: [no-such-option]"));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_event(&["FailedMount", "default/a", "MountVolume.MountDevice", "no-such-option"]);
    node.ok(&["drain"]);
}

#[test]
fn options_that_a_volume_may_not_ask_for_are_refused_with_the_field_and_no_plugin_is_called() {
    let (node, devices) = node();
    for (name, option, says) in [
        ("label", "'ro,context=\"system_u:object_r:x_t:s0\"'", "SELinux label"),
        ("bind", "rbind", "is for the host to say"),
        ("line", "\"noatime\\nro\"", "control character"),
    ] {
        let file = format!("{name}.yaml");
        node.manifest(&file, &loop_volume(name, "x.img", "ext4", "32Mi", &format!("  mountOptions: [{option}]")));
        node.wait_event(&["InvalidManifest", &file, "spec.mountOptions[0]", says]);
    }
    // A kind that has no file system to give options to: refused before anything is asked of its
    // plugin.
    let overlay = loop_volume("top", "x.img", "ext4", "32Mi", "  mountOptions: [noexec]")
        .replace("csi: { driver: loop.volhost.io, volumeHandle: x.img, fsType: ext4 }", "hostPath: { path: /tmp }");
    node.manifest("top.yaml", &overlay);
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("top")]));
    node.wait_event(&["UnresolvedVolume", "default/a", "has mountOptions (noexec)", "remove spec.mountOptions"]);
    assert!(node.pod_mounts().is_empty() && devices.all().is_empty());
}
