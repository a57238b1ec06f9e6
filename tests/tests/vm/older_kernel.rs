//! Linux 6.1 has neither `statmount` nor `listmount`, and mounts that are not yet visible are
//! less able than today's.

use volhost_tests::vm::Guest;

use crate::kit::Daemon;

const PODS: &str = include_str!("pods.yaml");

#[test]
fn volumes_are_mounted_adopted_after_a_kill_and_unmounted_without_statmount() {
    let guest = Guest::borrow();
    assert!(guest.run("uname -r").starts_with("6.1."), "Debian 12's kernel");
    let daemon = Daemon::start(&guest, "older", &["empty-dir", "host-path", "loop"]);
    let folder = daemon.folder();
    guest.run(&format!("truncate -s 64M {folder}/data/image; echo shown >{folder}/data/word"));
    daemon.add("pods.yaml", &PODS.replace("$DATA", &format!("{folder}/data")));
    daemon.wait_mounted("default/web");

    let volumes = format!("{folder}/root/pods/11111111-1111-4111-8111-111111111111/volumes");
    guest.run(&format!("echo kept >{volumes}/kubernetes.io~empty-dir/disk/word"));
    guest.run(&format!("echo kept >{volumes}/kubernetes.io~empty-dir/memory/word"));
    guest.run(&format!("echo kept >{volumes}/volhost.io~loop/image-pv/word"));
    assert_eq!(guest.run(&format!("cat {volumes}/kubernetes.io~host-path/shown/word")), "shown\n");
    let before = daemon.mounts();

    daemon.kill();
    daemon.run();
    daemon.wait_mounted("default/web");
    assert_eq!(daemon.mounts(), before, "the same mounts, each with its id");
    for place in ["kubernetes.io~empty-dir/memory", "kubernetes.io~empty-dir/disk", "volhost.io~loop/image-pv"] {
        assert_eq!(guest.run(&format!("cat {volumes}/{place}/word")), "kept\n", "{place}");
    }

    daemon.remove("pods.yaml");
    daemon.wait_unmounted("default/web");
    let drained = daemon.volhost("drain");
    assert!(drained.succeeded(), "{drained:?}");
    daemon.assert_clean();
    daemon.kill();
}
