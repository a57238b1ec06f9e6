//! CSIStorageCapacity objects: the scheduler knows where a volume has room.

use serde_json::Value;
use volhost_tests::cluster::Cluster;
use volhost_tests::wait::eventually;

use crate::controllers::{Controller, NAMESPACE};
use crate::storage::Storage;

const MIB: u64 = 1 << 20;

/// The capacity objects of a class: the segment, and the bytes.
fn published(cluster: &Cluster, class: &str) -> Vec<(Value, u64)> {
    let all = cluster.kubectl(&["get", "csistoragecapacities", "-n", NAMESPACE, "-o", "json"]);
    let all: Value = serde_json::from_str(&all).unwrap();
    let of_class = all["items"].as_array().unwrap().iter().filter(|object| object["storageClassName"] == class);
    of_class
        .map(|object| {
            let capacity = object["capacity"].as_str().unwrap();
            let bytes = volhost_model::quantity::parse_bytes(capacity).unwrap();
            (object["nodeTopology"]["matchLabels"].clone(), bytes)
        })
        .collect()
}

#[test]
fn the_scheduler_waits_for_room_and_uses_it_once_it_is_there() {
    let storage = Storage::start("capacity", "WaitForFirstConsumer");
    let cluster = &storage.driver.cluster;
    // A disk of its own, whose room nothing else changes.
    let disk = storage.driver.images().display().to_string();
    let mounted = cluster.node().inside("mount").args(["-t", "tmpfs", "-o", "size=64m", "disk", &disk]).status();
    assert!(mounted.unwrap().success());
    let mut controller = Controller::start(&storage.driver, "capacity-controller", &["--poll-interval", "1h"]);
    controller.wait_leads();
    assert_eq!(published(cluster, "capacity"), [], "the CSIDriver object does not ask for it");
    cluster.kubectl(&["patch", "csidriver", "capacity.test", "-p", r#"{"spec":{"storageCapacity":true}}"#]);
    assert!(eventually(|| !published(cluster, "capacity").is_empty()), "{}", controller.known());
    let shown = published(cluster, "capacity");
    assert_eq!(shown, [(serde_json::json!({ "capacity.test/node": "here" }), 64 * MIB)], "{}", controller.known());

    // The room is taken when the volume is created.
    cluster.apply(
        "apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: { name: capacity-full }
driverName: capacity.test
parameters: { allocation: full }
",
    );
    let claim = |name: &str, size: &str| {
        cluster.apply(&storage.claim_text(name, "volumeAttributesClassName: capacity-full").replace("16Mi", size));
        let volumes = format!("volumes: [{{ name: data, persistentVolumeClaim: {{ claimName: {name} }} }}]");
        storage.driver.apply_pod_with(&format!("{name}-pod"), "", &volumes);
    };
    claim("capacity-first", "40Mi");
    cluster.wait_running("capacity-first-pod");
    // By the volume, not by the clock.
    let room = || published(cluster, "capacity").first().map(|(_, bytes)| *bytes).unwrap_or_default();
    assert!(eventually(|| room() <= 24 * MIB), "{}: {}", room(), controller.known());

    claim("capacity-second", "48Mi");
    let said = || {
        let of = "involvedObject.name=capacity-second-pod";
        cluster.kubectl(&["get", "events", "--field-selector", of, "-o", "jsonpath={.items[*].message}"])
    };
    assert!(eventually(|| said().contains("did not have enough free storage")), "{}\n{}", said(), controller.known());
    // No node was chosen, and so the driver was not asked.
    let annotations = cluster.kubectl(&["get", "pvc", "capacity-second", "-o", "jsonpath={.metadata.annotations}"]);
    assert!(!annotations.contains("selected-node"), "{annotations}");

    cluster.delete_pod("capacity-first-pod");
    cluster.kubectl(&["delete", "pvc", "capacity-first"]);
    cluster.wait_running("capacity-second-pod");

    // An object that was deleted by hand comes again; one of a class that is gone goes.
    cluster.kubectl(&[
        "delete",
        "csistoragecapacities",
        "-n",
        NAMESPACE,
        "-l",
        "csi.storage.k8s.io/drivername=capacity.test",
    ]);
    assert!(eventually(|| published(cluster, "capacity").len() == 1), "{}", controller.known());
    cluster.delete_pod("capacity-second-pod");
    cluster.kubectl(&["delete", "pvc", "capacity-second"]);
    storage.assert_gone(&controller);
    cluster.kubectl(&["delete", "storageclass", "capacity"]);
    assert!(eventually(|| published(cluster, "capacity").is_empty()), "{}", controller.known());
    controller.assert_permitted();
    assert!(controller.terminate().success(), "{}", controller.log());
    assert!(cluster.node().inside("umount").arg(&disk).status().unwrap().success());
}
