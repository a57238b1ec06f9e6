//! Folders of a real SSH server, served by a real sshfs with the grant of the plugin's page.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde_json::json;
use sha2::{Digest, Sha256};
use volhost_tests::pages::{self, with};
use volhost_tests::ssh_server::{SshServer, USER};
use volhost_tests::wait::eventually;
use volhost_tests::{Node, artifacts};

use crate::fuse_servers::{processes, runs, signal, until};

const PLUGIN: &str = "volhost.io~sshfs";
/// Enough that it is not written in an instant.
const BYTES: usize = 20 << 20;

/// A node that may mount from this machine. ssh gives a silent server up after seconds.
fn node() -> Node {
    let grant = pages::grant("sshfs");
    let grant = with(&grant, "*.example.com", "127.0.0.1");
    let grant = with(&grant, "/exports/**", "/**");
    let grant = with(&grant, "ServerAliveInterval=15", "ServerAliveInterval=1");
    Node::builder().plugin(artifacts::plugin("sshfs")).config(&grant).start()
}

fn add_secret(node: &Node, name: &str, key: &str, hosts: &str) {
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name },
                         "stringData": { "ssh-privatekey": key, "known_hosts": hosts } });
    node.manifest(&format!("secret-{name}.yaml"), &secret.to_string());
}

/// A pod with a folder of the server.
fn add_pod(node: &Node, name: &str, server: &SshServer, folder: &str, secret: &str) {
    let address = server.address();
    let attributes = json!({ "server": address.ip(), "port": address.port().to_string(), "user": USER,
                             "path": server.exports().join(folder), "gid": "2000" });
    let csi = json!({ "driver": "sshfs.volhost.io", "volumeAttributes": attributes,
                      "nodePublishSecretRef": { "name": secret } });
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "uid": format!("uid-{name}") },
        "spec": { "containers": [{ "name": "main", "image": "none", "volumeMounts": [{ "name": "files", "mountPath": "/f" }] }],
                  "volumes": [{ "name": "files", "csi": csi }] } });
    node.manifest(&format!("{name}.yaml"), &pod.to_string());
}

fn up(node: &Node, name: &str, server: &SshServer) {
    add_pod(node, name, server, "", "key");
    node.wait_mounted(&format!("default/{name}"));
}

fn down(node: &Node, name: &str) {
    node.remove_manifest(&format!("{name}.yaml"));
    node.wait_unmounted(&format!("default/{name}"));
}

fn volume(node: &Node, name: &str) -> PathBuf {
    node.volume(&format!("uid-{name}"), PLUGIN, "files")
}

fn started() -> (Node, SshServer) {
    let (node, server) = (node(), SshServer::start());
    add_secret(&node, "key", &server.user_key(), &server.known_hosts());
    (node, server)
}

