//! Fibre Channel: the guest's kernel is adapter, fabric and target.

use volhost_tests::manifests::{device_pod, pod};
use volhost_tests::wait::eventually;

use crate::fc_target::{FC, Fabric, PORTS, at};
use crate::kit::claimed;
use crate::suite;

/// The case file of the conformance suite.
const CASE: &str = include_str!("../../conformance/fc.yaml");
/// The cases that run in the guest: it computes slowly.
const CASES: [&str; 2] = ["publish/is-mounted", "stage/crash-then-undo"];

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[test]
fn units_are_found_by_port_or_name_and_removed_with_their_last_pod_though_the_daemon_was_killed() {
    let fabric = Fabric::start(&[(0, 64 << 20), (3, 32 << 20)]);
    let guest = &fabric.guest;
    let name = fabric.name(3);
    assert!(name.starts_with("36001405"), "{name}");
    let daemon = fabric.daemon("fc");
    // As people write it.
    let port = format!("0x{}", PORTS[0].to_uppercase());
    let a = at(&[&port, PORTS[1]], 0, "");
    daemon.add("a.yaml", &pod("a", "uid-a", &[&format!("name: data, {a}")]));
    let raw = |size: &str| claimed("raw", size, "Block", &format!("fc: {{ wwids: ['{name}'] }}"));
    daemon.add("raw.yaml", &format!("{}{}", raw("32Mi"), device_pod("raw", "uid-raw", "raw")));
    daemon.wait_mounted("default/a");
    daemon.wait_mounted("default/raw");
    assert_eq!(fabric.units(), words(&["0", "0", "3", "3"]));
    let place = |uid: &str| format!("{}/root/pods/{uid}/volumes/{FC}/data", daemon.folder());
    guest.run(&format!("echo kept >{0}/word; sync -f {0}", place("uid-a")));
    let device = format!("{}/root/pods/uid-raw/volumeDevices/{FC}/raw", daemon.folder());
    // Not flushed: volhost has to do it before it removes the device.
    guest.run(&format!("echo raw | dd of={device} status=none"));

    // The target enlarges the unit, then the PersistentVolume says so.
    fabric.grow(3, 48 << 20);
    daemon.add("raw.yaml", &format!("{}{}", raw("48Mi"), device_pod("raw", "uid-raw", "raw")));
    guest.run(&format!(
        "for turn in $(seq 600); do [ $(blockdev --getsize64 {device}) = {} ] && exit; read -t 0.1 line </dev/zero || true; done; exit 1",
        48 << 20
    ));

    daemon.kill();
    daemon.remove("a.yaml");
    daemon.run();
    daemon.wait_unmounted("default/a");
    assert!(eventually(|| fabric.units() == words(&["3", "3"])), "{:?}", fabric.units());
    daemon.remove("raw.yaml");
    daemon.wait_unmounted("default/raw");
    assert!(eventually(|| fabric.units().is_empty()), "{:?}", fabric.units());
    daemon.assert_clean();
    assert_eq!(guest.run("head -c 3 /disk/units/unit-3.img"), "raw");

    // The adapters look for the unit again. What was written is there, and one pod may only read it.
    daemon.add("a.yaml", &pod("a", "uid-c", &[&format!("name: data, {}", at(&PORTS[1..], 0, ", readOnly: true"))]));
    daemon.wait_mounted("default/a");
    assert!(fabric.units().iter().all(|lun| lun == "0"), "no other unit: {:?}", fabric.units());
    assert_eq!(guest.run(&format!("cat {}/word", place("uid-c"))), "kept\n");
    let refused = guest.try_run(&format!("echo x >{}/word", place("uid-c")));
    assert!(refused.error.contains("Read-only file system"), "{refused:?}");

    // What is not there is named.
    for (pod_name, ports, lun) in [("lun", PORTS[0], 9), ("port", "50060e801049cfd1", 0)] {
        let volume = format!("name: data, {}", at(&[ports], lun, ""));
        daemon.add(&format!("{pod_name}.yaml"), &pod(pod_name, &format!("uid-{pod_name}"), &[&volume]));
    }
    daemon.wait_event(&["FailedMount", "pod default/lun", "the target has no LUN 9"]);
    daemon.wait_event(&["FailedMount", "pod default/port", "no adapter of this node sees the port"]);
    for name in ["a", "lun", "port"] {
        daemon.remove(&format!("{name}.yaml"));
        daemon.wait_unmounted(&format!("default/{name}"));
    }
    daemon.assert_clean();
    daemon.kill();

    // The suite, on the same fabric.
    suite::check(guest, "fc", CASE, &CASES);
}

#[test]
fn a_multipath_map_over_two_ports_is_used_and_removed_with_both_paths_though_one_is_named() {
    let fabric = Fabric::start(&[(1, 64 << 20), (2, 16 << 20)]);
    let guest = &fabric.guest;
    let disks = fabric.disks(1);
    assert_eq!(disks.len(), 2, "{disks:?}");
    // The map is dmsetup's: multipathd needs udev, which the guest lacks.
    guest.run(&format!(
        "modprobe dm_multipath; modprobe dm_round_robin
         paths=; for disk in {}; do paths=\"$paths $(cat /sys/block/$disk/dev) 1000\"; done
         dmsetup create mpathfc --uuid mpath-volhost-fc \\
             --table \"0 $((64 << 11)) multipath 0 0 1 1 round-robin 0 2 1$paths\"",
        disks.join(" ")
    ));
    let daemon = fabric.daemon("fc-paths");
    daemon.add("a.yaml", &pod("a", "uid-a", &[&format!("name: data, {}", at(&PORTS[..1], 1, ""))]));
    daemon.wait_mounted("default/a");
    let number = guest.run("dmsetup info -c --noheadings -o major,minor mpathfc").trim().to_owned();
    let mounts = daemon.mounts();
    assert!(
        mounts.iter().any(|mount| mount.contains(FC) && mount.contains(&format!(" {number} "))),
        "{number}: {mounts:#?}"
    );
    let place = format!("{}/root/pods/uid-a/volumes/{FC}/data", daemon.folder());
    guest.run(&format!("echo kept >{place}/word; sync -f {place}"));
    // One path goes.
    guest.run("ip link set f0 down");
    guest.run(&format!("echo more >>{place}/word; sync -f {place}; cat {place}/word"));
    guest.run("ip link set f0 up");
    let back = "cat /sys/class/fc_remote_ports/*/port_state | grep -c Online || true";
    assert!(
        eventually(|| guest.run(back).trim() == "4"),
        "{}",
        guest.run("cat /sys/class/fc_remote_ports/*/port_state")
    );
    daemon.remove("a.yaml");
    daemon.wait_unmounted("default/a");
    assert!(eventually(|| fabric.units() == words(&["2", "2"])), "{:?}", fabric.units());
    assert_eq!(guest.run("dmsetup ls | grep -c mpathfc || true"), "0\n");
    daemon.add("a.yaml", &pod("a", "uid-b", &[&format!("name: data, {}", at(&PORTS, 1, ""))]));
    daemon.wait_mounted("default/a");
    assert_eq!(guest.run(&format!("cat {}/word", place.replace("uid-a", "uid-b"))), "kept\nmore\n");
    daemon.remove("a.yaml");
    daemon.wait_unmounted("default/a");
    daemon.assert_clean();
    daemon.kill();
}
