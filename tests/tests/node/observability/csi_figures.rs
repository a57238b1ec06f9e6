//! The figures of CSI drivers, as the kubelet has them.

use volhost_tests::manifests::{csi_volume, pod};

use crate::observability::figures::{DRIVER, Figures, node_with_a_driver};

/// The labels of calls.
fn calls<'a>(method: &'a str, code: &'a str) -> [(&'a str, &'a str); 4] {
    [("driver_name", DRIVER), ("method_name", method), ("grpc_status_code", code), ("migrated", "false")]
}

#[test]
fn calls_of_a_driver_are_counted_by_method_and_status() {
    let (node, driver) = node_with_a_driver(&[]);
    let figures = Figures::of(&node);
    let count = |figures: &Figures, method, code| figures.value("csi_operations_seconds_count", &calls(method, code));
    for method in [
        "/csi.v1.Node/NodeGetInfo",
        "/csi.v1.Controller/ControllerPublishVolume",
        "/csi.v1.Node/NodeStageVolume",
        "/csi.v1.Node/NodePublishVolume",
    ] {
        assert_eq!(count(&figures, method, "OK"), 1.0, "{method}");
    }
    assert!(figures.value("csi_operations_seconds_sum", &calls("/csi.v1.Node/NodeStageVolume", "OK")) > 0.0);

    driver.order("NodeStageVolume answer 8");
    let wanted = "name: disk, persistentVolumeClaim: { claimName: other-claim }";
    let other = csi_volume(DRIVER, "other", "", "Filesystem");
    node.manifest("b.yaml", &format!("{other}---\n{}", pod("b", "uid-b", &[wanted])));
    let exhausted = calls("/csi.v1.Node/NodeStageVolume", "ResourceExhausted");
    Figures::once(&node, |figures| figures.has("csi_operations_seconds_count", &exhausted));
}

#[test]
fn a_registration_socket_is_desired_and_once_its_driver_is_registered_actual() {
    let (node, driver) = node_with_a_driver(&[]);
    let socket = driver.registration().display().to_string();
    let sockets = |figures: &Figures, socket: &str, state| {
        figures.value("plugin_manager_total_plugins", &[("socket_path", socket), ("state", state)])
    };
    let figures = Figures::of(&node);
    assert_eq!(sockets(&figures, &socket, "desired_state_of_world"), 1.0);
    assert_eq!(sockets(&figures, &socket, "actual_state_of_world"), 1.0);
    let drivers = |figures: &Figures, state| figures.value("volhost_drivers", &[("kind", "csi"), ("state", state)]);
    assert_eq!((drivers(&figures, "Ready"), drivers(&figures, "Failed")), (1.0, 0.0));

    // A socket that no driver answers at.
    let silent = driver.registration().with_file_name("silent.sock");
    let _listener = std::os::unix::net::UnixListener::bind(node.path(&silent)).unwrap();
    let silent = silent.display().to_string();
    let found = [("socket_path", silent.as_str()), ("state", "desired_state_of_world")];
    let figures = Figures::once(&node, |figures| figures.has("plugin_manager_total_plugins", &found));
    assert_eq!(sockets(&figures, &silent, "actual_state_of_world"), 0.0);

    std::fs::remove_file(driver.registration()).unwrap();
    node.wait_event(&["DriverRemoved", DRIVER]);
    assert!(!Figures::of(&node).has("plugin_manager_total_plugins", &[("socket_path", &socket)]));
}
