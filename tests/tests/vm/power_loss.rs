//! The machine ends between two instructions, with volumes mounted.

use volhost_tests::vm::Guest;

use crate::kit::Daemon;

const PODS: &str = include_str!("pods.yaml");

#[test]
fn a_machine_that_loses_its_power_mounts_the_volumes_again_with_what_was_synced() {
    let mut guest = Guest::start();
    let name = "power";
    {
        let daemon = Daemon::start(&guest, name, &["empty-dir", "host-path", "loop"]);
        let folder = daemon.folder();
        guest.run(&format!("truncate -s 64M {folder}/data/image; echo shown >{folder}/data/word"));
        daemon.add("pods.yaml", &PODS.replace("$DATA", &format!("{folder}/data")));
        daemon.wait_mounted("default/web");
        let volumes = format!("{folder}/root/pods/11111111-1111-4111-8111-111111111111/volumes");
        guest.run(&format!(
            "echo kept >{volumes}/kubernetes.io~empty-dir/disk/word
             echo gone >{volumes}/kubernetes.io~empty-dir/memory/word
             echo kept >{volumes}/volhost.io~loop/image-pv/word; sync"
        ));
    }
    guest.lose_power();

    let daemon = Daemon::start_again(&guest, name);
    daemon.wait_mounted("default/web");
    let volumes = format!("{}/root/pods/11111111-1111-4111-8111-111111111111/volumes", daemon.folder());
    assert_eq!(guest.run(&format!("cat {volumes}/kubernetes.io~empty-dir/disk/word")), "kept\n");
    assert_eq!(guest.run(&format!("cat {volumes}/volhost.io~loop/image-pv/word")), "kept\n");
    // Memory does not outlive the machine; the volume is there, and empty.
    assert_eq!(guest.run(&format!("ls {volumes}/kubernetes.io~empty-dir/memory")), "");
    assert_eq!(daemon.mounts().iter().filter(|mount| mount.contains("~empty-dir/memory")).count(), 1);

    daemon.remove("pods.yaml");
    daemon.wait_unmounted("default/web");
    let drained = daemon.volhost("drain");
    assert!(drained.succeeded(), "{drained:?}");
    daemon.assert_clean();
}
