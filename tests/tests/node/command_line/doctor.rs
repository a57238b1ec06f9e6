//! `volhost doctor`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use volhost_tests::wait::eventually;
use volhost_tests::{Node, artifacts};

/// Runs the command in the node's mount namespace, with the daemon's folders. Returns the checks by
/// name, and the exit code.
fn doctor(node: &Node, options: &[&str]) -> (BTreeMap<String, Value>, Option<i32>) {
    let folder = |name: &str| node.folder().join(name);
    let output = node
        .inside(artifacts::volhost())
        .arg("--socket")
        .arg(node.socket())
        .args(["doctor", "-o", "json", "--root-dir"])
        .arg(node.root())
        .arg("--plugin-dir")
        .arg(folder("plugins"))
        .arg("--cache-dir")
        .arg(folder("cache"))
        .args(options)
        .output()
        .unwrap();
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let checks: Vec<Value> = document["checks"].as_array().unwrap().clone();
    let problems = checks.iter().filter(|check| check["outcome"] == "problem").count();
    assert_eq!(document["problems"], problems);
    assert_eq!(document["ok"], problems == 0);
    assert_eq!(output.status.code(), Some(i32::from(problems > 0)));
    for check in checks.iter().filter(|check| check["outcome"] != "ok") {
        assert!(check["why"].is_string() && check["action"].is_string(), "no reason or no way out: {check}");
    }
    let named = checks.into_iter().map(|check| (check["name"].as_str().unwrap().to_owned(), check));
    (named.collect(), output.status.code())
}

fn outcome<'a>(checks: &'a BTreeMap<String, Value>, name: &str) -> &'a str {
    checks.get(name).unwrap_or_else(|| panic!("no check {name}: {checks:?}"))["outcome"].as_str().unwrap()
}

/// Every file and folder below a folder.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        found.push(entry.path().display().to_string());
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        }
    }
    found.sort();
    found
}

#[test]
fn a_running_node_is_examined_and_nothing_is_changed() {
    let node = Node::start_default();
    // The node knows whether all its plugins are loaded.
    node.manifest("a.yaml", &volhost_tests::manifests::pod("a", "uid-a", &["name: scratch, emptyDir: {}"]));
    node.wait_mounted("default/a");
    assert!(eventually(|| node.cli(&["status"]).status.success()), "{}", node.log());
    let before = (node.all_mounts().len(), files(node.folder()));
    let (checks, code) = doctor(&node, &[]);
    assert_eq!((node.all_mounts().len(), files(node.folder())), before);
    for name in [
        "daemon",
        "socket",
        "plugins",
        "kernel",
        "mount calls",
        "tmpfs",
        "bind mounts",
        "id-mapped mounts",
        "user",
        "root folder",
        "propagation",
        "mount namespace",
        "number of mounts",
        "cache folder",
        "plugin folder",
        "clock",
    ] {
        assert_eq!(outcome(&checks, name), "ok", "{name}: {checks:?}");
    }
    assert_eq!(code, Some(0), "{checks:?}");
    assert!(checks["daemon"]["found"].as_str().unwrap().contains(&format!("process {}", node.pid())));
    // `host-path` makes file systems.
    assert!(checks["file system tools"]["found"].as_str().unwrap().contains("mkfs.ext4"), "{checks:?}");

    let page = node.cli(&["doctor"]);
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    assert!(page.contains("ok       kernel                 Linux "), "{page}");
    assert!(page.contains("the daemon's root folder is"), "other options than the daemon's are a warning: {page}");
}

#[test]
fn what_a_machine_lacks_is_named_with_the_way_out() {
    let mut node = Node::start_default();
    fs::write(node.folder().join("plugins/broken.wasm"), "no component").unwrap();
    let is_refused =
        || doctor(&node, &[]).0.get("plugin broken.wasm").is_some_and(|check| check["outcome"] == "problem");
    assert!(eventually(is_refused), "{:?}", doctor(&node, &[]));
    fs::remove_file(node.folder().join("plugins/broken.wasm")).unwrap();

    // A mount that no container sees, and a clock that has gone back.
    let root = node.root();
    assert!(node.inside("mount").args(["--make-private"]).arg(&root).status().unwrap().success());
    let record = root.join("state/from-the-future");
    assert!(node.inside("touch").args(["-d", "2100-01-01"]).arg(&record).status().unwrap().success());
    let (checks, _) = doctor(&node, &[]);
    assert_eq!(outcome(&checks, "propagation"), "warning");
    assert!(checks["propagation"]["action"].as_str().unwrap().contains("--make-shared"), "{checks:?}");
    assert_eq!(outcome(&checks, "clock"), "problem", "{checks:?}");
    assert!(checks["clock"]["found"].as_str().unwrap().contains("2100-01-01"), "{checks:?}");
    assert!(node.inside("rm").arg(&record).status().unwrap().success());

    // A socket for everybody; then none.
    let mode = |mode: &str| assert!(node.inside("chmod").arg(mode).arg(node.socket()).status().unwrap().success());
    mode("666");
    assert_eq!(outcome(&doctor(&node, &[]).0, "socket"), "problem");
    mode("600");
    node.terminate();
    let (checks, _) = doctor(&node, &[]);
    assert_eq!(outcome(&checks, "daemon"), "warning", "a node without a daemon can be examined: {checks:?}");
    assert_eq!(outcome(&checks, "kernel"), "ok");
    // Needs are read from the files then.
    assert!(checks["file system tools"]["found"].as_str().unwrap().contains("mkfs.ext4"), "{checks:?}");
}

