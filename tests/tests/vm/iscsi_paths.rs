//! Several paths to one unit, and what it costs to reach it.

use volhost_tests::figures;
use volhost_tests::manifests::pod;
use volhost_tests::wait::eventually;

use crate::iscsi_target::{ISCSI, Target};

/// The unit's disks, one a session, and the target's name as `$name`.
const DISKS: &str = "disks() {
    for session in /sys/class/iscsi_session/session*; do
        [ \"$(cat $session/targetname 2>/dev/null)\" = \"$1\" ] && ls $session/device/target*/*/block
    done
}";

#[test]
fn a_multipath_map_over_two_portals_is_used_grows_no_second_device_and_is_removed_with_its_sessions() {
    let target = Target::start("paths");
    let (guest, name) = (&target.guest, &target.name);
    target.unit(0, 64 << 20);
    // The administrator's sessions. The map is dmsetup's: multipathd needs udev, which the guest
    // lacks.
    guest.run(&format!(
        "{DISKS}
         modprobe -a dm_multipath dm_round_robin
         for portal in 127.0.0.1:3260 '[::1]:3260'; do
             iscsiadm -m node -T {name} -p $portal -o new >/dev/null
             iscsiadm -m node -T {name} -p $portal --login >/dev/null
         done
         for turn in $(seq 100); do [ $(disks {name} | wc -w) = 2 ] && break; read -t 0.1 line </dev/zero || true; done
         paths=; for disk in $(disks {name}); do paths=\"$paths $(cat /sys/block/$disk/dev) 1000\"; done
         dmsetup create mpathtest --uuid mpath-volhost-test \\
             --table \"0 $((64 << 11)) multipath 0 0 1 1 round-robin 0 2 1$paths\""
    ));
    let daemon = target.daemon("paths");
    let volume = format!("name: data, {}", target.source(0, ", portals: ['[::1]:3260']"));
    daemon.add("a.yaml", &pod("a", "uid-a", &[&volume]));
    daemon.wait_mounted("default/a");
    let number = guest.run("dmsetup info -c --noheadings -o major,minor mpathtest").trim().to_owned();
    let mounts = daemon.mounts();
    assert!(
        mounts.iter().any(|mount| mount.contains(ISCSI) && mount.contains(&format!(" {number} "))),
        "{number}: {mounts:#?}"
    );
    assert_eq!(target.sessions(), 2, "none was added");
    let place = format!("{}/root/pods/uid-a/volumes/{ISCSI}/data", daemon.folder());
    guest.run(&format!("echo kept >{place}/word; sync -f {place}"));
    daemon.remove("a.yaml");
    daemon.wait_unmounted("default/a");
    assert!(eventually(|| daemon.mounts().is_empty()));
    assert_eq!(
        (target.sessions(), guest.run("dmsetup info -c --noheadings -o name mpathtest")),
        (2, "mpathtest\n".to_owned())
    );

    // The same sessions as volhost makes them.
    guest.run(&format!("iscsiadm -m node -T {name} -o update -n node.session.scan -v manual"));
    daemon.add("a.yaml", &pod("a", "uid-b", &[&volume]));
    daemon.wait_mounted("default/a");
    assert_eq!(guest.run(&format!("cat {}/word", place.replace("uid-a", "uid-b"))), "kept\n");
    daemon.remove("a.yaml");
    daemon.wait_unmounted("default/a");
    target.assert_unused();
    assert_eq!(guest.run("dmsetup ls | grep -c mpathtest || true"), "0\n");
    daemon.assert_clean();
    daemon.kill();
}

#[test]
fn a_unit_is_attached_and_mounted_beside_iscsiadm_and_mount() {
    let target = Target::start("latency");
    let (guest, name) = (&target.guest, &target.name);
    target.unit(0, 16 << 20);
    // It is formatted by hand, with what a small unit needs.
    let by_hand = guest.run(&format!(
        "{DISKS}
         mke2fs -q -F -t ext4 $(cat /run/latency-0); mkdir -p /run/by-hand
         begun=$(date +%s%N)
         iscsiadm -m node -T {name} -p 127.0.0.1:3260 -o new >/dev/null
         iscsiadm -m node -T {name} -p 127.0.0.1:3260 --login >/dev/null
         while [ -z \"$(disks {name} 2>/dev/null)\" ]; do :; done
         mount /dev/$(disks {name}) /run/by-hand
         echo $(($(date +%s%N) - begun))
         umount /run/by-hand
         iscsiadm -m node -T {name} -u >/dev/null; iscsiadm -m node -T {name} -o delete"
    ));
    target.assert_unused();
    let daemon = target.daemon("iscsi-latency");
    let manifest = pod("a", "uid-a", &[&format!("name: data, {}", target.source(0, ""))]);
    // The plugin is compiled by this.
    daemon.add("first.yaml", &manifest.replace("uid-a", "uid-first"));
    daemon.wait_mounted("default/a");
    daemon.remove("first.yaml");
    daemon.wait_unmounted("default/a");
    target.assert_unused();
    let folder = daemon.folder();
    let place = format!("{folder}/root/pods/uid-a/volumes/{ISCSI}/data");
    let by_volhost = guest.run(&format!(
        "cat >{folder}/a.yaml <<'END'\n{manifest}\nEND
         begun=$(date +%s%N)
         mv {folder}/a.yaml {folder}/manifests/
         while ! grep -q ' {place} ' /proc/self/mountinfo; do :; done
         echo $(($(date +%s%N) - begun))"
    ));
    let milliseconds = |text: &str| text.trim().parse::<f64>().unwrap() / 1e6;
    figures::show(&format!(
        "a unit of iSCSI is attached and mounted in the guest in {:.0} ms by iscsiadm and mount, {:.0} ms by volhost",
        milliseconds(&by_hand),
        milliseconds(&by_volhost)
    ));
    daemon.wait_mounted("default/a");
    daemon.remove("a.yaml");
    daemon.wait_unmounted("default/a");
    target.assert_unused();
    daemon.assert_clean();
    daemon.kill();
}
