//! A node that makes volumes: by the plugin `loop` itself, or by `loop` served as a CSI driver that
//! the plugin `csi` calls.

use std::fs;
use std::path::PathBuf;

use volhost_tests::csi_serve::CsiServe;
use volhost_tests::loop_devices::LoopDevices;
use volhost_tests::wait::eventually;
use volhost_tests::{Node, artifacts};

/// The name by which `loop` is served.
pub(crate) const SERVED: &str = "images.example.com";
/// The name that it has itself.
pub(crate) const OWN: &str = "loop.volhost.io";

const GRANTS: &str = "[grants.\"volhost.io/loop\"]\ninterfaces = [\"id-maps\"]\nloop-files = [\"$NODE/disk\"]\n";

/// A node, and the driver that makes its volumes.
pub(crate) struct Host {
    pub(crate) node: Node,
    pub(crate) served: Option<CsiServe>,
    pub(crate) driver: &'static str,
    devices: LoopDevices,
}

impl Host {
    /// The plugin `loop` makes the volumes.
    pub(crate) fn native() -> Self {
        Self::prepared("")
    }

    /// The same, on a node that keeps the volumes of missing claims for so long; none: the default.
    pub(crate) fn with_grace(grace: Option<&str>) -> Self {
        Self::natively("", grace)
    }

    /// The same, on a node that this script prepares.
    pub(crate) fn prepared(script: &str) -> Self {
        Self::natively(script, Some("0s"))
    }

    /// The plugin `loop` would make volumes, and volhost makes none until it is started with
    /// `--provision`.
    pub(crate) fn without_provisioning() -> Self {
        let node = Node::builder().plugin(artifacts::plugin("loop")).config(GRANTS).start();
        let devices = LoopDevices::below(&node.folder().join("disk"));
        Self { node, served: None, driver: OWN, devices }
    }

    fn natively(script: &str, grace: Option<&str>) -> Self {
        let node = Node::builder().plugin(artifacts::plugin("loop")).config(GRANTS).arguments(&["--provision"]);
        let node = match grace {
            Some(grace) => node.arguments(&["--reclaim-grace", grace]),
            None => node,
        };
        let node = node.prepare(script).start();
        let devices = LoopDevices::below(&node.folder().join("disk"));
        Self { node, served: None, driver: OWN, devices }
    }

    /// A CSI driver makes them.
    pub(crate) fn served(arguments: &[&str]) -> Self {
        let mut node = Node::builder()
            .plugin(artifacts::plugin("csi"))
            .arguments(&["--provision", "--reclaim-grace", "0s"])
            .build();
        let registry = node.folder().join(volhost_tests::csi::REGISTRY);
        fs::create_dir_all(&registry).unwrap();
        let registry = registry.display().to_string();
        node.add_arguments(&["--plugin-registry", &registry]);
        node.start();
        let own = ["--driver-name", SERVED, "--registration-dir", &registry];
        let served = CsiServe::start(&node, &artifacts::plugin("loop"), &[&own[..], arguments].concat());
        node.wait_event(&["DriverRegistered", SERVED]);
        let devices = LoopDevices::below(&node.folder().join("disk"));
        Self { node, served: Some(served), driver: SERVED, devices }
    }

    /// A class of this driver.
    pub(crate) fn class(&self, name: &str, more: &str) {
        self.node.manifest(&format!("class-{name}.yaml"), &class(name, self.driver, more));
    }

    /// A claim of that class.
    pub(crate) fn claim(&self, name: &str, class: &str, size: &str) {
        self.node.manifest(&format!("claim-{name}.yaml"), &claim(name, class, size, ""));
    }

    pub(crate) fn remove_claim(&self, name: &str) {
        self.node.remove_manifest(&format!("claim-{name}.yaml"));
    }

    /// The images that there are.
    pub(crate) fn images(&self) -> Vec<String> {
        let files = fs::read_dir(self.node.folder().join("disk")).unwrap().flatten();
        let files = files.filter(|file| file.file_type().is_ok_and(|kind| kind.is_file()));
        let mut names: Vec<String> = files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The records that there are.
    pub(crate) fn records(&self) -> Vec<String> {
        let folder: PathBuf = self.node.path(&self.node.root().join("provisioned"));
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
        names.retain(|name| name.ends_with(".json") && !name.starts_with('.'));
        names.sort();
        names
    }

    /// A claim's status, as `volhost get pvc` has it; null when there is none.
    pub(crate) fn seen(&self, claim: &str) -> serde_json::Value {
        let output = self.node.cli(&["get", "pvc", claim, "-o", "json"]);
        let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        shown["status"].clone()
    }

    /// Waits until the claim is bound, and returns its volume's name.
    pub(crate) fn bound(&self, claim: &str) -> String {
        let bound = eventually(|| self.seen(claim)["phase"] == "Bound");
        assert!(bound, "{}\n{}\n{}", self.seen(claim), self.node.ok(&["events"]), self.node.log());
        self.seen(claim)["volume"].as_str().unwrap().to_owned()
    }

    /// Waits until nothing is left: no image, no record, no device, no mount.
    pub(crate) fn assert_clean(&self) {
        let clean = || self.images().is_empty() && self.records().is_empty() && self.devices.all().is_empty();
        assert!(
            eventually(clean),
            "{:?} {:?} {:?}\n{}",
            self.images(),
            self.records(),
            self.devices.all(),
            self.node.log()
        );
        assert_eq!(self.node.pod_mounts(), []);
    }
}

pub(crate) fn class(name: &str, driver: &str, more: &str) -> String {
    format!(
        "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {{ name: {name} }}\nprovisioner: {driver}\n{more}"
    )
}

pub(crate) fn claim(name: &str, class: &str, size: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{ name: {name} }}\nspec:\n  accessModes: [ReadWriteOnce]\n  storageClassName: {class}\n  resources: {{ requests: {{ storage: {size} }} }}\n{more}"
    )
}

/// A pod's volume of this claim.
pub(crate) fn claimed(claim: &str) -> String {
    format!("name: data, persistentVolumeClaim: {{ claimName: {claim} }}")
}