/// Content that no other file has.
fn content() -> Vec<u8> {
    (0..BYTES / 8).flat_map(|n| (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect()
}

fn digest(path: &Path) -> Vec<u8> {
    Sha256::digest(fs::read(path).unwrap()).to_vec()
}

#[test]
fn what_was_written_before_the_unmount_is_whole_on_the_server() {
    let (node, server) = started();
    fs::write(server.exports().join("greeting"), "hello").unwrap();
    up(&node, "writer", &server);
    let files = volume(&node, "writer");
    assert_eq!(fs::read_to_string(files.join("greeting")).unwrap(), "hello");
    let shown = fs::metadata(files.join("greeting")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::gid(&shown), 2000, "every file has the volume's group");
    let content = content();
    fs::write(files.join("big"), &content).unwrap();
    let sshfs = processes(&node);
    down(&node, "writer");
    // At once: the unmount is reported when sshfs has ended.
    assert!(!sshfs.iter().any(|&pid| runs(pid)), "sshfs runs on");
    assert_eq!(digest(&server.exports().join("big")), Sha256::digest(&content).to_vec());
    assert!(!node.ok(&["events"]).contains("PossiblyLostWrites"));
}

#[test]
fn neither_key_is_in_an_argument_a_log_or_a_file() {
    let (node, server) = started();
    up(&node, "reader", &server);
    let key = server.user_key();
    let line = key.lines().nth(1).unwrap();
    for pid in processes(&node) {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        assert!(!String::from_utf8_lossy(&arguments).contains(line));
    }
    assert!(!node.log().contains(line));
    let found = node.inside("grep").args(["-rlF", line]).arg(node.root()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "", "{}", String::from_utf8_lossy(&found.stderr));
}

#[test]
fn a_wrong_host_key_a_wrong_key_and_a_folder_that_is_missing_are_named() {
    let (node, server) = started();
    add_secret(&node, "other-host", &server.user_key(), &server.other_hosts());
    add_secret(&node, "other-key", &server.other_key(), &server.known_hosts());
    add_secret(&node, "no-hosts", &server.user_key(), "\n");
    for (pod, folder, secret) in [
        ("a", "", "other-host"),
        ("b", "", "other-key"),
        ("c", "missing", "key"),
        ("d", "", "no-hosts"),
        ("e", "", "no-such-secret"),
        ("f", "a,allow_root", "key"),
        ("g", "../../etc", "key"),
    ] {
        add_pod(&node, pod, &server, folder, secret);
    }
    for (pod, words) in [
        ("a", "Host key verification failed"),
        ("b", "Permission denied"),
        ("c", "No such file or directory"),
        ("d", "Host key verification failed"),
        ("e", "no-such-secret"),
        ("f", "csi.volumeAttributes.path"),
        ("g", "csi.volumeAttributes.path"),
    ] {
        node.wait_event(&[&format!("default/{pod}"), words]);
    }
    assert!(node.pod_mounts().is_empty());
}

#[test]
fn a_server_that_the_grant_does_not_name_is_not_asked() {
    let server = SshServer::start();
    let node = Node::builder().plugin(artifacts::plugin("sshfs")).config(&pages::grant("sshfs")).start();
    add_secret(&node, "key", &server.user_key(), &server.known_hosts());
    add_pod(&node, "a", &server, "", "key");
    node.wait_event(&["default/a", "csi.volumeAttributes.server", "\"127.0.0.1\" is not granted"]);
}

#[test]
fn a_server_that_is_gone_hurts_its_own_volume_alone_and_delays_no_deletion() {
    let (node, server) = started();
    let other = SshServer::start();
    add_secret(&node, "other-key", &other.user_key(), &other.known_hosts());
    up(&node, "lost", &server);
    up(&node, "back", &server);
    server.close();
    // Once more while it is gone: sshfs tries to connect again, and reports an error.
    assert!(eventually(|| fs::read_dir(volume(&node, "lost")).is_err()), "it answers still");
    add_pod(&node, "other", &other, "", "other-key");
    node.wait_mounted("default/other");
    fs::write(volume(&node, "other").join("file"), "written").unwrap();
    down(&node, "lost");
    server.open_again();
    assert!(eventually(|| fs::write(volume(&node, "back").join("file"), "again").is_ok()), "it never comes back");
    assert_eq!(fs::read_to_string(server.exports().join("file")).unwrap(), "again");
    down(&node, "back");
}

#[test]
fn a_server_that_answers_no_more_hurts_its_own_volume_alone_and_delays_no_deletion() {
    let (node, server) = started();
    let other = SshServer::start();
    add_secret(&node, "other-key", &other.user_key(), &other.known_hosts());
    fs::write(server.exports().join("file"), vec![b'x'; BYTES]).unwrap();
    up(&node, "hung", &server);
    let mut file = fs::File::open(volume(&node, "hung").join("file")).unwrap();
    server.hang();
    // A user of the volume, who waits in the kernel, where no signal reaches it.
    let user = std::thread::spawn(move || file.read_to_end(&mut Vec::new()).unwrap_or_default());
    node.remove_manifest("hung.yaml");
    add_pod(&node, "other", &other, "", "other-key");
    node.wait_mounted("default/other");
    // ssh gives the server up after seconds; then its user waits no longer, and the volume goes.
    node.wait_unmounted("default/hung");
    assert!(user.join().unwrap() < BYTES, "it has read what the server did not send");
    server.go_on();
}

#[test]
fn an_sshfs_that_is_killed_is_reported_and_its_volume_is_mounted_again() {
    let (node, server) = started();
    up(&node, "data", &server);
    let files = volume(&node, "data");
    fs::write(files.join("before"), "written").unwrap();
    let mut open = fs::File::create(files.join("open")).unwrap();
    let first = processes(&node)[0];
    signal(first, "KILL");
    node.wait_event(&["FuseServerEnded", "files", "FUSE server sshfs", "signal 9"]);
    assert!(open.write_all(b"lost").is_err(), "it is written nowhere");
    drop(open);
    until("the volume", &node, || fs::read_to_string(files.join("before")).is_ok_and(|text| text == "written"));
    down(&node, "data");
}