#[test]
fn folders_that_cannot_be_used_are_problems() {
    let node = Node::builder()
        .prepare("mkdir $NODE/sealed && mount -t tmpfs -o ro none $NODE/sealed && chmod 777 $NODE/cache")
        .build();
    let sealed = node.folder().join("sealed");
    let sealed = sealed.to_str().unwrap();
    let run = |options: &[&str]| {
        let output = node.inside(artifacts::volhost()).args(["doctor", "-o", "json"]).args(options).output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let checks = document["checks"].as_array().unwrap().clone();
        let named = checks.into_iter().map(|check| (check["name"].as_str().unwrap().to_owned(), check));
        named.collect::<BTreeMap<String, Value>>()
    };
    let root = format!("{sealed}/root");
    let cache = node.folder().join("cache");
    let checks = run(&[
        "--root-dir",
        &root,
        "--cache-dir",
        cache.to_str().unwrap(),
        "--plugin-dir",
        sealed,
        "--manifests",
        "/no/such/folder",
        "--flex-driver-dir",
        "/no/such/folder",
    ]);
    for name in ["root folder", "cache folder", "plugin folder", "manifest folder", "flex drivers"] {
        assert_eq!(outcome(&checks, name), "problem", "{name}: {checks:?}");
    }
    assert!(checks["root folder"]["found"].as_str().unwrap().contains("read-only"), "{checks:?}");
    assert!(checks["manifest folder"]["action"].as_str().unwrap().contains("manifests"), "{checks:?}");
    // A file where the socket should be.
    let file = super::file(&node, "no-socket", "");
    let checks = run(&["--socket", &file]);
    assert!(checks["socket"]["found"].as_str().unwrap().contains("is not a socket"), "{checks:?}");
    assert_eq!(outcome(&checks, "daemon"), "problem");
}

#[test]
fn programs_that_a_loaded_plugin_needs_are_looked_for() {
    let grants = "[grants.\"volhost.example/none\".fuse-servers.sshfs]\nprogram = \"/no/such/sshfs\"\narguments = [\"{mount}\"]\n";
    let node = Node::builder().plugin(artifacts::plugin("iscsi")).start();
    let config = super::file(&node, "fuse.toml", &grants.replace("volhost.example/none", "kubernetes.io/host-path"));
    node.manifest("a.yaml", &volhost_tests::manifests::pod("a", "uid-a", &["name: scratch, emptyDir: {}"]));
    node.wait_mounted("default/a");
    // The machine of the tests has no initiator.
    let initiator = |checks: &BTreeMap<String, Value>| checks.get("iSCSI initiator").cloned();
    let is_loaded = || initiator(&doctor(&node, &[]).0).is_some();
    assert!(eventually(is_loaded), "{:?}", doctor(&node, &[]).0);
    let found = initiator(&doctor(&node, &[]).0).unwrap();
    if found["outcome"] != "ok" {
        assert!(found["action"].as_str().unwrap().contains("install open-iscsi"), "{found}");
    }
    let (checks, _) = doctor(&node, &["--config", &config]);
    assert_eq!(outcome(&checks, "FUSE server sshfs"), "problem", "{checks:?}");
    let action = checks["FUSE server sshfs"]["action"].as_str().unwrap();
    assert!(action.contains("[grants.\"kubernetes.io/host-path\".fuse-servers.sshfs]"), "{action}");
    // A grant of a plugin that is not loaded needs nothing.
    let config = super::file(&node, "other.toml", grants);
    let (checks, _) = doctor(&node, &["--config", &config]);
    assert!(!checks.contains_key("FUSE server sshfs"), "{checks:?}");
    assert!(!doctor(&Node::start_default(), &[]).0.contains_key("iSCSI initiator"));
}

#[test]
fn options_that_the_daemon_would_refuse_are_refused() {
    let node = Node::builder().build();
    let config = super::file(&node, "bad.toml", "root-dir = 7\n");
    let output = node.cli(&["doctor", "--config", &config]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("bad.toml, line 1, key root-dir"), "{said}");
}
