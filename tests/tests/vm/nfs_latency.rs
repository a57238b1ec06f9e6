//! What it costs to mount a share.

use volhost_tests::figures;
use volhost_tests::manifests::pod;

use crate::nfs_server::{EXPORTS, Server, inline};

/// How many mounts are measured.
const MOUNTS: usize = 10;

#[test]
fn shares_are_mounted_and_unmounted_again_and_again_beside_mount_nfs() {
    let server = Server::start();
    let guest = &server.guest;
    let daemon = server.daemon("latency");
    // Both keep the connection: another mount of the share exists.
    daemon.add("keeper.yaml", &pod("keeper", "uid-keeper", &[&inline("share", "127.0.0.1", "")]));
    daemon.wait_mounted("default/keeper");
    let by_hand = guest.run(&format!(
        "mkdir -p /run/by-hand; begun=$(date +%s%N)
         for turn in $(seq {MOUNTS}); do
             mount -t nfs -o vers=4.2 127.0.0.1:{EXPORTS}/share /run/by-hand; umount /run/by-hand
         done
         echo $((($(date +%s%N) - begun) / {MOUNTS}))"
    ));
    let volumes: Vec<String> = (0..MOUNTS).map(|at| inline(&format!("v{at}"), "127.0.0.1", "")).collect();
    let volumes: Vec<&str> = volumes.iter().map(String::as_str).collect();
    let manifest = pod("many", "uid-many", &volumes);
    let folder = daemon.folder();
    // `volhost wait` has no part in it.
    let mounts = format!("grep -c ' {folder}/root/pods/uid-many/' /proc/self/mountinfo || true");
    let by_volhost = guest.run(&format!(
        "cat >{folder}/many.yaml <<'END'\n{manifest}\nEND
         begun=$(date +%s%N)
         mv {folder}/many.yaml {folder}/manifests/
         while [ $({mounts}) != {MOUNTS} ]; do :; done
         rm {folder}/manifests/many.yaml
         while [ $({mounts}) != 0 ]; do :; done
         echo $((($(date +%s%N) - begun) / {MOUNTS}))"
    ));
    let milliseconds = |text: &str| text.trim().parse::<f64>().unwrap() / 1e6;
    figures::show(&format!(
        "a mount and unmount of NFS in the guest: {:.1} ms by mount.nfs and umount, {:.1} ms a volume by volhost (a pod of {MOUNTS})",
        milliseconds(&by_hand),
        milliseconds(&by_volhost)
    ));
    daemon.remove("keeper.yaml");
    for pod in ["default/many", "default/keeper"] {
        daemon.wait_unmounted(pod);
    }
    daemon.assert_clean();
    daemon.kill();
}
