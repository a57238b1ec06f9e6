//! Named volumes by the command line.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use volhost_tests::artifacts;

use crate::kit::Host;

fn create(host: &Host, name: &str) {
    host.node.ok(&["volume", "create", name, "-o", "plugin=loop", "-o", "size=8m"]);
}

#[test]
fn a_volume_is_mounted_until_its_last_user_is_unmounted_and_keeps_its_content() {
    let host = Host::start();
    create(&host, "My_data");
    let first = host.node.ok(&["volume", "mount", "My_data", "--id", "a"]);
    let second = host.node.ok(&["volume", "mount", "My_data", "--id", "b"]);
    assert_eq!(host.node.ok(&["volume", "mount", "My_data", "--id", "b"]), second, "a repeated mount changes nothing");
    assert_eq!(host.users("My_data"), 2);
    fs::write(host.node.path(first.trim().as_ref()).join("f"), "kept").unwrap();
    assert_eq!(fs::read(host.node.path(second.trim().as_ref()).join("f")).unwrap(), b"kept");
    host.node.ok(&["volume", "umount", "My_data", "--id", "a"]);
    let refused = host.node.fails(&["volume", "rm", "My_data"]);
    assert!(refused.contains("My_data is in use by b"), "{refused}");
    assert_eq!(host.node.ok(&["volume", "prune", "--force"]), "");
    host.node.ok(&["volume", "umount", "My_data", "--id", "b"]);
    host.node.ok(&["volume", "umount", "My_data", "--id", "b"]);
    assert_eq!(host.node.pod_mounts(), []);
    let third = host.node.ok(&["volume", "mount", "My_data"]);
    assert_eq!(fs::read(host.node.path(third.trim().as_ref()).join("f")).unwrap(), b"kept");
    host.node.ok(&["volume", "umount", "My_data"]);
    host.node.ok(&["volume", "rm", "My_data"]);
    assert_eq!(host.node.ok(&["volume", "ls", "-q"]), "");
    host.assert_clean();
}

#[test]
fn a_folder_of_the_host_is_a_volume_and_stays() {
    let host = Host::start();
    let folder = host.node.folder().join("srv");
    fs::create_dir(&folder).unwrap();
    let device = format!("device={}", folder.display());
    let bind = ["volume", "create", "srv", "-o", "type=none", "-o", "o=bind", "-o", &device];
    host.node.ok(&bind);
    let first = host.node.ok(&["volume", "mount", "srv", "--id", "a"]);
    let second = host.node.ok(&["volume", "mount", "srv", "--id", "b"]);
    fs::write(host.node.path(first.trim().as_ref()).join("f"), "shared").unwrap();
    assert_eq!(fs::read(host.node.path(second.trim().as_ref()).join("f")).unwrap(), b"shared");
    let refused = host.node.fails(&["volume", "resize", "srv", "2Gi"]);
    assert!(refused.contains("volume srv is a folder of the host"), "{refused}");
    assert!(host.node.fails(&["volume", "rm", "srv"]).contains("in use by a, b"));
    for user in ["a", "b"] {
        host.node.ok(&["volume", "umount", "srv", "--id", user]);
    }
    host.node.ok(&["volume", "rm", "srv"]);
    assert_eq!(fs::read(folder.join("f")).unwrap(), b"shared", "the folder is the user's");
    // The name is free again, and a folder that is missing is named.
    fs::remove_dir_all(&folder).unwrap();
    host.node.ok(&bind);
    let refused = host.node.fails(&["volume", "mount", "srv", "--timeout", "5s"]);
    assert!(refused.contains("volume srv is not mounted") && refused.contains("/srv"), "{refused}");
    host.node.ok(&["volume", "rm", "srv"]);
    host.assert_clean();
}

#[test]
fn a_memory_is_shared_by_its_users_and_empty_for_the_next_one() {
    let host = Host::start();
    let create = ["volume", "create", "cache", "-o", "type=tmpfs", "-o", "device=tmpfs", "-o"];
    let refused = host.node.fails(&[&create[..], &["o=size=50%"]].concat());
    assert!(refused.contains("option size"), "{refused}");
    host.node.ok(&[&create[..], &["o=size=1m,mode=0750,uid=7,noexec"]].concat());
    let mount = |user| PathBuf::from(host.node.ok(&["volume", "mount", "cache", "--id", user]).trim());
    let (first, second) = (host.node.path(&mount("a")), host.node.path(&mount("b")));
    fs::write(first.join("f"), "shared").unwrap();
    assert_eq!(fs::read(second.join("f")).unwrap(), b"shared");
    let about = fs::metadata(&second).unwrap();
    assert_eq!((about.mode() & 0o7777, about.uid()), (0o750, 7));
    assert!(fs::write(first.join("too-large"), vec![0; 2 << 20]).is_err(), "it has 1 MiB");
    host.node.ok(&["volume", "umount", "cache", "--id", "a"]);
    assert_eq!(fs::read(second.join("f")).unwrap(), b"shared", "it has a user");
    host.node.ok(&["volume", "umount", "cache", "--id", "b"]);
    let third = host.node.path(&mount("c"));
    assert_eq!(fs::read_dir(&third).unwrap().count(), 0);
    let refused = host.node.fails(&["volume", "resize", "cache", "2Gi"]);
    assert!(refused.contains("volume cache is a folder of the host or a memory"), "{refused}");
    host.node.ok(&["volume", "umount", "cache", "--id", "c"]);
    host.node.ok(&["volume", "rm", "cache"]);
    host.assert_clean();
}

