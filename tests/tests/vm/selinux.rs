//! SELinux that enforces a small policy: volumes that are mounted with the label of their pod, by volhost
//! and by a CSI driver, and volumes whose files the container runtime labels.

use volhost_tests::manifests::pod;
use volhost_tests::vm::{Finished, Guest};

use crate::csi_driver::CsiDriver;
use crate::iscsi_target::{ISCSI, Target};
use crate::kit::{Daemon, claimed};

const POLICY: &str = include_str!("policy.cil");
const LOOP: &str = "volhost.io~loop";

/// Boots a guest that enforces the policy.
fn enforcing() -> Guest {
    let guest = Guest::start_with("security=selinux selinux=1 enforcing=1");
    guest.run(&format!(
        "mount -t selinuxfs selinuxfs /sys/fs/selinux; mkdir -p /etc/selinux; echo SELINUX=enforcing >/etc/selinux/config
         cat >/run/policy.cil <<'END'\n{POLICY}\nEND
         secilc -o /run/policy -f /run/contexts -c 33 /run/policy.cil; dd if=/run/policy of=/sys/fs/selinux/load bs=1M status=none
         test $(cat /sys/fs/selinux/enforce) = 1"
    ));
    guest
}

/// A volume in an image file, which one pod alone may have, or several.
fn volume(name: &str, access: &str) -> String {
    let fields = format!("csi: {{ driver: loop.volhost.io, volumeHandle: {name}, fsType: ext4 }}");
    claimed(name, "8Mi", "Filesystem", &fields).replace("ReadWriteOnce", access)
}

/// A pod with a level and the way in which its volumes get it.
fn labelled(name: &str, volume: &str, level: &str, policy: &str) -> String {
    pod(name, &format!("uid-{name}"), &[&format!("name: {volume}, persistentVolumeClaim: {{ claimName: {volume} }}")])
        .replace(
            "\n  containers:",
            &format!("\n  securityContext: {{ seLinuxOptions: {{ level: '{level}' }}{policy} }}\n  containers:"),
        )
}

/// The label of a file in the guest.
fn label(guest: &Guest, path: &str) -> String {
    guest.run(&format!("stat -c %C {path}")).trim().to_owned()
}

/// Runs a script as a process of a container with this level.
fn as_container(guest: &Guest, level: &str, script: &str) -> Finished {
    guest.try_run(&format!("runcon system_u:system_r:container_t:{level} sh -c '{script}'"))
}

#[test]
fn a_volume_is_mounted_with_its_pods_label_which_the_kernel_enforces() {
    let target = Target::start_in(enforcing(), "selinux");
    target.unit(0, 8 << 20);
    let guest = &target.guest;
    let daemon = Daemon::start(guest, "selinux", &["loop", "iscsi"]);
    let folder = daemon.folder();
    guest.run(&format!("for image in one two three; do truncate -s 8M {folder}/data/$image; done"));
    let place = |pod: &str, volume: &str| format!("{folder}/root/pods/uid-{pod}/volumes/{LOOP}/{volume}");
    let by_mount = ", seLinuxChangePolicy: MountOption";
    // One pod alone has the first; the second says how it wants the label; the third wants none.
    daemon
        .add("one.yaml", &format!("{}{}", volume("one", "ReadWriteOncePod"), labelled("alone", "one", "s0:c1,c2", "")));
    daemon.add("two.yaml", &volume("two", "ReadWriteOnce"));
    daemon.add("first.yaml", &labelled("first", "two", "s0:c1,c2", by_mount));
    daemon.add(
        "three.yaml",
        &format!(
            "{}{}",
            volume("three", "ReadWriteOncePod"),
            labelled("walked", "three", "s0:c1,c2", ", seLinuxChangePolicy: Recursive")
        ),
    );
    let unit = claimed("unit", "8Mi", "Filesystem", &target.source(0, ", fsType: ext4"));
    daemon.add("unit.yaml", &format!("{unit}{}", labelled("initiator", "unit", "s0:c1,c2", by_mount)));
    for pod in ["alone", "first", "walked", "initiator"] {
        daemon.wait_mounted(&format!("default/{pod}"));
    }
    assert_eq!(label(guest, &place("alone", "one")), "system_u:object_r:container_file_t:s0:c1,c2");
    let place_of_unit = format!("{folder}/root/pods/uid-initiator/volumes/{ISCSI}/unit");
    assert_eq!(label(guest, &place_of_unit), "system_u:object_r:container_file_t:s0:c1,c2");
    let place_of_three = place("walked", "three");
    assert_eq!(label(guest, &place_of_three), "system_u:object_r:node_t:s0", "its files have labels of their own");

    // Its container reads and writes; another pod's does neither.
    let place_of_one = place("alone", "one");
    let own = as_container(guest, "s0:c1,c2", &format!("echo kept >{place_of_one}/word; cat {place_of_one}/word"));
    assert!(own.succeeded() && own.output == "kept\n", "{own:?}");
    for script in [format!("cat {place_of_one}/word"), format!("echo lost >{place_of_one}/word")] {
        let other = as_container(guest, "s0:c3,c4", &script);
        assert!(!other.succeeded() && other.error.contains("Permission denied"), "{script}: {other:?}");
    }
    // The container runtime labels the files of the third.
    let write = format!("echo kept >{place_of_three}/word; cat {place_of_three}/word");
    let unlabelled = as_container(guest, "s0:c1,c2", &write);
    assert!(unlabelled.error.contains("Permission denied"), "{unlabelled:?}");
    guest.run(&format!("chcon -R system_u:object_r:container_file_t:s0:c1,c2 {place_of_three}"));
    let relabelled = as_container(guest, "s0:c1,c2", &write);
    assert!(relabelled.succeeded() && relabelled.output == "kept\n", "{relabelled:?}");

    // A pod with another label waits for the volume, also after a restart.
    daemon.add("second.yaml", &labelled("second", "two", "s0:c3,c4", by_mount));
    daemon.wait_event(&["FailedMount", "default/second", "conflicting SELinux labels of volume", "default/first"]);
    let before = daemon.mounts();
    daemon.kill();
    daemon.run();
    daemon.wait_event(&["FailedMount", "default/second", "conflicting SELinux labels of volume", "default/first"]);
    assert_eq!(daemon.mounts(), before, "the same mounts");
    assert_eq!(label(guest, &format!("{place_of_three}/word")), "system_u:object_r:container_file_t:s0:c1,c2");
    daemon.remove("first.yaml");
    daemon.wait_mounted("default/second");
    assert_eq!(label(guest, &place("second", "two")), "system_u:object_r:container_file_t:s0:c3,c4");

    for (file, pod) in
        [("one.yaml", "alone"), ("second.yaml", "second"), ("three.yaml", "walked"), ("unit.yaml", "initiator")]
    {
        daemon.remove(file);
        daemon.wait_unmounted(&format!("default/{pod}"));
    }
    let drained = daemon.volhost("drain");
    assert!(drained.succeeded(), "{drained:?}");
    daemon.assert_clean();
    target.assert_unused();
}

