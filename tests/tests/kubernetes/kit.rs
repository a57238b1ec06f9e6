//! A driver on a cluster's node, and the objects that tests make.

use std::fs;
use std::sync::Arc;

use volhost_tests::artifacts;
use volhost_tests::cluster::{Cluster, IMAGE};
use volhost_tests::csi_serve::CsiServe;
use volhost_tests::loop_devices::LoopDevices;
use volhost_tests::wait::eventually;

pub(crate) const MIB: u64 = 1 << 20;

/// The plugin `loop` as a CSI driver of its own name, which registers with the kubelet itself.
pub(crate) struct Driver {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) served: CsiServe,
    pub(crate) devices: LoopDevices,
    name: String,
}

impl Driver {
    /// Serves the driver `NAME.test`, and waits until the kubelet has registered it.
    pub(crate) fn start(name: &str, arguments: &[&str]) -> Self {
        Self::start_as(name, arguments, false)
    }

    /// The same, for a driver whose volumes a controller attaches.
    pub(crate) fn start_attached(name: &str, arguments: &[&str]) -> Self {
        Self::start_as(name, &[&["--enable-attach"], arguments].concat(), true)
    }

    fn start_as(name: &str, arguments: &[&str], attach: bool) -> Self {
        let started = Self::start_in(Cluster::shared(), name, arguments, attach);
        started.wait_registered();
        started
    }

    /// The same in this cluster, which may have no node to register at.
    pub(crate) fn start_in(cluster: Arc<Cluster>, name: &str, arguments: &[&str], attach: bool) -> Self {
        let driver = format!("{name}.test");
        let registry = cluster.registry().display().to_string();
        let own = ["--driver-name", &driver, "--registration-dir", &registry];
        let disk = cluster.node().folder().join("disk").join(name);
        fs::create_dir_all(&disk).unwrap();
        let arguments = [&own[..], arguments].concat();
        let served = CsiServe::start_on(cluster.node(), name, &artifacts::plugin("loop"), &disk, &arguments);
        let started = Self { devices: LoopDevices::below(&disk), name: name.to_owned(), cluster, served };
        started.cluster.apply(&format!(
            "apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {{ name: {driver} }}
spec: {{ attachRequired: {attach}, podInfoOnMount: true, fsGroupPolicy: File, volumeLifecycleModes: [Persistent] }}
"
        ));
        started
    }

    /// Waits until the kubelet has put the driver into the node's CSINode.
    pub(crate) fn wait_registered(&self) {
        let registered =
            || self.cluster.kubectl(&["get", "csinodes", "-o", "jsonpath={.items[*].spec.drivers[*].name}"]);
        let driver = self.driver();
        assert!(
            eventually(|| registered().split_whitespace().any(|name| name == driver)),
            "the kubelet has not registered it; csi-serve's log:\n{}\nthe kubelet's log ends:\n{}",
            self.served.log(),
            self.cluster.log_end("kubelet")
        );
    }

    /// The driver's name.
    pub(crate) fn driver(&self) -> String {
        format!("{}.test", self.name)
    }

    /// The folder of its images.
    pub(crate) fn images(&self) -> std::path::PathBuf {
        self.cluster.node().folder().join("disk").join(&self.name)
    }

    /// Makes the image of a volume, or makes it larger.
    pub(crate) fn image(&self, volume: &str, bytes: u64) {
        let image = fs::File::options().create(true).append(true).open(self.images().join(volume));
        image.unwrap().set_len(bytes).unwrap();
    }

    /// Applies a PersistentVolume over the image of its name, and the claim `NAME-claim` for it.
    pub(crate) fn volume(&self, volume: &str, more: &str) {
        let driver = self.driver();
        let mode = if more.contains("Block") { "Block" } else { "Filesystem" };
        self.cluster.apply(&format!(
            "apiVersion: v1
kind: PersistentVolume
metadata: {{ name: {volume} }}
spec:
  capacity: {{ storage: 16Mi }}
  accessModes: [ReadWriteOnce, ReadOnlyMany]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ''
  claimRef: {{ namespace: default, name: {volume}-claim }}
  csi:
    driver: {driver}
    volumeHandle: {volume}
  {more}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{ name: {volume}-claim }}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: ''
  volumeMode: {mode}
  volumeName: {volume}
  resources: {{ requests: {{ storage: 16Mi }} }}
"
        ));
        self.cluster.wait(&["pvc", &format!("{volume}-claim")], "jsonpath={.status.phase}=Bound");
    }

    /// Applies a pod that has the claim of this volume, and waits until it runs.
    pub(crate) fn pod(&self, pod: &str, volume: &str, container: &str, more: &str) {
        self.apply_pod(pod, volume, container, more);
        self.cluster.wait_running(pod);
    }

    /// Applies a pod that has the claim of this volume.
    pub(crate) fn apply_pod(&self, pod: &str, volume: &str, container: &str, more: &str) {
        let claim = format!("{{ name: data, persistentVolumeClaim: {{ claimName: {volume}-claim }} }}");
        self.apply_pod_with(pod, container, &format!("volumes: [{claim}]\n  {more}"));
    }

    /// Applies a pod with these fields of its one container, and these of its own, `volumes` among
    /// them.
    pub(crate) fn apply_pod_with(&self, pod: &str, container: &str, more: &str) {
        self.cluster.apply(&format!(
            "apiVersion: v1
kind: Pod
metadata: {{ name: {pod} }}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers:
    - name: main
      image: {IMAGE}
      imagePullPolicy: Never
      command: [sleep, inf]
      {container}
  {more}
"
        ));
    }

    /// Waits until the kubelet's statistics show that the pod's volume has this many bytes.
    pub(crate) fn wait_capacity(&self, pod: &str, bytes: u64) {
        let shown = || -> serde_json::Value {
            let pods = self.cluster.stats_summary()["pods"].as_array().cloned().unwrap_or_default();
            pods.into_iter().find(|one| one["podRef"]["name"] == pod).unwrap_or_default()["volume"].clone()
        };
        let is_shown = |volumes: serde_json::Value| {
            volumes.as_array().is_some_and(|all| all.iter().any(|one| one["capacityBytes"] == bytes))
        };
        assert!(eventually(|| is_shown(shown())), "{}\n{}", shown(), self.served.log());
    }

    /// Deletes the claim and the volume of each name, and checks that nothing of the driver is left
    /// on the node: no mount, no loop device, no record.
    pub(crate) fn assert_gone(self, volumes: &[&str]) {
        for volume in volumes {
            self.cluster.kubectl(&["delete", "pvc", &format!("{volume}-claim")]);
            self.cluster.kubectl(&["delete", "pv", volume]);
        }
        assert!(eventually(|| self.devices.all().is_empty()), "{:?}\n{}", self.devices.all(), self.served.log());
        let mounts = || -> Vec<String> {
            let all = self.cluster.node().all_mounts();
            let points = all.iter().map(|mount| mount.point.display().to_string());
            points.filter(|point| volumes.iter().any(|volume| point.contains(volume))).collect()
        };
        assert!(eventually(|| mounts().is_empty()), "{:?}", mounts());
    }
}
