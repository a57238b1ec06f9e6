//! `volhost debug bundle`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use volhost_tests::manifests::pod;
use volhost_tests::{Node, artifacts};

/// Unpacks a bundle, and returns its folder.
fn unpack(node: &Node, file: &str) -> PathBuf {
    let to = node.folder().join("unpacked");
    fs::create_dir(&to).unwrap();
    let done = Command::new("tar").arg("-C").arg(&to).args(["-xf", file]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let folders: Vec<_> = fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [folder] = folders.as_slice() else { panic!("one folder: {folders:?}") };
    folder.clone()
}

fn text(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn json(folder: &Path, name: &str) -> Value {
    serde_json::from_str(&text(folder, name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn a_bundle_has_what_a_report_needs_and_no_secret() {
    // Where others may have put a secret: arguments in the configuration, and a URL that is logged.
    let config = "[grants.\"example.com/files\".fuse-servers.server]\nprogram = \"/usr/bin/true\"\narguments = [\"{mount}\", \"-o\", \"password=KNOWN-SECRET-1\", \"--token\", \"KNOWN-SECRET-6\", \"https://me:KNOWN-SECRET-2@host/\"]\n";
    let node = Node::builder().config(config).plugin(artifacts::plugin("secret")).start();
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: { name: login }\nstringData: { password: KNOWN-SECRET-3, other: KNOWN-SECRET-4 }\n";
    let volumes = [
        "name: s, secret: { secretName: login }",
        "name: gone, hostPath: { path: \"/no/token=KNOWN-SECRET-5\", type: Directory }",
    ];
    let path = super::file(&node, "a.yaml", &format!("{secret}---\n{}", pod("a", "uid-a", &volumes)));
    node.ok(&["apply", "-f", &path]);
    node.wait_event(&["FailedMount", "KNOWN-SECRET-5"]);
    node.wait_event(&["SuccessfulMountVolume", "\"s\""]);

    let file = node.folder().join("bundle.tar").display().to_string();
    let plugins = node.folder().join("plugins").display().to_string();
    let root = node.root().display().to_string();
    let said = node.ok(&["debug", "bundle", "-o", &file, "--plugin-dir", &plugins, "--root-dir", &root]);
    assert!(said.contains("bundle.tar written"), "{said}");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    let bytes = fs::read(&file).unwrap();
    for secret in ["KNOWN-SECRET", "S05PV04tU0VDUkVU", "tOT1dOLVNFQ1JFV"] {
        let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!found, "{secret} is in the bundle");
    }

    let folder = unpack(&node, &file);
    assert_eq!(text(&folder, "not-collected.txt"), "");
    let recording = folder.join("recording.jsonl").display().to_string();
    assert!(node.ok(&["replay", &recording]).contains("every decision is the recorded one"));
    assert_eq!(json(&folder, "versions.json")["pid"], node.pid());
    assert_eq!(json(&folder, "pods.json")["items"][0]["metadata"]["name"], "a");
    assert_eq!(json(&folder, "volumes.json")["items"].as_array().unwrap().len(), 2);
    let plugins = json(&folder, "plugins.json")["items"].as_array().unwrap().clone();
    assert!(plugins.len() == 4 && plugins.iter().all(|plugin| plugin["status"]["digest"].is_string()), "{plugins:?}");
    for plugin in &plugins {
        let digest = plugin["status"]["digest"].as_str().unwrap();
        assert!(text(&folder, "plugin-files.txt").contains(digest), "{digest}");
    }
    assert!(text(&folder, "events.json").contains("FailedMount"));
    assert!(text(&folder, "metrics.txt").contains("volume_manager_operations_total"));
    assert!(text(&folder, "mounts.txt").contains("/pods/uid-a/volumes/"), "{}", text(&folder, "mounts.txt"));
    assert!(text(&folder, "log.txt").contains("volhost serves"), "{}", text(&folder, "log.txt"));
    assert!(text(&folder, "config.toml").contains("password=REDACTED"), "{}", text(&folder, "config.toml"));
    assert!(text(&folder, "config.toml").contains("https://REDACTED@host/"));
    assert!(text(&folder, "command-line.json").contains("--root-dir"), "{}", text(&folder, "command-line.json"));
    assert!(json(&folder, "doctor.json")["checks"].as_array().unwrap().len() > 10);

    // It is not written over.
    let refused = node.fails(&["debug", "bundle", "-o", &file]);
    assert!(refused.contains("bundle.tar: it exists"), "{refused}");
    assert_eq!(fs::read(&file).unwrap(), bytes);
    let link = node.folder().join("link.tar");
    std::os::unix::fs::symlink("/no/such/file", &link).unwrap();
    assert!(node.fails(&["debug", "bundle", "-o", link.to_str().unwrap()]).contains("it exists"));
}

#[test]
fn a_bundle_without_a_daemon_has_the_rest_and_says_what_is_missing() {
    let mut node = Node::start_default();
    node.terminate();
    let file = node.folder().join("bundle.tar").display().to_string();
    let output = node.cli(&["debug", "bundle", "-o", &file]);
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("not in the bundle: what the daemon knows: cannot reach volhost"), "{said}");
    let folder = unpack(&node, &file);
    assert!(text(&folder, "not-collected.txt").contains("cannot reach volhost"));
    assert!(json(&folder, "doctor.json")["checks"].is_array());
    assert!(!folder.join("pods.json").exists());
    let nowhere = node.fails(&["debug", "bundle", "-o", "/no/such/folder/bundle.tar"]);
    assert!(nowhere.contains("/no/such/folder/bundle.tar"), "{nowhere}");
}
