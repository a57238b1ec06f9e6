//! Drivers that fail, lie, and die over the calls that make and delete volumes.

use std::fs;

use volhost_tests::csi::CsiDriver;
use volhost_tests::manifests::pod;
use volhost_tests::wait::eventually;
use volhost_tests::{Node, artifacts};

use crate::provisioning::kit::{claim, claimed, class};

const NAME: &str = "csi.test";

/// A node with a driver that makes volumes on request.
struct Host {
    node: Node,
    driver: CsiDriver,
}

impl Host {
    fn start(capabilities: &[&str], arguments: &[&str]) -> Self {
        let mut node = Node::builder()
            .plugin(artifacts::plugin("csi"))
            .arguments(&["--provision", "--reclaim-grace", "0s"])
            .build();
        let registry = node.folder().join(volhost_tests::csi::REGISTRY).display().to_string();
        node.add_arguments(&["--plugin-registry", &registry]);
        node.add_arguments(arguments);
        node.start();
        let driver = CsiDriver::start(&node, NAME, capabilities);
        node.wait_event(&["DriverRegistered", NAME]);
        node.manifest("driver.yaml", &format!("apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {{ name: {NAME} }}\nspec: {{ attachRequired: false }}\n"));
        node.manifest("class.yaml", &class("fast", NAME, ""));
        Self { node, driver }
    }

    fn claim(&self) {
        self.node.manifest("claim.yaml", &claim("data", "fast", "16Mi", ""));
    }

    fn remove_claim(&self) {
        self.node.remove_manifest("claim.yaml");
    }

    /// The volumes that the driver has made.
    fn made(&self) -> Vec<String> {
        let files = fs::read_dir(self.driver.folder().join("made")).into_iter().flatten().flatten();
        files.map(|file| file.file_name().to_string_lossy().into_owned()).collect()
    }

    fn seen(&self) -> serde_json::Value {
        self.seen_as("data")
    }

    fn seen_as(&self, claim: &str) -> serde_json::Value {
        let output = self.node.cli(&["get", "pvc", claim, "-o", "json"]);
        let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        shown["status"].clone()
    }

    fn assert_bound(&self, claim: &str) {
        let seen = || self.seen_as(claim);
        assert!(eventually(|| seen()["phase"] == "Bound"), "{claim}: {}\n{}", seen(), self.node.log());
        assert_eq!(self.made().len(), 1, "{claim}: {:?}", self.made());
        assert_eq!(seen()["volume"].as_str(), self.made().first().map(String::as_str), "{claim}");
    }

    fn has_no_record(&self) -> bool {
        let folder = self.node.path(&self.node.root().join("provisioned"));
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        !files.map(|file| file.file_name()).any(|name| name.to_string_lossy().ends_with(".json"))
    }

    fn assert_gone(&self, when: &str) {
        let gone = eventually(|| self.made().is_empty() && self.has_no_record());
        assert!(gone, "{when}: {:?}\n{}", self.made(), self.node.log());
    }
}

/// gRPC's statuses, and what they leave.
const FAULTS: [(&str, &str); 8] = [
    ("answer 3", "gRPC code 3"),
    ("answer 8", "gRPC code 8"),
    ("answer 14", "gRPC code 14"),
    ("late 4", "gRPC code 4"),
    ("late 10", "gRPC code 10"),
    ("late 13", "gRPC code 13"),
    ("die", "CreateVolume"),
    ("die-before", "CreateVolume"),
];

/// Lets a claim run into a fault, and the driver come back from it; the claim's name.
fn run_into(host: &mut Host, order: &str, words: &str, meanwhile: impl FnOnce(&Host, &str)) -> String {
    let name = order.replace(' ', "-");
    host.driver.order(&format!("CreateVolume {order}"));
    host.node.manifest("claim.yaml", &claim(&name, "fast", "16Mi", ""));
    host.node.wait_event(&["ProvisioningFailed", &format!("claim default/{name} "), words]);
    meanwhile(host, &name);
    host.driver.order("");
    if order.starts_with("die") {
        host.driver.wait_end();
        host.driver.run(&host.node);
    }
    name
}

#[test]
fn whatever_becomes_of_create_volume_one_volume_comes_of_it() {
    let mut host = Host::start(&["create"], &[]);
    for (order, words) in FAULTS {
        let name = run_into(&mut host, order, words, |_, _| {});
        host.assert_bound(&name);
        host.remove_claim();
        host.assert_gone(order);
    }
}

#[test]
fn a_claim_that_goes_before_its_volume_was_made_leaves_nothing() {
    let mut host = Host::start(&["create"], &[]);
    // A driver that has made the volume and answers with a final error: the host cannot know.
    for (order, words) in FAULTS.into_iter().filter(|(order, _)| *order != "late 13") {
        run_into(&mut host, order, words, |host, _| host.remove_claim());
        host.assert_gone(order);
    }
}

