//! Shares of the kernel's own NFS server, in the same guest.

use volhost_tests::manifests::pod;

use crate::kit::Daemon;
use crate::nfs_server::{EXPORTS, NFS, Server, inline};
use crate::suite;

/// The case file of the conformance suite.
const CASE: &str = include_str!("../../conformance/nfs.yaml");
/// The cases that run in the guest.
const CASES: [&str; 6] = [
    "publish/is-mounted",
    "publish/two-pods-at-once",
    "publish/read-only",
    "publish/mount-options",
    "publish/crash-then-undo",
    "unpublish/gone",
];
/// A PersistentVolume of a folder of the share, and its claim, both of this name.
fn claimed(name: &str, options: &str, server: &str) -> String {
    format!(
        "apiVersion: v1
kind: PersistentVolume
metadata: {{ name: {name} }}
spec:
  capacity: {{ storage: 1Gi }}
  accessModes: [ReadWriteMany]
  storageClassName: ''
  mountOptions: [{options}]
  nfs: {{ server: '{server}', path: {EXPORTS}/share }}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{ name: {name} }}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: ''
  volumeName: {name}
  resources: {{ requests: {{ storage: 1Gi }} }}
---
"
    )
}

/// The entry of a pod's volume for a claim.
fn of_claim(name: &str) -> String {
    format!("name: {name}, persistentVolumeClaim: {{ claimName: {name} }}")
}

/// The mount of a pod's volume, as `/proc/self/mountinfo` has it.
fn mount_of(daemon: &Daemon<'_>, uid: &str, volume: &str) -> String {
    let place = format!("/pods/{uid}/volumes/{NFS}/{volume} ");
    let mounts = daemon.mounts();
    mounts.iter().find(|mount| mount.contains(&place)).cloned().unwrap_or_else(|| panic!("{volume}: {mounts:#?}"))
}

#[test]
fn shares_are_mounted_by_each_version_with_their_options_and_leave_nothing() {
    let server = Server::start();
    let guest = &server.guest;
    guest.run(&format!("mkdir -p {EXPORTS}/share/inner; echo inner >{EXPORTS}/share/inner/word"));
    let daemon = server.daemon("nfs");
    let claims = [
        claimed("old", "nfsvers=3", "nas"),
        claimed("six", "nfsvers=3", "::1"),
        claimed("tuned", "'vers=4.1,timeo=77', noatime, nosuid, _netdev", "127.0.0.1"),
    ];
    let volumes = [
        inline("newest", "nas", ""),
        inline("fixed", "127.0.0.1", ", readOnly: true"),
        of_claim("old"),
        of_claim("six"),
        of_claim("tuned"),
    ];
    let volumes: Vec<&str> = volumes.iter().map(String::as_str).collect();
    let web = pod("web", "uid-web", &volumes).replace(
        "{ name: newest, mountPath: /newest }",
        "{ name: newest, mountPath: /newest, subPath: inner }\n        - { name: newest, mountPath: /made, subPath: made/deep }",
    );
    daemon.add("web.yaml", &format!("{}{web}", claims.concat()));
    daemon.wait_mounted("default/web");

    for (volume, words) in [
        ("newest", &["/disk/exports/share", "vers=4.2"][..]),
        ("six", &["vers=3", "mountaddr=::1", "proto=tcp6"]),
        ("fixed", &["vers=4.2", " ro,"]),
        ("old", &["vers=3", "nolock"]),
        ("tuned", &["vers=4.1", "timeo=77", "noatime", "nosuid"]),
    ] {
        let mount = mount_of(&daemon, "uid-web", volume);
        assert!(words.iter().all(|word| mount.contains(word)), "{volume} {words:?}: {mount}");
    }
    let at = |volume: &str| format!("{}/root/pods/uid-web/volumes/{NFS}/{volume}", daemon.folder());
    for volume in ["newest", "six", "old", "tuned"] {
        guest.run(&format!("echo {volume} >{}/from-{volume}", at(volume)));
        assert_eq!(guest.run(&format!("cat {EXPORTS}/share/from-{volume}")), format!("{volume}\n"));
    }
    let part = |index: usize| format!("{}/root/pods/uid-web/volume-subpaths/newest/main/{index}", daemon.folder());
    assert_eq!(guest.run(&format!("cat {}/word", part(0))), "inner\n");
    guest.run(&format!("echo deep >{}/word", part(1)));
    assert_eq!(guest.run(&format!("cat {EXPORTS}/share/made/deep/word")), "deep\n");
    let refused = guest.try_run(&format!("echo x >{}/refused", at("fixed")));
    assert!(refused.error.contains("Read-only file system"), "{refused:?}");
    assert_eq!(guest.run(&format!("cat {}/from-old", at("fixed"))), "old\n", "the same share");

    daemon.remove("web.yaml");
    daemon.wait_unmounted("default/web");
    daemon.assert_clean();
    assert_eq!(guest.run("grep -c ' nfs4* ' /proc/mounts || true"), "0\n");
    daemon.kill();
}

