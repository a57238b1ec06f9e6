//! SELinux that enforces a small policy: volumes that are mounted with the label of their pod.

use volhost_tests::manifests::pod;
use volhost_tests::vm::{Finished, Guest};

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

/// Runs a script as a process of a container with this level.
fn as_container(guest: &Guest, level: &str, script: &str) -> Finished {
    guest.try_run(&format!("runcon system_u:system_r:container_t:{level} sh -c '{script}'"))
}

#[test]
fn a_volume_is_mounted_with_its_pods_label_which_the_kernel_enforces() {
    let guest = enforcing();
    let daemon = Daemon::start(&guest, "selinux", &["loop"]);
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
    for pod in ["alone", "first", "walked"] {
        daemon.wait_mounted(&format!("default/{pod}"));
    }
    let label = |path: &str| guest.run(&format!("stat -c %C {path}")).trim().to_owned();
    assert_eq!(label(&place("alone", "one")), "system_u:object_r:container_file_t:s0:c1,c2");
    assert_eq!(label(&place("walked", "three")), "system_u:object_r:node_t:s0", "its files have labels of their own");

    // Its container reads and writes; another pod's does neither.
    let place_of_one = place("alone", "one");
    let own = as_container(&guest, "s0:c1,c2", &format!("echo kept >{place_of_one}/word; cat {place_of_one}/word"));
    assert!(own.succeeded() && own.output == "kept\n", "{own:?}");
    for script in [format!("cat {place_of_one}/word"), format!("echo lost >{place_of_one}/word")] {
        let other = as_container(&guest, "s0:c3,c4", &script);
        assert!(!other.succeeded() && other.error.contains("Permission denied"), "{script}: {other:?}");
    }
    let unlabelled = as_container(&guest, "s0:c1,c2", &format!("echo lost >{}/word", place("walked", "three")));
    assert!(unlabelled.error.contains("Permission denied"), "{unlabelled:?}");

    // A pod with another label waits for the volume, also after a restart.
    daemon.add("second.yaml", &labelled("second", "two", "s0:c3,c4", by_mount));
    daemon.wait_event(&["FailedMount", "default/second", "conflicting SELinux labels of volume", "default/first"]);
    let before = daemon.mounts();
    daemon.kill();
    daemon.run();
    daemon.wait_event(&["FailedMount", "default/second", "conflicting SELinux labels of volume", "default/first"]);
    assert_eq!(daemon.mounts(), before, "the same mounts");
    daemon.remove("first.yaml");
    daemon.wait_mounted("default/second");
    assert_eq!(label(&place("second", "two")), "system_u:object_r:container_file_t:s0:c3,c4");

    for (file, pod) in [("one.yaml", "alone"), ("second.yaml", "second"), ("three.yaml", "walked")] {
        daemon.remove(file);
        daemon.wait_unmounted(&format!("default/{pod}"));
    }
    let drained = daemon.volhost("drain");
    assert!(drained.succeeded(), "{drained:?}");
    daemon.assert_clean();
}