#[test]
fn a_snapshot_is_a_volume_with_the_content_of_its_moment() {
    let host = Host::start();
    create(&host, "data");
    let path = host.node.ok(&["volume", "mount", "data"]);
    fs::write(host.node.path(path.trim().as_ref()).join("f"), "monday").unwrap();
    host.node.ok(&["volume", "umount", "data"]);
    host.node.ok(&["volume", "snapshot", "data", "data-monday"]);
    let path = host.node.ok(&["volume", "mount", "data"]);
    fs::write(host.node.path(path.trim().as_ref()).join("f"), "tuesday").unwrap();
    host.node.ok(&["volume", "umount", "data"]);
    let exists = host.node.fails(&["volume", "snapshot", "data", "data-monday"]);
    assert!(exists.contains("exists already"), "{exists}");
    let unknown = host.node.fails(&["volume", "snapshot", "other", "copy"]);
    assert!(unknown.contains("there is no volume other"), "{unknown}");

    // What it was made of may go.
    host.node.ok(&["volume", "rm", "data"]);
    host.node.ok(&["volume", "create", "data", "-o", "from=data-monday", "-o", "size=12m"]);
    assert_eq!(host.inspect("data")["capacity_bytes"], 12 << 20);
    let path = host.node.ok(&["volume", "mount", "data"]);
    assert_eq!(fs::read(host.node.path(path.trim().as_ref()).join("f")).unwrap(), b"monday");
    host.node.ok(&["volume", "umount", "data"]);
    host.node.ok(&["volume", "resize", "data-monday", "16m"]);
    let smaller = host.node.fails(&["volume", "create", "small", "-o", "from=data", "-o", "size=1m"]);
    assert!(smaller.contains("a copy is as large or larger"), "{smaller}");
    assert!(!host.node.ok(&["volume", "ls", "-q"]).contains("small"), "nothing is left of it");
    host.node.ok(&["volume", "rm", "data", "data-monday"]);
    host.assert_clean();
}

#[test]
fn a_volume_that_was_removed_does_not_come_back_with_its_name() {
    let host = Host::start();
    for round in 0..10 {
        create(&host, "data");
        let path = host.node.ok(&["volume", "mount", "data"]);
        let file = host.node.path(path.trim().as_ref()).join("f");
        assert!(!file.exists(), "round {round}: the volume before is there");
        fs::write(file, "old").unwrap();
        // The driver may still be unstaging it when its name is given to another one.
        host.node.ok(&["volume", "umount", "data"]);
        host.node.ok(&["volume", "rm", "data"]);
    }
    host.assert_clean();
}

