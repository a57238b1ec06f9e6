//! Folders of a share, made for claims.

use crate::csi_driver::CsiDriver;
use crate::kit::Daemon;
use crate::nfs_server::Server;
use crate::suite;

const SHARE: &str = "/disk/exports/claims";

/// A class of folders on the share, as one of this driver.
fn class(name: &str, driver: &str, more: &str) -> String {
    format!(
        "apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{ name: {name} }}
provisioner: {driver}
allowVolumeExpansion: true
parameters: {{ server: nas, share: {SHARE}{more} }}
---
"
    )
}

/// A claim of a class, and the pod `NAME` that mounts it.
fn claim_and_pod(name: &str, class: &str) -> String {
    format!(
        "apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{ name: {name}, uid: {name}-uid }}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: {class}
  resources: {{ requests: {{ storage: 16Mi }} }}
---
{}",
        pod_of(name)
    )
}

fn pod_of(name: &str) -> String {
    let volume = format!("name: data, persistentVolumeClaim: {{ claimName: {name} }}");
    volhost_tests::manifests::pod(name, &format!("uid-{name}"), &[&volume])
}

fn server() -> Server {
    let server = Server::start();
    server.guest.run(&format!("rm -rf {SHARE}; mkdir -p {SHARE}"));
    server.export("claims");
    server
}

/// What lies on the share, without records, two levels deep.
fn on_the_share(server: &Server) -> Vec<String> {
    let found =
        server.guest.run(&format!("cd {SHARE}; find . -mindepth 1 -maxdepth 2 ! -path './.volhost*' | LC_ALL=C sort"));
    found.lines().map(|line| line.trim_start_matches("./").to_owned()).collect()
}

/// The records and marks of volumes.
fn records(server: &Server) -> Vec<String> {
    let found = server.guest.run(&format!("cd {SHARE}/.volhost; find . -mindepth 2 | LC_ALL=C sort"));
    found.lines().map(str::to_owned).collect()
}

fn write(daemon: &Daemon<'_>, server: &Server, name: &str) {
    let volumes = format!("{}/root/pods/uid-{name}/volumes", daemon.folder());
    server.guest.run(&format!("echo {name} >$(echo {volumes}/*/*)/word"));
}

/// Deletes claims and pod, and waits until the volume is gone.
fn delete(daemon: &Daemon<'_>, name: &str) {
    daemon.remove(&format!("{name}.yaml"));
    daemon.wait_unmounted(&format!("default/{name}"));
    let deleted = daemon.volhost(&format!("delete pvc {name}"));
    assert!(deleted.succeeded(), "{deleted:?}");
}

