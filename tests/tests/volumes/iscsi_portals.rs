//! Portals at which no target answers: the host notices before it runs open-iscsi, which this
//! machine may lack. `tests/tests/vm/iscsi.rs` has real targets.

use std::net::TcpListener;

use volhost_tests::manifests::pod;
use volhost_tests::{Node, artifacts};

/// A pod with a unit behind this portal.
fn pod_of_unit(name: &str, portal: &str, more: &str) -> String {
    let volume =
        format!("name: disk, iscsi: {{ targetPortal: '{portal}', iqn: 'iqn.2003-01.org.example:disk', lun: 0{more} }}");
    pod(name, &format!("uid-{name}"), &[&volume])
}

#[test]
fn each_dead_portal_is_named_and_a_wrong_field_too_and_no_other_volume_waits() {
    let closed = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (first, second) = (closed(), closed());
    let node = Node::builder().plugin(artifacts::plugin("iscsi")).start();
    node.manifest("a.yaml", &pod_of_unit("a", &first.to_string(), &format!(", portals: ['{second}']")));
    node.manifest("named.yaml", &pod_of_unit("named", "san.example.com", ""));
    node.manifest("b.yaml", &pod("b", "uid-b", &["name: scratch, emptyDir: {}"]));
    node.wait_mounted("default/b");
    let portal = |portal: std::net::SocketAddr| format!("portal {portal}: no target answers: Connection refused");
    node.wait_event(&["FailedMount", "pod default/a", &portal(first), &portal(second)]);
    node.wait_event(&["default/named", "iscsi.targetPortal", "san.example.com", "must be an IP address"]);
    for name in ["a", "named"] {
        node.remove_manifest(&format!("{name}.yaml"));
        node.wait_unmounted(&format!("default/{name}"));
    }
    assert!(node.pod_mounts().iter().all(|mount| !format!("{mount:?}").contains("iscsi")));
}

#[test]
fn a_portal_that_is_not_granted_is_not_asked() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let portal = listener.local_addr().unwrap();
    let grant = "[grants.\"kubernetes.io/iscsi\"]\ninterfaces = [\"secrets\"]\niscsi-portals = [\"192.0.2.0/24\"]\n";
    let node = Node::builder().plugin(artifacts::plugin("iscsi")).config(grant).start();
    node.manifest("a.yaml", &pod_of_unit("a", &portal.to_string(), ""));
    node.wait_event(&["FailedMount", "pod default/a", "127.0.0.1", "is not granted", "iscsi-portals"]);
    assert!(listener.accept().is_err(), "nothing connects");
}
