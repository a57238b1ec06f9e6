//! Shares of Samba, in the same guest.

use volhost_tests::manifests::pod;

use crate::cifs_server::{CIFS, PASSWORD, SHARE, Server, inline, secret};
use crate::kit::Daemon;
use crate::suite;

/// The case file of the conformance suite.
const CASE: &str = include_str!("../../conformance/cifs.yaml");
/// The cases that run in the guest.
const CASES: [&str; 4] = ["publish/is-mounted", "publish/read-only", "publish/crash-then-undo", "unpublish/gone"];

/// A PersistentVolume of the share with the secret of a field of its own, and its claim, both of
/// this name.
fn claimed(name: &str, options: &str) -> String {
    format!(
        "apiVersion: v1
kind: PersistentVolume
metadata: {{ name: {name} }}
spec:
  capacity: {{ storage: 1Gi }}
  accessModes: [ReadWriteMany]
  storageClassName: ''
  mountOptions: [{options}]
  csi:
    driver: cifs.volhost.io
    volumeHandle: {name}
    nodeStageSecretRef: {{ name: login, namespace: default }}
    volumeAttributes: {{ source: '//::1/team', subDir: inner }}
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

fn place(daemon: &Daemon<'_>, pod: &str, volume: &str) -> String {
    format!("{}/root/pods/uid-{pod}/volumes/{CIFS}/{volume}", daemon.folder())
}

#[test]
fn a_share_is_mounted_with_its_secret_which_is_nowhere_else_and_leaves_nothing() {
    let server = Server::start();
    let guest = &server.guest;
    guest.run(&format!("mkdir -p {SHARE}/inner"));
    let daemon = server.daemon("cifs");
    daemon.add("secret.yaml", &secret("wrong-horse"));
    let volumes = [
        inline("own", "//127.0.0.1/team", ""),
        inline("fixed", "//127.0.0.1/team", ", readOnly: true"),
        "name: inner, persistentVolumeClaim: { claimName: inner }".to_owned(),
    ];
    let volumes: Vec<&str> = volumes.iter().map(String::as_str).collect();
    let web = pod("web", "uid-web", &volumes);
    daemon.add("web.yaml", &format!("{}{web}", claimed("inner", "vers=3.1.1, uid=1234, noexec")));
    let refused = "does not accept the user name, password or domain";
    daemon.wait_event(&["FailedMount", "pod default/web", "//127.0.0.1/team", refused, "EACCES"]);

    daemon.remove("secret.yaml");
    daemon.add("secret.yaml", &secret(PASSWORD));
    daemon.wait_mounted("default/web");
    guest.run(&format!(
        "echo own >{}/word; echo inner >{}/word",
        place(&daemon, "web", "own"),
        place(&daemon, "web", "inner")
    ));
    assert_eq!(guest.run(&format!("cat {SHARE}/word {SHARE}/inner/word")), "own\ninner\n");
    assert_eq!(guest.run(&format!("cat {}/word", place(&daemon, "web", "fixed"))), "own\n");
    let refused = guest.try_run(&format!("echo x >{}/refused", place(&daemon, "web", "fixed")));
    assert!(refused.error.contains("Read-only file system"), "{refused:?}");
    let mounts = daemon.mounts();
    let mount_of = |volume: &str| mounts.iter().find(|mount| mount.contains(&format!("/{CIFS}/{volume} "))).unwrap();
    for (volume, words) in [
        ("own", &[" - cifs //127.0.0.1/team ", "username=node", "uid=0"][..]),
        ("inner", &["addr=0000:0000:0000:0000:0000:0000:0000:0001", "uid=1234", "vers=3.1.1", "noexec", "nodfs"]),
        ("fixed", &[" ro,"]),
    ] {
        let mount = mount_of(volume);
        assert!(words.iter().all(|word| mount.contains(word)), "{volume} {words:?}: {mount}");
    }
    assert!(!mounts.concat().contains("horse"), "{mounts:#?}");

    daemon.remove("web.yaml");
    daemon.wait_unmounted("default/web");
    daemon.assert_clean();
    assert_eq!(guest.run("grep -c ' cifs ' /proc/mounts || true"), "0\n");
    let found = guest.run(&format!("grep -rlF -e horse {0}/root {0}/log || true", daemon.folder()));
    assert_eq!(found, "", "neither state, log nor record has the password");
    assert!(!daemon.volhost("events").output.contains("horse"));
    daemon.kill();
}

#[test]
fn what_the_server_lacks_and_a_server_that_is_gone_are_named_and_delay_no_other_volume() {
    let server = Server::start();
    let guest = &server.guest;
    let daemon = server.daemon("cifs-gone");
    daemon.add("secret.yaml", &secret(PASSWORD));
    daemon.add("none.yaml", &pod("none", "uid-none", &[&inline("none", "//127.0.0.1/none", "")]));
    daemon.wait_event(&[
        "FailedMount",
        "pod default/none",
        "//127.0.0.1/none",
        "the server has no such share",
        "ENOENT",
    ]);
    daemon.remove("none.yaml");
    daemon.add("a.yaml", &pod("a", "uid-a", &[&inline("team", "//127.0.0.1/team", "")]));
    daemon.wait_mounted("default/a");
    guest.run(&format!("echo kept >{0}/word; sync -f {0}", place(&daemon, "a", "team")));

    // While it is mounted.
    server.stop();
    daemon.add("b.yaml", &pod("b", "uid-b", &["name: scratch, emptyDir: {}"]));
    daemon.wait_mounted("default/b");
    daemon.remove("a.yaml");
    daemon.wait_unmounted("default/a");
    // At the mount.
    daemon.add("c.yaml", &pod("c", "uid-c", &[&inline("team", "//127.0.0.1/team", "")]));
    daemon.wait_event(&["FailedMount", "pod default/c", "//127.0.0.1/team", "port 445", "ECONNREFUSED"]);
    server.serve();
    daemon.wait_mounted("default/c");
    assert_eq!(guest.run(&format!("cat {}/word", place(&daemon, "c", "team"))), "kept\n");
    for name in ["b", "c"] {
        daemon.remove(&format!("{name}.yaml"));
        daemon.wait_unmounted(&format!("default/{name}"));
    }
    daemon.assert_clean();
    daemon.kill();
}

#[test]
fn the_plugin_follows_the_contract_on_a_real_share() {
    let server = Server::start();
    let guest = &server.guest;
    suite::check(guest, "cifs", CASE, &CASES);
}