#[test]
fn an_older_version_is_told_in_words_and_none_is_used_that_was_not_asked_for() {
    let server = Server::start();
    server.serve("-V 3 -N 4.2");
    let daemon = server.daemon("older");
    daemon.add("any.yaml", &pod("any", "uid-any", &[&inline("share", "::1", "")]));
    daemon.wait_mounted("default/any");
    let mount = mount_of(&daemon, "uid-any", "share");
    assert!(mount.contains("vers=4.1") && mount.contains("addr=::1"), "{mount}");
    daemon.wait_event(&["OlderNfsVersion", "[::1]:/disk/exports/share is mounted by NFS 4.1", "does not speak 4.2"]);
    let pinned = format!("{}{}", claimed("pinned", "vers=4.2", "nas"), pod("pinned", "uid-p", &[&of_claim("pinned")]));
    daemon.add("pinned.yaml", &pinned);
    daemon.wait_event(&["FailedMount", "pod default/pinned", "be mounted by NFS 4.2", "does not speak this version"]);

    server.serve("-V 3");
    daemon.wait_mounted("default/pinned");
    for name in ["any", "pinned"] {
        daemon.remove(&format!("{name}.yaml"));
        daemon.wait_unmounted(&format!("default/{name}"));
    }
    daemon.assert_clean();
    daemon.kill();
}

#[test]
fn a_server_that_is_gone_is_named_and_its_volumes_alone_wait_for_it() {
    let server = Server::start();
    let guest = &server.guest;
    let daemon = server.daemon("gone");
    server.stop();

    // At the mount: the cause, a retry, and no harm to another.
    let share = format!("{}{}", claimed("share", "", "nas"), pod("a", "uid-a", &[&of_claim("share")]));
    daemon.add("a.yaml", &share);
    daemon.wait_event(&["FailedMount", "pod default/a", "nas:/disk/exports/share", "port 2049", "ECONNREFUSED"]);
    daemon.add("b.yaml", &pod("b", "uid-b", &["name: scratch, emptyDir: {}"]));
    daemon.wait_mounted("default/b");
    server.serve("-V 3");
    daemon.wait_mounted("default/a");
    let volume = format!("{}/root/pods/uid-a/volumes/{NFS}/share", daemon.folder());
    guest.run(&format!("echo kept >{volume}/word; sync -f {volume}"));

    // While it is mounted; the kernel waits for the server for three minutes then.
    server.stop();
    daemon.remove("b.yaml");
    daemon.wait_unmounted("default/b");
    daemon.add("c.yaml", &pod("c", "uid-c", &["name: memory, emptyDir: { medium: Memory }"]));
    daemon.wait_mounted("default/c");
    daemon.remove("a.yaml");
    daemon.wait_unmounted("default/a");

    // A folder that is made again is another one.
    server.serve("-V 3");
    daemon.add("a.yaml", &share);
    daemon.wait_mounted("default/a");
    assert_eq!(guest.run(&format!("cat {volume}/word")), "kept\n");
    guest.run(&format!("exportfs -u '*:{EXPORTS}/share'; rm -r {EXPORTS}/share; mkdir {EXPORTS}/share"));
    server.serve("-V 3");
    server.export("share");
    let stale = guest.try_run(&format!("cat {volume}/word"));
    assert!(stale.error.contains("Stale file handle"), "{stale:?}");
    daemon.remove("a.yaml");
    daemon.wait_unmounted("default/a");
    daemon.add("a.yaml", &share);
    daemon.wait_mounted("default/a");
    guest.run(&format!("echo new >{volume}/word"));

    for name in ["a", "c"] {
        daemon.remove(&format!("{name}.yaml"));
        daemon.wait_unmounted(&format!("default/{name}"));
    }
    daemon.assert_clean();
    daemon.kill();
}

#[test]
fn the_plugin_follows_the_contract_on_a_real_share() {
    let server = Server::start();
    server.export_and_mount("conformance");
    suite::check(&server.guest, "nfs", CASE, &CASES);
    server.unmount("conformance");
}
