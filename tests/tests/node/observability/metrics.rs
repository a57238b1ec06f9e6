//! The figures: at the command line, over HTTP, and when storage hangs.

use std::io::Write;
use std::net::TcpStream;

use volhost_tests::Node;
use volhost_tests::fuse::FuseServer;
use volhost_tests::manifests::{local_volume, pod};
use volhost_tests::wait::eventually;

use crate::observability::figures::{Figures, address, node_with_a_claim, node_with_a_driver};
use volhost_tests::http::{request, request_with};

const EMPTY_DIR: &str = "kubernetes.io/empty-dir";
const LOCAL: &str = "kubernetes.io/local-volume";

#[test]
fn operations_are_counted_by_plugin_kind_and_end() {
    let node = node_with_a_claim(&[]);
    let figures = Figures::of(&node);
    let mounted = [("volume_plugin", EMPTY_DIR), ("operation_name", "volume_mount"), ("status", "success")];
    assert_eq!(figures.value("volume_manager_operations_total", &mounted), 1.0);
    assert_eq!(figures.value("volume_manager_operation_duration_seconds_count", &mounted), 1.0);
    let as_kubelet = [&mounted[..], &[("migrated", "false")]].concat();
    assert_eq!(figures.value("storage_operation_duration_seconds_count", &as_kubelet), 1.0);
    let overall = [("plugin_name", LOCAL), ("operation_name", "overall_volume_mount")];
    assert_eq!(figures.value("volume_operation_total_seconds_count", &overall), 1.0);
    assert!(figures.value("volume_operation_total_seconds_sum", &overall) > 0.0);

    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    let figures = Figures::of(&node);
    let unmounted = [("volume_plugin", LOCAL), ("operation_name", "volume_unmount"), ("status", "success")];
    assert_eq!(figures.value("volume_manager_operations_total", &unmounted), 1.0);
}

#[test]
fn a_failure_is_counted_and_the_volume_is_shown_as_one_to_mount() {
    let node = Node::start_default();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: gone, hostPath: { path: /nowhere/at/all, type: Directory }"]));
    node.wait_event(&["FailedMount", "nowhere"]);
    let figures = Figures::of(&node);
    let host_path = "kubernetes.io/host-path";
    let failed = [("volume_plugin", host_path), ("operation_name", "volume_mount"), ("status", "fail-unknown")];
    assert!(figures.value("storage_operation_duration_seconds_count", &failed) >= 1.0);
    let succeeded = [("volume_plugin", host_path), ("operation_name", "volume_mount"), ("status", "success")];
    assert_eq!(figures.value("volume_manager_operations_total", &succeeded), 0.0, "every outcome begins with 0");
    let missing = [("plugin_name", host_path), ("state", "to_mount")];
    assert_eq!(figures.value("volume_manager_state_diff", &missing), 1.0);
    let pending = ["running", "waiting"].map(|state| {
        figures.value("volume_manager_pending_operations", &[("plugin_name", host_path), ("state", state)])
    });
    assert_eq!(pending.iter().sum::<f64>(), 1.0, "it runs again, or waits for its next try");
}

#[test]
fn a_volume_that_cannot_be_resolved_is_counted() {
    let node = Node::start_default();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: data, persistentVolumeClaim: { claimName: nobody-made-it }"]));
    node.wait_event(&["nobody-made-it"]);
    assert_eq!(Figures::of(&node).value("volume_manager_state_diff", &[("state", "unresolved")]), 1.0);
}

#[test]
fn the_two_worlds_and_a_restart_are_counted() {
    let mut node = node_with_a_claim(&[]);
    for state in ["desired_state_of_world", "actual_state_of_world"] {
        for plugin in [LOCAL, EMPTY_DIR] {
            let labels = [("plugin_name", plugin), ("state", state)];
            assert_eq!(Figures::of(&node).value("volume_manager_total_volumes", &labels), 1.0, "{labels:?}");
        }
    }
    assert_eq!(Figures::of(&node).value("reconstruct_volume_operations_total", &[]), 0.0);
    node.kill();
    node.start();
    let figures = Figures::of(&node);
    assert_eq!(figures.value("reconstruct_volume_operations_total", &[]), 2.0);
    assert_eq!(figures.value("reconstruct_volume_operations_errors_total", &[]), 0.0);
}

#[test]
fn a_claim_shows_how_full_its_volume_is() {
    let node = node_with_a_claim(&[]);
    let claim = [("namespace", "default"), ("persistentvolumeclaim", "data-claim")];
    let figures = Figures::once(&node, |figures| figures.has("kubelet_volume_stats_capacity_bytes", &claim));
    let of = |name: &str| figures.value(&format!("kubelet_volume_stats_{name}"), &claim);
    let (capacity, used, available) = (of("capacity_bytes"), of("used_bytes"), of("available_bytes"));
    assert!(capacity > 0.0 && used <= capacity && available <= capacity, "{capacity} {used} {available}");
    assert_eq!(of("inodes"), of("inodes_free") + of("inodes_used"));
    assert!(!figures.0.contains("uid-a"), "no label grows with the number of pods");
}

