//! The machine ends between two instructions, with volumes mounted and in the middle of operations,
//! and is rebooted. All of it in one guest: a new one would need a boot more.

use volhost_tests::vm::Guest;

use crate::kit::Daemon;

const PODS: &str = include_str!("pods.yaml");

/// The daemon's name, and the folder of its pod's volumes.
const NAME: &str = "power";
const VOLUMES: &str = "/disk/power/root/pods/11111111-1111-4111-8111-111111111111/volumes";
/// How long a moment is waited for, in seconds.
const AT_MOST: u32 = 100;

#[test]
fn a_machine_that_loses_its_power_mounts_the_volumes_again_with_what_was_synced() {
    let mut guest = Guest::start();
    let daemon = Daemon::start(&guest, NAME, &["empty-dir", "host-path", "loop"]);
    let folder = daemon.folder();
    guest.run(&format!("truncate -s 64M {folder}/data/image; echo shown >{folder}/data/word"));
    daemon.add("pods.yaml", &PODS.replace("$DATA", &format!("{folder}/data")));
    daemon.wait_mounted("default/web");
    guest.run(&format!(
        "echo kept >{VOLUMES}/kubernetes.io~empty-dir/disk/word
         echo gone >{VOLUMES}/kubernetes.io~empty-dir/memory/word
         echo kept >{VOLUMES}/volhost.io~loop/image-pv/word; sync"
    ));
    guest.lose_power();
    check_mounted_again(&guest);

    unmounting_is_finished(&mut guest);
    formatting_begins_anew(&mut guest);
    staging_is_finished(&mut guest);

    guest.run(&format!(
        "echo kept >{VOLUMES}/kubernetes.io~empty-dir/disk/word
         echo gone >{VOLUMES}/kubernetes.io~empty-dir/memory/word"
    ));
    guest.reboot();
    let daemon = check_mounted_again(&guest);
    daemon.remove("pods.yaml");
    assert_nothing_is_left(&daemon);
    guest.run(&format!("e2fsck -fn {folder}/data/image"));
}

/// Starts the daemon after a boot, and checks the pod's volumes: those on disk as they were, that in
/// memory new.
fn check_mounted_again(guest: &Guest) -> Daemon<'_> {
    let daemon = Daemon::start_again(guest, NAME);
    daemon.wait_mounted("default/web");
    for place in ["kubernetes.io~empty-dir/disk", "volhost.io~loop/image-pv"] {
        assert_eq!(guest.run(&format!("cat {VOLUMES}/{place}/word")), "kept\n", "{place}");
    }
    // Memory does not outlive the machine; the volume is there, and empty.
    assert_eq!(guest.run(&format!("ls {VOLUMES}/kubernetes.io~empty-dir/memory")), "");
    assert_eq!(daemon.mounts().iter().filter(|mount| mount.contains("~empty-dir/memory")).count(), 1);
    daemon
}

fn assert_nothing_is_left(daemon: &Daemon<'_>) {
    daemon.wait_unmounted("default/web");
    let drained = daemon.volhost("drain");
    assert!(drained.succeeded(), "{drained:?}");
    daemon.assert_clean();
}

/// Begins an operation, and returns as soon as a command succeeds: in the middle of it.
fn run_until(guest: &Guest, begin: &str, moment: &str) {
    guest.run(&format!(
        "{begin}; read -r begun rest </proc/uptime
         until {moment}; do read -r now rest </proc/uptime; [ ${{now%.*}} -lt $((${{begun%.*}} + {AT_MOST})) ]; done"
    ));
}

/// The pod is removed, and the power fails when the first of its volumes is unmounted.
fn unmounting_is_finished(guest: &mut Guest) {
    let folder = format!("/disk/{NAME}");
    run_until(
        guest,
        &format!("mv {folder}/manifests/pods.yaml {folder}/; sync"),
        &format!("! grep -q ' {folder}/root/pods/[^ ]*~loop' /proc/self/mountinfo"),
    );
    guest.lose_power();
    let daemon = Daemon::start_again(guest, NAME);
    assert_nothing_is_left(&daemon);
    assert_eq!(guest.run(&format!("ls {folder}/root/pods; cat {folder}/data/word")), "shown\n");
    let ended = daemon.volhost("uncordon");
    assert!(ended.succeeded(), "{ended:?}");
}

/// A blank image is formatted, and the power fails when its first blocks are written.
fn formatting_begins_anew(guest: &mut Guest) {
    let folder = format!("/disk/{NAME}");
    run_until(
        guest,
        &format!(
            "rm {folder}/data/image; truncate -s 64M {folder}/data/image; mv {folder}/pods.yaml {folder}/manifests/; sync"
        ),
        &format!("test $(stat -c %b {folder}/data/image) -gt 0"),
    );
    guest.lose_power();
    let daemon = Daemon::start_again(guest, NAME);
    daemon.wait_mounted("default/web");
    guest.run(&format!("echo kept >{VOLUMES}/volhost.io~loop/image-pv/word; sync"));
    guest.run(&format!("mv {folder}/manifests/pods.yaml {folder}/"));
    daemon.wait_unmounted("default/web");
}

/// The power fails when the volume is staged.
fn staging_is_finished(guest: &mut Guest) {
    let folder = format!("/disk/{NAME}");
    run_until(
        guest,
        &format!("mv {folder}/pods.yaml {folder}/manifests/; sync"),
        &format!("grep -q ' {folder}/root/plugins/[^ ]*globalmount' /proc/self/mountinfo"),
    );
    guest.lose_power();
    let daemon = Daemon::start_again(guest, NAME);
    daemon.wait_mounted("default/web");
    assert_eq!(guest.run(&format!("cat {VOLUMES}/volhost.io~loop/image-pv/word")), "kept\n");
}
