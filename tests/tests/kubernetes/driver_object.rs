//! The CSIDriver object of a driver that `csi-serve` serves.

use std::fs;

use serde_json::{Value, json};
use volhost_tests::artifacts;
use volhost_tests::cluster::Cluster;
use volhost_tests::csi_serve::CsiServe;
use volhost_tests::wait::eventually;

use crate::controllers::Controller;

/// The driver of `deploy/csi`, whose object its controller may write.
const DRIVER: &str = "loop.volhost.io";

#[test]
fn the_controller_makes_the_object_and_ends_with_one_that_does_not_fit() {
    let cluster = Cluster::shared();
    let disk = cluster.node().folder().join("disk").join("object");
    fs::create_dir_all(&disk).unwrap();
    let serve = |name: &str, more: &[&str]| {
        let own = ["--driver-name", DRIVER, "--topology", "volhost.io/loop-node=here"];
        CsiServe::start_on(cluster.node(), name, &artifacts::plugin("loop"), &disk, &[&own[..], more].concat())
    };
    let object = || -> Option<Value> {
        let found = cluster.try_kubectl(&["get", "csidriver", DRIVER, "-o", "json"]).ok()?;
        serde_json::from_str(&found).ok()
    };
    let attaching = serve("object-attaching", &["--enable-attach"]);
    let controller = Controller::start_for(&cluster, &attaching, DRIVER, "object-controller", &[]);
    assert!(eventually(|| object().is_some()), "{}", controller.known());
    let spec = object().unwrap()["spec"].clone();
    for (field, value) in [
        ("attachRequired", json!(true)),
        ("podInfoOnMount", json!(true)),
        ("fsGroupPolicy", json!("File")),
        ("storageCapacity", json!(true)),
        ("requiresRepublish", json!(false)),
        ("seLinuxMount", json!(true)),
        ("volumeLifecycleModes", json!(["Persistent"])),
    ] {
        assert_eq!(spec[field], value, "{field}: {spec}");
    }

    // Its own object is kept as it is to be, and made again.
    let none = r#"{"spec":{"fsGroupPolicy":"None"}}"#;
    cluster.kubectl(&["patch", "csidriver", DRIVER, "--type=merge", "-p", none]);
    let policy = || object().map(|object| object["spec"]["fsGroupPolicy"].clone());
    assert!(eventually(|| policy() == Some(json!("File"))), "{}", controller.known());
    let before = object().unwrap()["metadata"]["uid"].clone();
    cluster.kubectl(&["delete", "csidriver", DRIVER]);
    let is_new = || object().is_some_and(|object| object["metadata"]["uid"] != before);
    assert!(eventually(is_new), "{}", controller.known());
    controller.assert_permitted();
    drop(controller);
    drop(attaching);

    // Kubernetes would wait for a driver that attaches nothing, or not wait for one that does.
    let reserving = serve("object-reserving", &[]);
    let mut refused = Controller::start_for(&cluster, &reserving, DRIVER, "object-refused", &[]);
    assert_eq!(refused.wait_ended().code(), Some(2), "{}", refused.log());
    let log = refused.log();
    assert!(log.contains("spec.attachRequired is true") && log.contains("kubectl delete csidriver"), "{log}");
    // One that an administrator made stays, but for what cannot work.
    cluster.kubectl(&["delete", "csidriver", DRIVER]);
    cluster.apply(&format!(
        "apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {{ name: {DRIVER} }}
spec: {{ attachRequired: false, podInfoOnMount: true, fsGroupPolicy: None, volumeLifecycleModes: [Persistent, Ephemeral] }}
"
    ));
    let mut other = Controller::start_for(&cluster, &reserving, DRIVER, "object-other", &[]);
    let differs = "the driver suggests other values of: fsGroupPolicy, seLinuxMount, storageCapacity";
    assert!(eventually(|| other.log().contains(differs)), "{}", other.known());
    assert_eq!(policy(), Some(json!("None")));
    assert!(other.terminate().success(), "{}", other.log());
    cluster.kubectl(&["delete", "csidriver", DRIVER]);
}