/// Runs `volhost volume prune` with an answer on its standard input.
fn prune(host: &Host, answer: &str) -> Output {
    let mut command = host.node.inside(artifacts::volhost());
    command.arg("--socket").arg(host.node.socket()).args(["volume", "prune"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It may end without reading the answer.
    let _ = child.stdin.take().unwrap().write_all(answer.as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn prune_asks_before_it_deletes_what_nobody_uses() {
    let host = Host::start();
    for name in ["used", "idle", "old"] {
        create(&host, name);
    }
    host.node.ok(&["volume", "mount", "used"]);
    for answer in ["", "n\n", "\ny\n"] {
        let refused = prune(&host, answer);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{answer:?}: {said}");
        assert!(said.contains("  idle (") && said.contains("  old (") && !said.contains("  used ("), "{said}");
        assert!(said.contains("nothing was deleted; --force deletes without asking"), "{said}");
    }
    assert_eq!(host.node.ok(&["volume", "ls", "-q"]).lines().count(), 3);
    let agreed = prune(&host, "y\n");
    assert!(agreed.status.success(), "{agreed:?}");
    assert_eq!(String::from_utf8_lossy(&agreed.stdout), "idle\nold\n");
    assert_eq!(host.node.ok(&["volume", "ls", "-q"]), "used\n");
    let nothing = prune(&host, "");
    assert!(nothing.status.success() && nothing.stderr.is_empty(), "nothing to ask about: {nothing:?}");
    host.node.ok(&["volume", "umount", "used"]);
    host.node.ok(&["volume", "prune", "-f"]);
    host.assert_clean();
}

#[test]
fn volumes_and_users_survive_a_killed_daemon_and_volumes_a_reboot() {
    let mut host = Host::start();
    create(&host, "data");
    create(&host, "other");
    let path = host.node.ok(&["volume", "mount", "data", "--id", "a"]);
    fs::write(host.node.path(path.trim().as_ref()).join("f"), "kept").unwrap();
    host.node.kill();
    host.node.start();
    assert_eq!(host.users("data"), 1);
    assert_eq!(host.node.ok(&["volume", "mount", "data", "--id", "a"]), path);
    assert!(host.node.fails(&["volume", "rm", "data"]).contains("in use by a"));
    host.node.ok(&["volume", "umount", "data", "--id", "a"]);
    host.node.kill();
    // A machine that restarts has no tmpfs any more.
    assert!(host.node.inside("umount").arg("-l").arg(host.node.root().join("state")).status().unwrap().success());
    host.node.start();
    let path = host.node.ok(&["volume", "mount", "data", "--id", "a"]);
    assert_eq!(fs::read(host.node.path(path.trim().as_ref()).join("f")).unwrap(), b"kept");
    assert_eq!(host.node.ok(&["volume", "prune", "--force"]), "other\n");
    host.node.ok(&["volume", "umount", "data", "--id", "a"]);
    host.node.ok(&["volume", "rm", "data"]);
    host.assert_clean();
}

#[test]
fn a_volume_grows_and_never_shrinks() {
    let host = Host::start();
    host.node.ok(&["volume", "create", "data", "-o", "plugin=loop", "-o", "size=64Mi"]);
    let made = host.inspect("data")["persistent_volume"].clone();
    assert!(made.as_str().is_some_and(|name| name.starts_with("pvc-")), "{made}");
    let path = host.node.ok(&["volume", "mount", "data"]);
    fs::write(host.node.path(path.trim().as_ref()).join("f"), "kept").unwrap();
    // Mounted, an ext file system grows only with CAP_SYS_RESOURCE, which not every machine gives.
    host.node.ok(&["volume", "umount", "data"]);
    host.node.ok(&["volume", "resize", "data", "128Mi"]);
    // Its file system grows when it is mounted.
    let path = host.node.ok(&["volume", "mount", "data"]);
    let grown = || host.inspect("data")["capacity_bytes"] == 128 << 20;
    assert!(volhost_tests::wait::eventually(grown), "{}\n{}", host.inspect("data"), host.node.log());
    assert_eq!(host.inspect("data")["persistent_volume"], made, "it is the same volume");
    let inside = host.node.path(path.trim().as_ref());
    assert_eq!(fs::read(inside.join("f")).unwrap(), b"kept");
    let has = rustix::fs::statvfs(&inside).unwrap();
    assert!(has.f_blocks * has.f_frsize > 100 << 20, "its file system has grown: {} blocks", has.f_blocks);
    let refused = host.node.fails(&["volume", "resize", "data", "1Mi"]);
    assert!(refused.contains("cannot shrink"), "{refused}");
    host.node.ok(&["volume", "umount", "data"]);
    host.node.ok(&["volume", "rm", "data"]);
    host.assert_clean();
}

#[test]
fn what_cannot_be_created_is_refused_with_the_option_and_leaves_nothing() {
    let host = Host::start();
    for (options, words) in [
        (&["-o", "plugin=loop", "-o", "sise=1Gi"][..], "option sise:"),
        (&["-o", "plugin=loop", "-o", "size=-1"], "option size:"),
        (&["-o", "size=1Gi"], "option plugin:"),
        (&["-o", "plugin=loop", "-o", "parameters.colour=red"], "parameters.colour"),
        (&["-o", "plugin=nosuch"], "nosuch"),
    ] {
        let refused = host.node.fails(&[&["volume", "create", "data"], options].concat());
        assert!(refused.contains(words), "{refused}");
        assert_eq!(host.node.ok(&["volume", "ls", "-q"]), "", "{words}");
    }
    for name in ["../etc", "a/b", "a b"] {
        assert!(host.node.fails(&["volume", "create", name, "-o", "plugin=loop"]).contains("name:"));
    }
    assert!(host.node.fails(&["volume", "mount", "data"]).contains("there is no volume data"));
    create(&host, "data");
    let refused = host.node.fails(&["volume", "create", "data", "-o", "plugin=loop"]);
    assert!(refused.contains("exists already"), "{refused}");
    host.node.ok(&["volume", "rm", "data"]);
    host.assert_clean();
}