#[test]
fn a_claim_gets_a_folder_of_a_share_which_is_deleted_kept_or_archived() {
    let server = server();
    let daemon = Daemon::start_with(&server.guest, "claims", &["empty-dir", "nfs"], "--provision");
    let pattern = ", pathPattern: '${pvc.namespace}/${pvc.name}'";
    let classes = [
        class("gone", "nfs.volhost.io", pattern),
        class("kept", "nfs.volhost.io", &format!("{pattern}, onDelete: retain")),
        class("archived", "nfs.volhost.io", ", onDelete: archive"),
        class("outside", "nfs.volhost.io", ", pathPattern: '../${pvc.name}'"),
    ];
    daemon.add("classes.yaml", &classes.concat());
    for (name, class) in [("a", "gone"), ("b", "kept"), ("c", "archived")] {
        daemon.add(&format!("{name}.yaml"), &claim_and_pod(name, class));
        daemon.wait_mounted(&format!("default/{name}"));
        write(&daemon, &server, name);
    }
    let archived = "default-c-pvc-c-uid";
    assert_eq!(on_the_share(&server), ["default", archived, &format!("{archived}/word"), "default/a", "default/b"]);
    assert_eq!(server.guest.run(&format!("cat {SHARE}/default/a/word; stat -c %a {SHARE}/default/a")), "a\n777\n");
    let mount = daemon.mounts();
    assert!(mount.iter().any(|mount| mount.contains("nas:/disk/exports/claims/default/a")), "{mount:#?}");

    // A name that would leave the share, and a folder that belongs to another volume.
    daemon.add("x.yaml", &claim_and_pod("x", "outside"));
    daemon.wait_event(&["default/x", "parameters.pathPattern", "must be relative to the share"]);
    daemon.add(
        "same.yaml",
        &format!("{}{}", class("same", "nfs.volhost.io", ", pathPattern: default/a"), claim_and_pod("y", "same")),
    );
    daemon.wait_event(&["default/y", "is the folder of volume", "pvc-a-uid"]);
    for name in ["x", "same"] {
        daemon.remove(&format!("{name}.yaml"));
    }

    for name in ["a", "b", "c"] {
        delete(&daemon, name);
    }
    let gone = || {
        on_the_share(&server)
            == ["archived-default-c-pvc-c-uid", "archived-default-c-pvc-c-uid/word", "default", "default/b"]
    };
    assert!(volhost_tests::wait::eventually(gone), "{:?}\n{}", on_the_share(&server), daemon.log());
    assert_eq!(server.guest.run(&format!("cat {SHARE}/default/b/word {SHARE}/archived-*/word")), "b\nc\n");
    assert!(volhost_tests::wait::eventually(|| records(&server).is_empty()), "{:?}", records(&server));

    // The folder that was kept goes to the next claim of its name.
    daemon.add("b.yaml", &claim_and_pod("b", "kept").replace("b-uid", "b2-uid"));
    daemon.wait_mounted("default/b");
    let volumes = format!("{}/root/pods/uid-b/volumes", daemon.folder());
    assert_eq!(server.guest.run(&format!("cat $(echo {volumes}/*/*)/word")), "b\n");
    daemon.remove("b.yaml");
    daemon.wait_unmounted("default/b");
    daemon.assert_clean();
    daemon.kill();
}

#[test]
fn the_same_plugin_makes_volumes_as_a_csi_driver() {
    let server = server();
    let guest = &server.guest;
    let driver = CsiDriver::start(guest, "nfs", "by-csi");
    let daemon = Daemon::start_with(guest, "by-csi", &["csi"], "--provision --plugin-registry /run/nfs-csi");
    daemon.add("class.yaml", &class("folders", "nfs.volhost.io", ""));
    daemon.add("a.yaml", &claim_and_pod("a", "folders"));
    daemon.wait_mounted("default/a");
    // The kubelet's place for the volumes of a CSI driver.
    let mounted = format!("{}/root/pods/uid-a/volumes/kubernetes.io~csi/pvc-a-uid/mount", daemon.folder());
    guest.run(&format!("mountpoint -q {mounted}; echo a >{mounted}/word"));
    assert_eq!(on_the_share(&server), ["pvc-a-uid", "pvc-a-uid/word"]);
    delete(&daemon, "a");
    let gone = || on_the_share(&server).is_empty() && records(&server).is_empty();
    assert!(volhost_tests::wait::eventually(gone), "{:?}\n{}", on_the_share(&server), daemon.log());
    daemon.assert_clean();
    daemon.kill();
    driver.stop();
}

#[test]
fn the_controller_follows_the_contract_on_a_real_share() {
    /// The cases that run in the guest, which computes slowly.
    const CASES: [&str; 8] = [
        "create/is-found",
        "create/conflict",
        "create/unknown-parameter",
        "create/crash-then-repeat",
        "delete/crash-then-repeat",
        "delete/gone",
        "list-volumes/pages",
        "expand-volume/grows",
    ];
    let server = Server::start();
    server.export_and_mount("conformance");
    suite::check(&server.guest, "nfs", include_str!("../../conformance/nfs.yaml"), &CASES);
    server.unmount("conformance");
}
