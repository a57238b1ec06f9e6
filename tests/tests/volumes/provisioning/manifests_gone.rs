//! A manifest folder that is a mount, and its mount goes: what was written there is not known to be
//! gone.

use std::fs;

use volhost_tests::manifests::pod;
use volhost_tests::wait::eventually;

use crate::provisioning::kit::{Host, claim, claimed, class};

/// The folder that is mounted over the node's folder of manifests.
const BEHIND: &str = "behind";

fn put(host: &Host, name: &str, text: &str) {
    let folder = host.node.folder().join(BEHIND);
    fs::write(folder.join(format!(".{name}")), text).unwrap();
    fs::rename(folder.join(format!(".{name}")), folder.join(name)).unwrap();
}

fn mount(host: &Host, command: &str, arguments: &[&str]) {
    let done = host.node.inside(command).args(arguments).status().unwrap();
    assert!(done.success(), "{command} {arguments:?}");
}

#[test]
fn volumes_and_mounts_stay_while_the_mount_of_the_manifests_is_gone() {
    let mut host =
        Host::prepared(&format!("mkdir \"$NODE/{BEHIND}\"; mount --bind \"$NODE/{BEHIND}\" \"$NODE/manifests\""));
    let (behind, shown) = (host.node.folder().join(BEHIND), host.node.folder().join("manifests"));
    let (behind, shown) = (behind.display().to_string(), shown.display().to_string());
    put(&host, "class.yaml", &class("fast", host.driver, ""));
    put(&host, "claim.yaml", &claim("data", "fast", "4Mi", ""));
    put(&host, "pod.yaml", &pod("a", "uid-a", &[&claimed("data")]));
    host.node.wait_mounted("default/a");
    let volume = host.bound("data");
    let mounted = host.node.pod_mounts();

    mount(&host, "umount", &["--lazy", &shown]);
    // Nothing may tell the daemon of it but its own look.
    host.node.poke("-HUP");
    let printed = || host.node.log().contains("the mount whose manifests were read is not there any more");
    assert!(eventually(printed), "{}", host.node.log());
    assert_eq!(host.bound("data"), volume);
    assert_eq!(host.node.pod_mounts(), mounted);

    // It is not known then what the manifests said.
    host.node.kill();
    host.node.start();
    host.node.wait_event(&["VolumesHeld", &volume, "default/data"]);
    assert_eq!(host.images(), std::slice::from_ref(&volume));

    host.node.kill();
    mount(&host, "mount", &["--bind", &behind, &shown]);
    host.node.start();
    assert_eq!(host.bound("data"), volume);
    host.node.wait_mounted("default/a");

    // What is removed while it is there is gone.
    fs::remove_file(host.node.folder().join(BEHIND).join("pod.yaml")).unwrap();
    fs::remove_file(host.node.folder().join(BEHIND).join("claim.yaml")).unwrap();
    host.node.wait_event(&["VolumeDeleted", &volume]);
    host.assert_clean();
}
