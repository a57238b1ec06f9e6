//! Buckets of a real S3 server, served by a real rclone with the grant of the plugin's page, and
//! looked into by another client.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use sha2::{Digest, Sha256};
use volhost_tests::pages::{self, with};
use volhost_tests::s3_server::{S3Object, S3Server};
use volhost_tests::wait::eventually;
use volhost_tests::{Node, artifacts};

use crate::fuse_servers::{processes, runs, signal, until};

const PLUGIN: &str = "volhost.io~s3";
const BUCKET: &str = "reports";
/// Several parts of an upload.
const BYTES: usize = 20 << 20;

/// A node that may use servers of this machine.
fn node() -> Node {
    let grant = with(&pages::grant("s3"), "https://s3.*.amazonaws.com", "http://127.0.0.1:*");
    Node::builder().plugin(artifacts::plugin("s3")).config(&grant).start()
}

fn add_secret(node: &Node, name: &str, access_key: &str, secret_key: &str) {
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name },
                         "stringData": { "accessKeyID": access_key, "secretAccessKey": secret_key } });
    node.manifest(&format!("secret-{name}.yaml"), &secret.to_string());
}

/// Attributes beside those of a correct volume, or in their place.
type Attributes<'a> = &'a [(&'a str, &'a str)];

/// A pod with a volume of the bucket, with further attributes.
fn add_pod(node: &Node, name: &str, endpoint: &str, secret: &str, more: Attributes<'_>) {
    let mut attributes = json!({ "bucket": BUCKET, "endpoint": endpoint });
    for (attribute, value) in more {
        attributes[attribute] = json!(value);
    }
    let csi = json!({ "driver": "s3.volhost.io", "volumeAttributes": attributes,
                      "nodePublishSecretRef": { "name": secret } });
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "uid": format!("uid-{name}") },
        "spec": { "containers": [{ "name": "main", "image": "none", "volumeMounts": [{ "name": "files", "mountPath": "/f" }] }],
                  "volumes": [{ "name": "files", "csi": csi }] } });
    node.manifest(&format!("{name}.yaml"), &pod.to_string());
}

fn up(node: &Node, name: &str, server: &S3Server, more: Attributes<'_>) {
    add_pod(node, name, server.endpoint(), "key", more);
    node.wait_mounted(&format!("default/{name}"));
}

fn down(node: &Node, name: &str) {
    node.remove_manifest(&format!("{name}.yaml"));
    node.wait_unmounted(&format!("default/{name}"));
}

fn volume(node: &Node, name: &str) -> PathBuf {
    node.volume(&format!("uid-{name}"), PLUGIN, "files")
}

/// Writes a file in a process of its own: rclone takes a file for complete when any descriptor of it
/// is closed, and the programs that other tests start inherit those of this process.
fn write(path: &Path, content: &[u8]) {
    let mut writer = Command::new("dd")
        .args(["bs=64k", "status=none"])
        .arg(format!("of={}", path.display()))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    writer.stdin.take().unwrap().write_all(content).unwrap();
    assert!(writer.wait().unwrap().success(), "{}", path.display());
}

fn started() -> (Node, S3Server) {
    let (node, server) = (node(), S3Server::with_bucket(BUCKET));
    add_secret(&node, "key", server.access_key(), server.secret_key());
    (node, server)
}

