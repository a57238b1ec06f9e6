//! Static volumes of the plugin `loop` on a stock kubelet.

use std::sync::Arc;

use volhost_tests::cluster::Cluster;

use crate::kit::{Driver, MIB};

const AT_DATA: &str = "volumeMounts: [{ name: data, mountPath: /data }]";

/// The kubelet dials the registration socket with the socket's path as the authority, which the
/// HTTP/2 library refuses.
#[test]
fn a_container_writes_to_a_volume_of_a_driver_that_registered_itself() {
    let driver = Driver::start("static", &[]);
    driver.image("static-pv", 16 * MIB);
    driver.volume("static-pv", "");
    driver.pod("writer", "static-pv", AT_DATA, "");
    driver.cluster.exec("writer", "echo written > /data/word");
    driver.cluster.delete_pod("writer");
    driver.pod("reader", "static-pv", AT_DATA, "");
    assert_eq!(driver.cluster.exec("reader", "cat /data/word"), "written\n");
    driver.cluster.delete_pod("reader");
    driver.assert_gone(&["static-pv"]);
}

/// The kubelet binds the device once for the container, and again for its statistics, which it asks
/// for with its own path.
#[test]
fn a_container_writes_to_a_block_volume_and_the_kubelet_reports_its_size() {
    let driver = Driver::start("block", &[]);
    driver.image("block-pv", 16 * MIB);
    driver.volume("block-pv", "volumeMode: Block");
    let container = "volumeDevices: [{ name: data, devicePath: /dev/data }]";
    driver.pod("device", "block-pv", container, "");
    driver.cluster.exec("device", "echo written | dd of=/dev/data conv=fsync,notrunc 2>/dev/null");
    assert_eq!(driver.cluster.exec("device", "head -c 8 /dev/data"), "written\n");
    driver.wait_capacity("device", 16 * MIB);
    driver.cluster.delete_pod("device");

    // A pod that only reads: the kubelet gives the container a device that it cannot write to.
    let more = "volumes: [{ name: data, persistentVolumeClaim: { claimName: block-pv-claim, readOnly: true } }]";
    driver.apply_pod_with("reader-of-device", container, more);
    driver.cluster.wait_running("reader-of-device");
    assert_eq!(driver.cluster.exec("reader-of-device", "head -c 8 /dev/data"), "written\n");
    driver.cluster.try_exec("reader-of-device", "echo x > /dev/data").unwrap_err();
    driver.cluster.delete_pod("reader-of-device");
    driver.assert_gone(&["block-pv"]);
}

#[test]
fn a_group_is_applied_once_to_a_large_tree_that_asks_for_it() {
    let driver = Driver::start("group", &[]);
    driver.image("group-pv", 16 * MIB);
    driver.volume("group-pv", "");
    let context = "securityContext: { fsGroup: 4242, fsGroupChangePolicy: OnRootMismatch }";
    driver.pod("first", "group-pv", AT_DATA, context);
    driver.cluster.exec("first", "mkdir /data/sub; echo x > /data/sub/file; chgrp 77 /data/sub/file");
    assert_eq!(driver.cluster.exec("first", "stat -c %g /data").trim(), "4242");
    driver.cluster.delete_pod("first");
    driver.pod("second", "group-pv", AT_DATA, context);
    // The root folder has the group: nothing below it is changed.
    assert_eq!(driver.cluster.exec("second", "stat -c %g /data/sub/file").trim(), "77");
    driver.cluster.delete_pod("second");
    let always = "securityContext: { fsGroup: 4242, fsGroupChangePolicy: Always }";
    driver.pod("third", "group-pv", AT_DATA, always);
    assert_eq!(driver.cluster.exec("third", "stat -c %g /data/sub/file").trim(), "4242");
    driver.cluster.delete_pod("third");
    driver.assert_gone(&["group-pv"]);
}

/// As a clone or a restored snapshot in a larger claim is: Kubernetes asks for no growth then. And
/// as a claim that grew while no pod used it: the kubelet asks, after it has staged the volume.
#[test]
fn a_volume_whose_image_has_grown_is_grown_before_its_pod_runs() {
    let driver = Driver::start("grown", &[]);
    driver.image("grown-pv", 16 * MIB);
    driver.volume("grown-pv", "");
    let space = |pod: &str| -> u64 {
        let shown = driver.cluster.exec(pod, "df -k /data | tail -n 1 | awk '{print $2}'");
        shown.trim().parse().unwrap()
    };
    driver.pod("small", "grown-pv", AT_DATA, "");
    assert!(space("small") < 16 << 10);
    driver.cluster.exec("small", "echo kept > /data/word");
    driver.cluster.delete_pod("small");

    driver.image("grown-pv", 64 * MIB);
    driver.pod("larger", "grown-pv", AT_DATA, "");
    assert!(space("larger") > 48 << 10, "{}", space("larger"));
    driver.cluster.delete_pod("larger");

    driver.image("grown-pv", 128 * MIB);
    driver.cluster.kubectl(&["patch", "pv", "grown-pv", "-p", r#"{"spec":{"capacity":{"storage":"128Mi"}}}"#]);
    driver.pod("largest", "grown-pv", AT_DATA, "");
    assert!(space("largest") > 100 << 10, "{}", space("largest"));
    assert_eq!(driver.cluster.exec("largest", "cat /data/word"), "kept\n");
    driver.cluster.wait(&["pvc", "grown-pv-claim"], "jsonpath={.status.capacity.storage}=128Mi");
    driver.cluster.delete_pod("largest");
    driver.assert_gone(&["grown-pv"]);
}

#[test]
fn a_driver_that_is_killed_and_a_kubelet_that_is_killed_leave_the_container_its_volume() {
    let mut driver = Driver::start_in(Arc::new(Cluster::start()), "killed", &[], false);
    driver.wait_registered();
    driver.image("killed-pv", 16 * MIB);
    driver.volume("killed-pv", "");
    let sub_path = "volumeMounts: [{ name: data, mountPath: /data }, { name: data, mountPath: /part, subPath: part }]";
    driver.pod("lasting", "killed-pv", sub_path, "");
    driver.cluster.exec("lasting", "echo before > /part/word; echo mark > /tmp/mark");
    driver.served.kill();
    driver.cluster.exec("lasting", "echo between > /data/between");
    driver.served.run(driver.cluster.node());
    driver.cluster.kill_component("kubelet");
    driver.cluster.start_component("kubelet");
    driver.wait_registered();
    // The container was never ended.
    let words = driver.cluster.exec("lasting", "cat /data/part/word /data/between /tmp/mark");
    assert_eq!(words, "before\nbetween\nmark\n");
    driver.cluster.delete_pod("lasting");
    driver.assert_gone(&["killed-pv"]);
}
