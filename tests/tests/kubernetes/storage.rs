//! A driver with a class, and the claims of a test.

use std::fs;

use volhost_tests::wait::eventually;

use crate::controllers::Controller;
use crate::kit::Driver;

const AT_DATA: &str = "volumeMounts: [{ name: data, mountPath: /data }]";

/// A driver whose class is `NAME`, and the claims of a test.
pub(crate) struct Storage {
    pub(crate) driver: Driver,
    name: String,
    size: &'static str,
}

impl Storage {
    /// Serves the driver `NAME.test`, and makes its class.
    pub(crate) fn start(name: &str, binding: &str) -> Self {
        Self::with(name, binding, "ext4", "16Mi")
    }

    /// With claims of this size, and this file system.
    pub(crate) fn with(name: &str, binding: &str, fs_type: &str, size: &'static str) -> Self {
        let topology = format!("{name}.test/node=here");
        let driver = Driver::start_attached(name, &["--topology", &topology]);
        Self::of(driver, name, binding, fs_type, size)
    }

    /// Makes the class of a driver.
    pub(crate) fn of(driver: Driver, name: &str, binding: &str, fs_type: &str, size: &'static str) -> Self {
        driver.cluster.apply(&format!(
            "apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{ name: {name} }}
provisioner: {name}.test
parameters: {{ csi.storage.k8s.io/fstype: {fs_type}, folder: {} }}
allowVolumeExpansion: true
volumeBindingMode: {binding}
",
            driver.images().display()
        ));
        Self { driver, name: name.to_owned(), size }
    }

    /// Applies a claim. `more`: further fields of its specification.
    pub(crate) fn claim(&self, claim: &str, more: &str) {
        self.driver.cluster.apply(&self.claim_text(claim, more));
    }

    /// The manifest of a claim.
    pub(crate) fn claim_text(&self, claim: &str, more: &str) -> String {
        claim_of(claim, &self.name, more).replace("16Mi", self.size)
    }

    /// Applies a pod that has the claim in `/data`, and waits until it runs.
    pub(crate) fn pod(&self, pod: &str, claim: &str) {
        let volumes = format!("volumes: [{{ name: data, persistentVolumeClaim: {{ claimName: {claim} }} }}]");
        self.driver.apply_pod_with(pod, AT_DATA, &volumes);
        self.driver.cluster.wait_running(pod);
    }

    /// The names of the driver's PersistentVolumes.
    pub(crate) fn volumes(&self) -> Vec<String> {
        let of_driver =
            format!("{{range .items[?(@.spec.csi.driver==\"{}\")]}}{{.metadata.name}} {{end}}", self.driver.driver());
        let found = self.driver.cluster.kubectl(&["get", "pv", "-o", &format!("jsonpath={of_driver}")]);
        found.split_whitespace().map(str::to_owned).collect()
    }

    /// The image files.
    pub(crate) fn images(&self) -> Vec<String> {
        let files = fs::read_dir(self.driver.images()).unwrap();
        files
            .map(|file| file.unwrap().file_name().display().to_string())
            .filter(|name| !name.starts_with('.'))
            .collect()
    }

    /// Waits until nothing of the driver is left: no PersistentVolume, attachment, image or device.
    pub(crate) fn assert_gone(&self, controller: &Controller) {
        let attached = || {
            let of_driver =
                format!("{{range .items[?(@.spec.attacher==\"{}\")]}}{{.metadata.name}} {{end}}", self.driver.driver());
            self.driver.cluster.kubectl(&["get", "volumeattachments", "-o", &format!("jsonpath={of_driver}")])
        };
        let is_gone = || {
            self.volumes().is_empty()
                && attached().is_empty()
                && self.images().is_empty()
                && self.driver.devices.all().is_empty()
        };
        let left = || (self.volumes(), attached(), self.images(), self.driver.devices.all());
        assert!(eventually(is_gone), "{:?}\n{}\n{}", left(), controller.known(), self.driver.served.log());
    }
}

/// The manifest of a claim of 16 MiB.
pub(crate) fn claim_of(claim: &str, class: &str, more: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{ name: {claim} }}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: {class}
  resources: {{ requests: {{ storage: 16Mi }} }}
  {more}
"
    )
}