/// Content that no other file has.
fn content() -> Vec<u8> {
    (0..BYTES / 8).flat_map(|n| (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect()
}

fn object(key: &str, content: &[u8]) -> S3Object {
    let sha256 = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    S3Object { key: key.to_owned(), size: content.len() as u64, sha256 }
}

#[test]
fn what_was_written_before_the_unmount_is_whole_in_the_bucket() {
    let (node, server) = started();
    up(&node, "writer", &server, &[("prefix", "team-a/2026")]);
    let files = volume(&node, "writer");
    let content = content();
    fs::create_dir(files.join("sub")).unwrap();
    write(&files.join("sub/small"), b"few");
    write(&files.join("big"), &content);
    let rclone = processes(&node);
    down(&node, "writer");
    // At once: the unmount is reported when rclone has ended.
    assert_eq!(server.objects(BUCKET), [object("team-a/2026/big", &content), object("team-a/2026/sub/small", b"few")]);
    assert!(!rclone.iter().any(|&pid| runs(pid)), "rclone runs on");
    assert!(!node.ok(&["events"]).contains("PossiblyLostWrites"));
}

#[test]
fn a_volume_shows_what_is_below_its_prefix_to_its_group_and_may_be_read_only() {
    let (node, server) = started();
    server.put(BUCKET, "team-a/greeting", b"hello");
    server.put(BUCKET, "team-b/other", b"theirs");
    up(&node, "reader", &server, &[("prefix", "team-a"), ("gid", "2000"), ("uid", "1000")]);
    let files = volume(&node, "reader");
    let names: Vec<_> = fs::read_dir(&files).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["greeting"]);
    assert_eq!(fs::read_to_string(files.join("greeting")).unwrap(), "hello");
    let shown = fs::metadata(files.join("greeting")).unwrap();
    assert_eq!((shown.uid(), shown.gid(), shown.mode() & 0o777), (1000, 2000, 0o664));
    assert!(fs::read(files.join("../team-b/other")).is_err());
    down(&node, "reader");
    assert_eq!(server.objects(BUCKET).len(), 2, "nothing was made or removed");
}

#[test]
fn a_wrong_key_a_missing_bucket_and_hostile_values_are_named() {
    let (node, server) = started();
    add_secret(&node, "wrong-id", "AKIAWRONG", server.secret_key());
    add_secret(&node, "wrong-key", server.access_key(), "wrong");
    // What would make rclone show a folder of the node.
    add_secret(&node, "lines", server.access_key(), "x\n[s3]\ntype = local");
    add_secret(&node, "empty", "", server.secret_key());
    let endpoint = server.endpoint();
    let cases: [(&str, &str, &str, Attributes<'_>, &str); 10] = [
        ("a", endpoint, "wrong-id", &[], "InvalidAccessKeyId"),
        ("b", endpoint, "wrong-key", &[], "SignatureDoesNotMatch"),
        ("c", endpoint, "key", &[("bucket", "missing")], "directory not found"),
        ("d", endpoint, "lines", &[], "the secret must be one line of text"),
        ("e", endpoint, "empty", &[], "the secret must be one line of text"),
        ("f", endpoint, "no-such-secret", &[], "no-such-secret"),
        ("g", "http://169.254.169.254", "key", &[], "\"http://169.254.169.254\" is not granted"),
        ("h", "http://127.0.0.1:1", "key", &[], "connection refused"),
        ("i", endpoint, "key", &[("bucket", "a,allow_other")], "csi.volumeAttributes.bucket"),
        ("j", endpoint, "key", &[("prefix", "../other")], "csi.volumeAttributes.prefix"),
    ];
    for (pod, endpoint, secret, more, _) in cases {
        add_pod(&node, pod, endpoint, secret, more);
    }
    for (pod, _, _, _, words) in cases {
        node.wait_event(&[&format!("default/{pod}"), words]);
    }
    assert!(node.pod_mounts().is_empty());
    assert!(server.objects(BUCKET).is_empty());
}

#[test]
fn the_key_is_in_no_argument_log_or_file() {
    let (node, server) = started();
    add_secret(&node, "wrong", "AKIAWRONG", "a-key-that-is-wrong");
    up(&node, "reader", &server, &[]);
    add_pod(&node, "wrong", server.endpoint(), "wrong", &[]);
    node.wait_event(&["default/wrong", "InvalidAccessKeyId"]);
    for key in [server.secret_key(), "a-key-that-is-wrong"] {
        for pid in processes(&node) {
            let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&arguments).contains(key));
        }
        assert!(!node.log().contains(key) && !node.ok(&["events"]).contains(key));
        let found = node.inside("grep").args(["-rlF", "-e", key]).arg(node.root()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    }
}

#[test]
fn a_server_killed_in_the_middle_of_an_upload_changes_no_object_and_the_volume_comes_back() {
    let (node, server) = started();
    server.put(BUCKET, "big", b"as it was");
    up(&node, "data", &server, &[]);
    up(&node, "other", &server, &[("prefix", "other")]);
    let files = volume(&node, "data");
    write(&files.join("before"), b"written");
    let mut writer = Command::new("dd")
        .args(["if=/dev/zero", "bs=64k", "count=20000", "status=none"])
        .arg(format!("of={}", files.join("big").display()))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let counters = format!("/proc/{}/io", writer.id());
    let written = || -> u64 {
        let text = fs::read_to_string(&counters).unwrap();
        text.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap().parse().unwrap()
    };
    assert!(eventually(|| written() > BYTES as u64), "it does not write");
    let record = processes(&node);
    let of_data = record.iter().copied().find(|pid| {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        !String::from_utf8_lossy(&arguments).contains("reports/other")
    });
    signal(of_data.unwrap(), "KILL");
    node.wait_event(&["FuseServerEnded", "files", "FUSE server s3", "signal 9"]);
    assert!(!writer.wait().unwrap().success(), "it is written nowhere");
    until("the volume", &node, || fs::read_to_string(files.join("before")).is_ok_and(|text| text == "written"));
    write(&volume(&node, "other").join("file"), b"written");
    down(&node, "data");
    down(&node, "other");
    let (before, other) = (object("before", b"written"), object("other/file", b"written"));
    assert_eq!(server.objects(BUCKET), [before, object("big", b"as it was"), other]);
}

#[test]
fn a_server_that_answers_no_more_hurts_its_own_volume_alone_and_delays_no_deletion() {
    let (node, server) = started();
    let other = S3Server::with_bucket(BUCKET);
    add_secret(&node, "other-key", other.access_key(), other.secret_key());
    up(&node, "hung", &server, &[]);
    server.hang();
    add_pod(&node, "other", other.endpoint(), "other-key", &[]);
    node.wait_mounted("default/other");
    write(&volume(&node, "other").join("file"), b"written");
    down(&node, "hung");
    down(&node, "other");
    server.go_on();
    assert_eq!(other.objects(BUCKET), [object("file", b"written")]);
}
