//! Servers that do not mount anything: the host notices before it asks the kernel, which needs no
//! NFS for this. `tests/tests/vm/nfs.rs` has a server that does.

use std::net::TcpListener;

use volhost_tests::manifests::pod;
use volhost_tests::{Node, artifacts};

/// A PersistentVolume of a share at this port, its claim, and a pod, all of this name.
fn pod_of_share(name: &str, server: &str, port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{ name: {name} }}\nspec:\n  capacity: {{ storage: 1Gi }}\n  \
         accessModes: [ReadWriteMany]\n  storageClassName: ''\n  mountOptions: ['port={port}']\n  \
         nfs: {{ server: {server}, path: /export }}\n---\n\
         apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{ name: {name} }}\nspec:\n  accessModes: [ReadWriteMany]\n  \
         storageClassName: ''\n  volumeName: {name}\n  resources: {{ requests: {{ storage: 1Gi }} }}\n---\n{}",
        pod(name, &format!("uid-{name}"), &[&format!("name: share, persistentVolumeClaim: {{ claimName: {name} }}")])
    )
}

#[test]
fn a_server_that_is_unknown_unreachable_or_silent_is_named_and_delays_no_other_volume() {
    // The kernel takes connections for it, and nothing ever answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_port = silent.local_addr().unwrap().port();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed_port = closed.local_addr().unwrap().port();
    drop(closed);
    let node = Node::builder().plugin(artifacts::plugin("nfs")).start();
    node.manifest("silent.yaml", &pod_of_share("silent", "127.0.0.1", silent_port));
    node.manifest("closed.yaml", &pod_of_share("closed", "127.0.0.1", closed_port));
    node.manifest("unknown.yaml", &pod_of_share("unknown", "nas.invalid", 2049));
    node.manifest("b.yaml", &pod("b", "uid-b", &["name: scratch, emptyDir: {}"]));
    node.wait_mounted("default/b");
    let port = |port: u16| format!("port {port}");
    node.wait_event(&["FailedMount", "pod default/closed", &port(closed_port), "ECONNREFUSED", "no server listens"]);
    node.wait_event(&["FailedMount", "pod default/unknown", "nas.invalid"]);
    node.wait_event(&[
        "FailedMount",
        "pod default/silent",
        &port(silent_port),
        "takes connections and gives no answer",
    ]);
    for name in ["silent", "closed", "unknown"] {
        node.remove_manifest(&format!("{name}.yaml"));
        node.wait_unmounted(&format!("default/{name}"));
    }
    assert!(node.pod_mounts().is_empty());
}

#[test]
fn a_server_that_is_not_granted_is_not_asked() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let grant = "[grants.\"kubernetes.io/nfs\"]\ninterfaces = [\"share-folders\"]\nnetwork-servers = [\"192.0.2.0/24\", \"nas.example.com\"]\n";
    let node = Node::builder().plugin(artifacts::plugin("nfs")).config(grant).start();
    node.manifest("a.yaml", &pod_of_share("a", "127.0.0.1", port));
    node.wait_event(&["FailedMount", "pod default/a", "127.0.0.1", "is not granted", "network-servers"]);
    assert!(listener.accept().is_err(), "nothing connects");
}
