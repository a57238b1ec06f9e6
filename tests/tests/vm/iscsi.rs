//! iSCSI: the guest's kernel is the target, and open-iscsi the initiator.

use volhost_tests::manifests::{device_pod, pod};
use volhost_tests::wait::eventually;

use crate::iscsi_target::{ISCSI, Target};
use crate::kit::claimed;
use crate::suite;

/// A port on which nothing listens.
const DEAD: &str = "127.0.0.1:3999";
const PASSWORD: &str = "correct-horse-battery";
/// The case file of the conformance suite.
const CASE: &str = include_str!("../../conformance/iscsi.yaml");
/// The cases that run in the guest.
const CASES: [&str; 2] = ["publish/is-mounted", "stage/crash-then-undo"];

#[test]
fn units_of_a_target_share_its_sessions_which_end_with_the_last_unit_though_the_daemon_was_killed() {
    let target = Target::start("shared");
    let guest = &target.guest;
    for (lun, bytes) in [(0, 64 << 20), (3, 320 << 20), (5, 64 << 20)] {
        target.unit(lun, bytes);
    }
    let daemon = target.daemon("iscsi");
    // The first portal is dead, and each unit has two paths.
    let portals = format!(", portals: ['127.0.0.1:3260', '{DEAD}', '[::1]:3260']");
    let a = target.source(0, &portals).replace("targetPortal: 127.0.0.1", &format!("targetPortal: '{DEAD}'"));
    daemon.add("a.yaml", &pod("a", "uid-a", &[&format!("name: data, {a}")]));
    let b = target.source(3, &format!(", fsType: xfs{portals}"));
    let b = format!(
        "{}{}",
        claimed("b", "64Mi", "Filesystem", &b),
        pod("b", "uid-b", &["name: b, persistentVolumeClaim: { claimName: b }"])
    );
    daemon.add("b.yaml", &b);
    daemon.wait_mounted("default/a");
    daemon.wait_mounted("default/b");
    assert_eq!((target.sessions(), target.units()), (2, ["0", "0", "3", "3"].map(str::to_owned).to_vec()));
    let place = |uid: &str, name: &str| format!("{}/root/pods/{uid}/volumes/{ISCSI}/{name}", daemon.folder());
    guest.run(&format!("echo kept >{0}/word; sync -f {0}", place("uid-a", "data")));
    assert!(
        daemon.mounts().iter().any(|mount| mount.contains("uid-b") && mount.contains(" - xfs ")),
        "{:?}",
        daemon.mounts()
    );

    daemon.kill();
    daemon.remove("a.yaml");
    daemon.run();
    daemon.wait_unmounted("default/a");
    // The volume is unstaged after the pod has been unmounted.
    let of_b = || (target.sessions(), target.units()) == (2, ["3", "3"].map(str::to_owned).to_vec());
    assert!(eventually(of_b), "{:?}", target.units());
    daemon.kill();
    daemon.remove("b.yaml");
    daemon.run();
    daemon.wait_unmounted("default/b");
    daemon.assert_clean();
    target.assert_unused();

    // What was written is there, and one pod may only read it.
    daemon.add("a.yaml", &pod("a", "uid-c", &[&format!("name: data, {}", target.source(0, ", readOnly: true"))]));
    daemon.wait_mounted("default/a");
    assert_eq!(guest.run(&format!("cat {}/word", place("uid-c", "data"))), "kept\n");
    let refused = guest.try_run(&format!("echo x >{}/word", place("uid-c", "data")));
    assert!(refused.error.contains("Read-only file system"), "{refused:?}");
    daemon.remove("a.yaml");
    daemon.wait_unmounted("default/a");
    daemon.assert_clean();
    target.assert_unused();
    daemon.kill();
}