#[test]
fn connections_that_never_read_or_never_ask_leave_room_for_a_scrape() {
    let node = node_with_a_claim(&["--metrics-listen", "127.0.0.1:0"]);
    let address = address(&node);
    let never_asking: Vec<_> = (0..40).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(request(address, "GET", "/metrics").status, 200);
    let never_reading: Vec<_> = (0..40)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            // More answers than the buffers of a connection can take.
            let asked = "GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n".repeat(200);
            // The daemon may have closed the connection after the first answer.
            let _ = stream.write_all(asked.as_bytes());
            stream
        })
        .collect();
    assert_eq!(request(address, "GET", "/metrics").status, 200);
    drop((never_asking, never_reading));
}

#[test]
fn metrics_are_served_over_http_only_when_asked_for() {
    let node = node_with_a_claim(&["--metrics-listen", "127.0.0.1:0"]);
    let address = address(&node);
    let answer =
        request_with(address, "Accept: application/openmetrics-text;version=1.0.0,*/*;q=0.1", "GET", "/metrics");
    assert_eq!(answer.status, 200);
    assert!(answer.headers.contains("content-type: application/openmetrics-text; version=1.0.0"), "{}", answer.headers);
    assert!(
        answer.body.ends_with("# EOF\n") && answer.body.contains("process_resident_memory_bytes"),
        "{}",
        answer.body
    );
    let plain = request(address, "GET", "/metrics");
    assert!(plain.headers.contains("content-type: text/plain; version=0.0.4"), "{}", plain.headers);
    assert!(plain.body.contains("# TYPE volume_manager_operations_total counter\n"), "{}", plain.body);
    assert_eq!(request(address, "GET", "/elsewhere").status, 404);
    assert_eq!(request(address, "POST", "/metrics").status, 405);
    assert!(!Node::start_default().log().contains("metrics are served"));
}

#[test]
fn an_address_that_is_taken_is_named_with_the_way_out() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut node = Node::builder().arguments(&["--metrics-listen", &address]).build();
    assert!(!node.try_start());
    let log = node.log();
    assert!(
        log.contains(&format!("cannot listen for metrics at {address}")) && log.contains("--metrics-listen"),
        "{log}"
    );
}

#[test]
fn a_hung_volume_delays_no_scrape_and_no_other_volume_and_comes_back() {
    let node = Node::builder().prepare("mkdir $NODE/disk/good $NODE/disk/hung").start();
    let disk = |name: &str| node.folder().join("disk").join(name);
    let storage = FuseServer::mount(&node, &disk("hung"));
    let volumes = ["good", "hung"].map(|name| local_volume(name, &disk(name).display().to_string(), "test-node"));
    let claims =
        ["good", "hung"].map(|name| format!("name: {name}, persistentVolumeClaim: {{ claimName: {name}-claim }}"));
    let wanted = pod("a", "uid-a", &claims.each_ref().map(String::as_str));
    node.manifest("a.yaml", &format!("{}---\n{}---\n{wanted}", volumes[0], volumes[1]));
    node.wait_mounted("default/a");

    storage.hang();
    let capacity = "kubelet_volume_stats_capacity_bytes";
    // Every scrape is answered, although the storage of one volume never answers.
    let figures = Figures::once(&node, |figures| figures.has(capacity, &[("persistentvolumeclaim", "good-claim")]));
    assert!(eventually(|| storage.is_asked()));
    assert!(!figures.has(capacity, &[("persistentvolumeclaim", "hung-claim")]));
    let unanswered = |figures: &Figures| figures.value("volhost_volume_stats_unanswered", &[("plugin_name", LOCAL)]);
    Figures::once(&node, |figures| unanswered(figures) == 1.0);
    // The node goes on, this plugin's other volumes included.
    node.manifest("b.yaml", &pod("b", "uid-b", &["name: good, persistentVolumeClaim: { claimName: good-claim }"]));
    node.wait_mounted("default/b");

    storage.go_on();
    let back = Figures::once(&node, |figures| unanswered(figures) == 0.0);
    let capacity = back.value(capacity, &[("persistentvolumeclaim", "hung-claim")]);
    assert_eq!(capacity, 4_096_000.0);
}

#[test]
fn every_metric_that_is_served_is_documented() {
    let (node, _driver) = node_with_a_driver(&[]);
    let page = std::fs::read_to_string(volhost_tests::artifacts::workspace().join("docs/observability.md")).unwrap();
    let served = node.ok(&["metrics"]);
    let names = served.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    // The process's own are the usual ones of every Prometheus client.
    let missing: Vec<&str> =
        names.filter(|name| !name.starts_with("process_") && !page.contains(&format!("`{name}"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
