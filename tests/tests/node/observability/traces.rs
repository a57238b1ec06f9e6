//! Traces: one an operation, with what it did below it.

use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use volhost_tests::Node;
use volhost_tests::manifests::pod;

use crate::observability::collector::{Collector, attributes};

#[test]
fn a_mount_is_a_trace_with_its_plugin_call_and_primitives() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("collector.sock");
    let mut collector = Collector::at_socket(&socket);
    let node = Node::builder().arguments(&["--otlp-endpoint", &format!("unix:{}", socket.display())]).start();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: fast, emptyDir: { medium: Memory }"]));
    node.wait_mounted("default/a");

    let (mount, resource) = collector.wait_for("volume_mount");
    assert_eq!(resource["service.name"], "volhost");
    assert_eq!(resource["k8s.node.name"], "test-node");
    let says = attributes(&mount.attributes);
    assert_eq!((says["pod"].as_str(), says["plugin"].as_str()), ("default/a", "kubernetes.io/empty-dir"));
    assert_eq!(says["operation"], "volume_mount");
    assert!(says["volume"].ends_with("fast"), "{says:?}");
    assert!(mount.parent_span_id.is_empty(), "it is the root of its trace");

    // Children end before their parent, and so are sent no later.
    let spans = collector.of_trace(&mount.trace_id);
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    let find = |name: &str| {
        spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no span {name} in {names:?}"))
    };
    assert_eq!(find("waiting for a thread").parent_span_id, mount.span_id);
    let call = find("plugin publish");
    assert_eq!(call.parent_span_id, mount.span_id);
    for primitive in ["tmpfs.create", "mount-target.attach"] {
        let span = find(primitive);
        assert_eq!(span.parent_span_id, call.span_id, "{primitive} is asked for by the plugin");
        assert!(
            call.start_time_unix_nano <= span.start_time_unix_nano
                && span.end_time_unix_nano <= call.end_time_unix_nano
        );
    }
}

#[test]
fn every_operation_has_a_trace_of_its_own_and_a_failed_one_says_why() {
    let (mut collector, port) = Collector::at_port();
    let node = Node::builder().arguments(&["--otlp-endpoint", &format!("http://127.0.0.1:{port}")]).start();
    node.manifest(
        "a.yaml",
        &pod(
            "a",
            "uid-a",
            &["name: gone, hostPath: { path: /nowhere/at/all, type: Directory }", "name: fast, emptyDir: {}"],
        ),
    );
    node.wait_event(&["FailedMount", "nowhere"]);
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    let (unmount, _) = collector.wait_for("volume_unmount");
    let (mount, _) = collector.wait_for("volume_mount");
    assert_ne!(unmount.trace_id, mount.trace_id);
    let (_, failed) = collector.find("the failed mount", |span| {
        span.name == "volume_mount" && attributes(&span.attributes)["plugin"] == "kubernetes.io/host-path"
    });
    let status = failed.status.unwrap();
    assert_eq!(status.code(), StatusCode::Error);
    assert!(status.message.contains("/nowhere/at/all"), "{status:?}");
}

#[test]
fn a_collector_that_is_not_there_changes_nothing_but_the_log() {
    let mut node = Node::builder().arguments(&["--otlp-endpoint", "unix:/nowhere/collector.sock"]).start();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: fast, emptyDir: { medium: Memory }"]));
    node.wait_mounted("default/a");
    assert!(node.terminate().success());
    assert!(node.log().contains("opentelemetry"), "the operator finds it in the log: {}", node.log());
}