#[test]
fn a_device_is_reached_by_chap_and_grows_and_its_password_is_nowhere_else() {
    let target = Target::start("chap");
    let guest = &target.guest;
    target.unit(1, 32 << 20);
    let initiator = "iqn.2003-01.org.example:initiator";
    // One initiator alone, and it must know the password.
    let (group, acl) = (target.group(), format!("{}/acls/{initiator}", target.group()));
    guest.run(&format!(
        "echo 0 >{group}/attrib/generate_node_acls; echo 1 >{group}/attrib/authentication
         mkdir -p {acl}/lun_1; ln -s {group}/lun/lun_1 {acl}/lun_1/unit
         printf node >{acl}/auth/userid; printf {PASSWORD} >{acl}/auth/password"
    ));
    let daemon = target.daemon("chap");
    let secret = |password: &str| {
        format!(
            "apiVersion: v1
kind: Secret
metadata: {{ name: chap }}
type: kubernetes.io/iscsi-chap
stringData: {{ node.session.auth.username: node, node.session.auth.password: {password} }}
"
        )
    };
    daemon.add("secret.yaml", &secret("wrong-horse-battery"));
    let fields = target
        .source(1, &format!(", initiatorName: '{initiator}', chapAuthSession: true, secretRef: {{ name: chap }}"));
    let volume = |size: &str| claimed("raw", size, "Block", &fields);
    daemon.add("raw.yaml", &format!("{}{}", volume("32Mi"), device_pod("raw", "uid-raw", "raw")));
    daemon.wait_event(&["default/raw", "portal 127.0.0.1:3260", "refuses the login", "CHAP"]);
    target.assert_unused();
    daemon.remove("secret.yaml");
    daemon.add("secret.yaml", &secret(PASSWORD));
    daemon.wait_mounted("default/raw");
    let device = format!("{}/root/pods/uid-raw/volumeDevices/{ISCSI}/raw", daemon.folder());
    assert_eq!(guest.run(&format!("blockdev --getsize64 {device}")).trim(), (32 << 20).to_string());
    guest.run(&format!("echo raw | dd of={device} conv=fsync status=none"));
    assert_eq!(guest.run("cat /sys/class/iscsi_session/*/initiatorname").trim(), initiator);

    // The target enlarges it, then the PersistentVolume says so.
    target.grow(1, 48 << 20);
    daemon.add("raw.yaml", &format!("{}{}", volume("48Mi"), device_pod("raw", "uid-raw", "raw")));
    guest.run(&format!(
        "for turn in $(seq 600); do [ $(blockdev --getsize64 {device}) = {} ] && exit; read -t 0.1 line </dev/zero || true; done; exit 1",
        48 << 20
    ));

    daemon.remove("raw.yaml");
    daemon.wait_unmounted("default/raw");
    daemon.assert_clean();
    target.assert_unused();
    let found = guest
        .run(&format!("grep -rlF -e {PASSWORD} -e wrong-horse {0}/root {0}/log /etc/iscsi || true", daemon.folder()));
    assert_eq!(found, "", "neither state, log nor record has the password");
    assert!(!daemon.volhost("events").output.contains("horse"));
    daemon.kill();
}

#[test]
fn what_does_not_exist_is_named_and_leaves_no_session() {
    let target = Target::start("errors");
    target.unit(0, 16 << 20);
    let daemon = target.daemon("errors");
    let lun = target.source(9, "");
    let other = target.source(0, "").replace(":errors'", ":absent'");
    for (name, source) in [("lun", &lun), ("other", &other)] {
        daemon.add(&format!("{name}.yaml"), &pod(name, &format!("uid-{name}"), &[&format!("name: data, {source}")]));
    }
    daemon.wait_event(&["FailedMount", "pod default/lun", "the target has no LUN 9"]);
    daemon.wait_event(&["FailedMount", "pod default/other", "no such target; it has ", ":errors"]);
    for name in ["lun", "other"] {
        daemon.remove(&format!("{name}.yaml"));
        daemon.wait_unmounted(&format!("default/{name}"));
    }
    daemon.assert_clean();
    target.assert_unused();
    daemon.kill();
}

#[test]
fn the_plugin_follows_the_contract_on_a_real_target() {
    let target = Target::start("conformance");
    target.unit(0, 32 << 20);
    let guest = &target.guest;
    suite::check(guest, "iscsi", CASE, &CASES);
    target.assert_unused();
}