#[test]
fn a_drivers_wrong_answer_is_reported_and_no_claim_gets_the_wrong_volume() {
    let host = Host::start(&["create"], &[]);
    host.node.manifest("first.yaml", &claim("first", "fast", "16Mi", ""));
    assert!(eventually(|| host.seen_as("first")["phase"] == "Bound"), "{}", host.node.log());
    let first = host.made().remove(0);
    for (wrong, words) in [
        ("small".to_owned(), "16777216 were requested"),
        ("empty".to_owned(), "names no volume"),
        ("long".to_owned(), "4096 bytes"),
        (format!("other {first}"), "left alone"),
    ] {
        fs::write(host.driver.folder().join("wrong"), &wrong).unwrap();
        host.claim();
        let reason = || host.seen()["message"].as_str().unwrap_or_default().to_owned();
        assert!(eventually(|| reason().contains(words)), "{wrong}: {}\n{}", reason(), host.node.log());
        fs::remove_file(host.driver.folder().join("wrong")).unwrap();
        assert!(eventually(|| host.seen()["phase"] == "Bound"), "{wrong}: {}\n{}", host.seen(), host.node.log());
        host.remove_claim();
        assert!(eventually(|| host.made() == [first.clone()]), "{wrong}: {:?}", host.made());
    }
}

#[test]
fn a_volume_that_cannot_be_deleted_is_tried_again_and_shown_until_it_is() {
    let host = Host::start(&["create"], &[]);
    host.claim();
    host.assert_bound("data");
    let volume = host.made().remove(0);
    host.driver.order("DeleteVolume answer 9");
    host.remove_claim();
    host.node.wait_event(&["VolumeFailedDelete", &volume, "gRPC code 9"]);
    let listed = host.node.ok(&["get", "pv", &volume]);
    assert!(listed.contains("Released") && listed.contains("gRPC code 9"), "{listed}");
    host.driver.order("");
    host.assert_gone("in the end");
    // It is shown a moment longer than its record is on disk.
    assert!(eventually(|| !host.node.cli(&["get", "pv", &volume]).status.success()), "{}", host.node.log());
}

#[test]
fn the_class_reaches_the_driver_and_its_secret_reaches_only_the_driver() {
    let host = Host::start(&["create", "topology", "stage"], &["--node-label", "zone=a"]);
    let more = "parameters:\n  tier: gold\n  csi.storage.k8s.io/fstype: xfs\n  csi.storage.k8s.io/provisioner-secret-name: ${pvc.name}-key\n  csi.storage.k8s.io/provisioner-secret-namespace: ${pvc.namespace}\n  csi.storage.k8s.io/node-stage-secret-name: ${pvc.name}-key\n  csi.storage.k8s.io/node-stage-secret-namespace: ${pvc.namespace}\nmountOptions: [noatime]\nvolumeBindingMode: WaitForFirstConsumer\nallowedTopologies:\n  - matchLabelExpressions: [{ key: zone, values: [a, b] }]\n";
    host.node.manifest("class.yaml", &class("fast", NAME, more));
    host.claim();
    host.node.wait_event(&["WaitForFirstConsumer", "claim default/data"]);
    assert_eq!(host.driver.count("CreateVolume"), 0);
    host.node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("data")]));
    let reason = || host.seen()["message"].as_str().unwrap_or_default().to_owned();
    assert!(eventually(|| reason().contains("there is no Secret default/data-key")), "{}", reason());
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: { name: data-key }\nstringData: { key: hunter2-word }\n";
    host.node.manifest("secret.yaml", secret);
    host.node.wait_mounted("default/a");
    let asked = host.driver.last("CreateVolume");
    for words in ["\"tier\": \"gold\"", "fs_type: \"xfs\"", "noatime", "hunter2-word", "\"zone\": \"a\"", "16777216"] {
        assert!(asked.contains(words), "{words}: {asked}");
    }
    assert!(!asked.contains("csi.storage.k8s.io"), "{asked}");
    assert!(host.driver.last("NodeStageVolume").contains("hunter2-word"));
    host.node.remove_manifest("a.yaml");
    host.remove_claim();
    host.assert_gone("with a secret");
    assert!(host.driver.last("DeleteVolume").contains("hunter2-word"));
    assert!(!host.node.log().contains("hunter2"), "a secret is in the log");

    // Where this node is not, no volume is made.
    host.node.manifest("class.yaml", &class("fast", NAME, &more.replace("[a, b]", "[c]")));
    host.node.manifest("b.yaml", &pod("b", "uid-b", &[&claimed("data")]));
    host.claim();
    assert!(eventually(|| reason().contains("allowedTopologies") && reason().contains("zone=a")), "{}", reason());
    assert_eq!(host.driver.count("CreateVolume"), 1);
}

#[test]
fn a_driver_that_is_not_there_is_waited_for() {
    let mut host = Host::start(&["create"], &[]);
    host.driver.kill();
    fs::remove_file(host.driver.registration()).unwrap();
    host.claim();
    let reason = || host.seen()["message"].as_str().unwrap_or_default().to_owned();
    assert!(eventually(|| reason().contains("not registered")), "{}\n{}", reason(), host.node.log());
    host.driver.run(&host.node);
    host.assert_bound("data");
}