#[test]
fn a_csi_driver_gets_the_label_as_an_option_and_mounts_with_it() {
    let guest = enforcing();
    guest.run("mkdir -p /disk/images; for image in one two; do truncate -s 8M /disk/images/$image; done");
    let driver = CsiDriver::start_with(
        &guest,
        "loop",
        "selinux-csi",
        "[grants.\"volhost.io/loop\"]\nloop-files = [\"/disk/images\"]\ninterfaces = [\"id-maps\"]",
    );
    let daemon = Daemon::start_with(&guest, "selinux-csi", &["csi"], "--plugin-registry /run/loop-csi");
    let place = |pod: &str, volume: &str| {
        format!("{}/root/pods/uid-{pod}/volumes/kubernetes.io~csi/{volume}/mount", daemon.folder())
    };
    let object = |selinux_mount: bool| {
        format!(
            "apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {{ name: loop.volhost.io }}
spec: {{ attachRequired: false, podInfoOnMount: true, seLinuxMount: {selinux_mount} }}
---
"
        )
    };
    let by_mount = ", seLinuxChangePolicy: MountOption";
    daemon.add("driver.yaml", &object(true));
    daemon.add("one.yaml", &volume("one", "ReadWriteOnce"));
    daemon.add("first.yaml", &labelled("first", "one", "s0:c1,c2", by_mount));
    daemon.wait_mounted("default/first");
    let place_of_one = place("first", "one");
    assert_eq!(label(&guest, &place_of_one), "system_u:object_r:container_file_t:s0:c1,c2");
    let write = |place: &str| format!("echo kept >{place}/word; cat {place}/word");
    let own = as_container(&guest, "s0:c1,c2", &write(&place_of_one));
    assert!(own.succeeded() && own.output == "kept\n", "{own:?}");
    let other = as_container(&guest, "s0:c3,c4", &write(&place_of_one));
    assert!(other.error.contains("Permission denied"), "{other:?}");

    // A pod with another label waits, and gets the volume under its own.
    daemon.add("second.yaml", &labelled("second", "one", "s0:c3,c4", by_mount));
    daemon.wait_event(&["FailedMount", "default/second", "conflicting SELinux labels of volume", "default/first"]);
    daemon.remove("first.yaml");
    daemon.wait_mounted("default/second");
    let read = as_container(&guest, "s0:c3,c4", &format!("cat {}/word", place("second", "one")));
    assert!(read.succeeded() && read.output == "kept\n", "{read:?}");

    // A driver that does not mount with labels gets none.
    daemon.remove("second.yaml");
    daemon.wait_unmounted("default/second");
    daemon.remove("driver.yaml");
    daemon.add("driver.yaml", &object(false));
    daemon.add(
        "two.yaml",
        &format!("{}{}", volume("two", "ReadWriteOnce"), labelled("third", "two", "s0:c1,c2", by_mount)),
    );
    daemon.wait_mounted("default/third");
    assert_eq!(label(&guest, &place("third", "two")), "system_u:object_r:node_t:s0");

    daemon.remove("two.yaml");
    daemon.wait_unmounted("default/third");
    let drained = daemon.volhost("drain");
    assert!(drained.succeeded(), "{drained:?}");
    daemon.assert_clean();
    assert_eq!(guest.run("losetup -a"), "", "the driver has given its devices back");
    daemon.kill();
    driver.stop();
}
