//! The driver's metrics.

use std::net::SocketAddr;

use tonic::Code;
use volhost_proto::csi::ControllerPublishVolumeRequest;
use volhost_tests::http::request;

use crate::csi_serve::kit::{Host, MIB, SINGLE_NODE_WRITER, code, mount, wanted};

/// The count of a method's calls that ended so.
fn count(metrics: &str, method: &str, status: &str) -> u64 {
    let (method, status) = (format!("method_name=\"{method}\""), format!("grpc_status_code=\"{status}\""));
    let counts = metrics.lines().filter(|line| line.starts_with("csi_plugin_operations_seconds_count{"));
    let mut of_it = counts.filter(|line| line.contains(&method) && line.contains(&status));
    of_it.next().map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

#[test]
fn each_call_is_counted_with_its_outcome() {
    let host = Host::start(&["--metrics-listen", "127.0.0.1:0"]);
    let log = host.served.log();
    let address = log.split("metrics are served at http://").nth(1).expect(&log).split('/').next().unwrap();
    let address: SocketAddr = address.parse().unwrap();
    let volume = host.create(wanted("pvc-1", 32 * MIB, mount(SINGLE_NODE_WRITER))).unwrap();
    assert_eq!(code(host.create(wanted("pvc-1", 64 * MIB, mount(SINGLE_NODE_WRITER)))), Code::AlreadyExists);
    host.unpublish("pvc-1", "nobody").unwrap();
    // It attaches nothing.
    let attach = ControllerPublishVolumeRequest { volume_id: "pvc-1".to_owned(), ..Default::default() };
    let attach = host.controller(async |mut driver| driver.controller_publish_volume(attach).await);
    assert_eq!(code(attach), Code::Unimplemented);
    host.delete(&volume.volume_id).unwrap();
    let answer = request(address, "GET", "/metrics");
    assert_eq!(answer.status, 200);
    let metrics = answer.body;
    let create = "/csi.v1.Controller/CreateVolume";
    assert_eq!((count(&metrics, create, "OK"), count(&metrics, create, "AlreadyExists")), (1, 1), "{metrics}");
    assert_eq!(count(&metrics, "/csi.v1.Node/NodeUnpublishVolume", "OK"), 1, "{metrics}");
    assert_eq!(count(&metrics, "unimplemented", "Unimplemented"), 1, "{metrics}");
    assert!(metrics.contains("driver_name=\"loop.volhost.io\"") && metrics.contains("volhost_build_info"), "{metrics}");
    assert!(metrics.contains("process_resident_memory_bytes"), "{metrics}");
    // The port is in use: it says so, and serves no volume.
    let other = host.node.folder().join("other");
    let (state, socket) = (other.display().to_string(), other.join("csi.sock").display().to_string());
    let own = ["--metrics-listen", &address.to_string(), "--state-dir", &state, "--endpoint", &socket];
    let taken = host.served.fails(&host.node, &own);
    assert!(taken.contains(&address.to_string()) && taken.contains("in use"), "{taken}");
}
