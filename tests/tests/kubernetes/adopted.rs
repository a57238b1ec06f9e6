//! volhost takes over the root folder of a stock kubelet, while the kubelet's containers run.

use std::fs;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use volhost_tests::artifacts;
use volhost_tests::cluster::{Cluster, IMAGE, NODE};
use volhost_tests::wait::eventually;

use crate::kit::{Driver, MIB};

const POD: &str = "taken";
/// The volumes of the pod: each kind that the kubelet lays out in a way of its own, and `$HOST`.
const VOLUMES: &str = "
    - { name: scratch, emptyDir: {} }
    - { name: memory, emptyDir: { medium: Memory } }
    - { name: words, configMap: { name: taken-words } }
    - { name: disk, persistentVolumeClaim: { claimName: taken-pv-claim } }
    - { name: raw, persistentVolumeClaim: { claimName: taken-raw-claim } }
    - { name: host, $HOST }
";
const MOUNTS: &str = "[{ name: scratch, mountPath: /scratch }, { name: memory, mountPath: /memory },
        { name: words, mountPath: /words }, { name: disk, mountPath: /disk }, { name: host, mountPath: /host },
        { name: disk, mountPath: /part, subPath: part }]";
/// The container writes into each of these again and again.
const WRITTEN: [&str; 4] = ["scratch", "memory", "disk", "part"];

/// The daemon on the kubelet's root folder.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Taken {
    driver: Driver,
    uid: String,
}

impl Taken {
    /// A cluster of its own, whose pod runs and writes. It also has this volume.
    fn start(host: &str) -> Self {
        let driver = Driver::start_in(Arc::new(Cluster::start()), "taken", &[], false);
        driver.wait_registered();
        driver.image("taken-pv", 16 * MIB);
        driver.volume("taken-pv", "");
        driver.image("taken-raw", 16 * MIB);
        driver.volume("taken-raw", "volumeMode: Block");
        let cluster = &driver.cluster;
        let script = "while true; do for at in scratch memory disk part; do date +%s%N > /$at/now; done; \
                      date +%s%N | dd of=/dev/raw conv=fsync,notrunc 2>/dev/null; done";
        cluster.apply(&format!(
            "apiVersion: v1
kind: ConfigMap
metadata: {{ name: taken-words }}
data: {{ word: hello }}
---
apiVersion: v1
kind: Pod
metadata: {{ name: {POD} }}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers:
    - name: main
      image: {IMAGE}
      imagePullPolicy: Never
      command: [sh, -c, {script:?}]
      volumeMounts: {MOUNTS}
      volumeDevices: [{{ name: raw, devicePath: /dev/raw }}]
  volumes: {}",
            VOLUMES.replace("$HOST", host)
        ));
        cluster.wait_running(POD);
        let uid = cluster.kubectl(&["get", "pod", POD, "-o", "jsonpath={.metadata.uid}"]);
        Self { driver, uid }
    }

    fn cluster(&self) -> &Cluster {
        &self.driver.cluster
    }

    fn root(&self) -> PathBuf {
        self.cluster().kubelet()
    }

    fn of_pod(&self, path: &str) -> PathBuf {
        let inside = self.root().join("pods").join(&self.uid).join(path);
        self.cluster().node().path(&inside)
    }

    fn command(&self) -> Command {
        let (node, root) = (self.cluster().node(), self.root());
        for plugin in ["config-map", "csi", "secret", "projected", "downward-api"] {
            let file = artifacts::plugin(plugin);
            fs::copy(&file, node.folder().join("plugins").join(file.file_name().unwrap())).unwrap();
        }
        let config = node.folder().join("taken.toml");
        let grant = "[grants.\"kubernetes.io/host-path\"]\nhost-paths = [\"/usr/share\"]\n";
        fs::write(&config, grant).unwrap();
        let mut command = node.inside(artifacts::volhostd());
        command.arg("run").arg("--root-dir").arg(&root).arg("--config").arg(config);
        command.arg("--plugin-dir").arg(node.folder().join("plugins"));
        command.arg("--plugin-registry").arg(self.cluster().registry());
        command.arg("--cache-dir").arg(node.folder().join("cache")).arg("--socket").arg(node.socket());
        command.args(["--node-name", NODE, "--kubernetes", "--kubeconfig"]).arg(self.cluster().kubeconfig());
        command
    }

    fn log_file(&self) -> PathBuf {
        self.cluster().node().folder().join("taken.log")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn run(&self) -> Daemon {
        let log = fs::File::options().create(true).append(true).open(self.log_file()).unwrap();
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).process_group(0);
        Daemon(command.spawn().unwrap())
    }

    /// Runs `volhost adopt` with these arguments. Returns whether it succeeded, and what it printed.
    fn adopt(&self, arguments: &[&str]) -> (bool, String) {
        let mut command = self.cluster().node().inside(artifacts::volhost());
        let output =
            command.args(["adopt", "--kubelet-root"]).arg(self.root()).args(arguments).stdin(Stdio::null()).output();
        let output = output.unwrap();
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        (output.status.success(), text)
    }

    /// The mounts below the kubelet's root folder: their ids and points.
    fn mounts(&self) -> Vec<(u64, PathBuf)> {
        let mut mounts = self.cluster().node().mount_ids_below(&self.root());
        mounts.sort();
        mounts
    }

    /// Every file and folder below the kubelet's root folder, but those inside volumes.
    fn files(&self) -> Vec<PathBuf> {
        fn below(folder: &Path, all: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let is_volume = folder.file_name().is_some_and(|name| name.to_string_lossy().contains('~'));
                all.push(entry.path());
                if !is_volume && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    below(&entry.path(), all);
                }
            }
        }
        let mut all = Vec::new();
        below(&self.cluster().node().path(&self.root()), &mut all);
        all.sort();
        all
    }

    /// Waits until the daemon has all volumes of the pod.
    fn wait_mounted(&self) {
        let node = self.cluster().node();
        let shown = || String::from_utf8_lossy(&node.cli(&["get", "pods"]).stdout).into_owned();
        let is_mounted = || shown().lines().any(|line| line.contains(POD) && line.contains("Mounted"));
        assert!(eventually(is_mounted), "{}\n{}", shown(), self.log());
    }

    /// Nothing of the pod is left: no folder, no mount, no staged volume.
    fn assert_gone(self) {
        let folder = self.of_pod("");
        assert!(eventually(|| !folder.exists()), "{:?}\n{}", self.files(), self.log());
        let volumes = || -> Vec<_> {
            let left = self.mounts().into_iter().map(|(_, point)| point);
            left.filter(|point| *point != self.root().join("state")).collect()
        };
        assert!(eventually(|| volumes().is_empty()), "{:?}\n{}", volumes(), self.log());
        for staged in ["taken.test", "volumeDevices/taken-raw", "volumeDevices/staging", "volumeDevices/publish"] {
            let staged = self.cluster().node().path(&self.root().join("plugins/kubernetes.io/csi").join(staged));
            let is_empty = || std::fs::read_dir(&staged).map_or(true, |mut left| left.next().is_none());
            assert!(eventually(is_empty), "{}: {:?}\n{}", staged.display(), self.files(), self.log());
        }
        self.driver.assert_gone(&["taken-pv", "taken-raw"]);
    }

    /// The container writes: what it wrote last changes at each place, and in the image of its device.
    fn assert_writes(&self) {
        let image = self.driver.images().join("taken-raw");
        let read = || {
            let mut first = [0; 19];
            fs::File::open(&image).unwrap().read_exact(&mut first).unwrap();
            first
        };
        let before = read();
        assert!(eventually(|| read() != before), "{}\n{}", image.display(), self.log());
        for place in WRITTEN {
            let file = self.of_pod(&match place {
                "disk" => "volumes/kubernetes.io~csi/taken-pv/mount/now".to_owned(),
                "part" => "volumes/kubernetes.io~csi/taken-pv/mount/part/now".to_owned(),
                other => format!("volumes/kubernetes.io~empty-dir/{other}/now"),
            });
            let read = || fs::read_to_string(&file).unwrap_or_default();
            let before = read();
            assert!(eventually(|| !read().is_empty() && read() != before), "{}\n{}", file.display(), self.log());
        }
    }
}

#[test]
fn a_kubelets_root_folder_is_adopted_under_running_containers() {
    let taken = Taken::start("hostPath: { path: /usr/share, type: Directory }");
    taken.assert_writes();

    let (done, said) = taken.adopt(&["--yes"]);
    assert!(!done && said.contains("a kubelet answers at"), "{said}");
    taken.cluster().kill_component("kubelet");
    let refused = taken.command().output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    let way_out = format!("volhost adopt --kubelet-root {}", taken.root().display());
    assert!(!refused.status.success() && said.contains(&way_out), "{said}");

    let (before, files) = (taken.mounts(), taken.files());
    let (done, table) = taken.adopt(&["--dry-run"]);
    assert!(done, "{table}");
    for words in [
        "volume scratch of kubernetes.io/empty-dir: a folder",
        "volume memory of kubernetes.io/empty-dir: tmpfs",
        "volume words of kubernetes.io/configmap: a folder",
        "taken-pv of driver taken.test",
        "staged volume of driver taken.test",
        "sub-path of volume taken-pv for container main",
        "device taken-raw of kubernetes.io/csi: taken-raw of driver taken.test",
        "staged device taken-raw: taken-raw of driver taken.test",
        "the kubelet's mark of a finished emptyDir",
    ] {
        assert!(table.contains(words), "{words}\n{table}");
    }
    let (done, said) = taken.adopt(&[]);
    assert!(!done && said.contains("nothing was changed"), "without an answer: {said}");
    assert_eq!((taken.mounts(), taken.files()), (before.clone(), files));
    let (done, said) = taken.adopt(&["--yes"]);
    assert!(done && said.contains("is adopted"), "{said}");
    assert_eq!(taken.mounts(), before);

    let daemon = taken.run();
    taken.wait_mounted();
    let after = taken.mounts();
    let lost: Vec<_> = before.iter().filter(|mount| !after.contains(mount)).collect();
    assert!(lost.is_empty(), "unmounted: {lost:?}\n{}", taken.log());
    taken.assert_writes();
    let word = fs::read_to_string(taken.of_pod("volumes/kubernetes.io~configmap/words/word"));
    assert_eq!(word.unwrap(), "hello");

    // A restart of the daemon changes nothing either.
    drop(daemon);
    let _daemon = taken.run();
    taken.wait_mounted();
    assert_eq!(taken.mounts(), after);
    taken.assert_writes();

    // Nobody but the test ends the containers of a node without a kubelet.
    taken.cluster().end_containers();
    taken.cluster().kubectl(&["delete", "pod", POD, "--force", "--grace-period=0"]);
    taken.assert_gone();
}

#[test]
fn the_kubelet_takes_its_root_folder_back() {
    let taken = Taken::start("emptyDir: {}");
    taken.cluster().exec(POD, "echo mark > /tmp/mark");
    taken.cluster().kill_component("kubelet");
    let (done, said) = taken.adopt(&["--yes"]);
    assert!(done, "{said}");
    let daemon = taken.run();
    taken.wait_mounted();
    let before = taken.mounts();

    drop(daemon);
    fs::remove_file(taken.cluster().node().path(&taken.root().join("adopted.json"))).unwrap();
    taken.cluster().start_component("kubelet");
    taken.driver.wait_registered();
    assert_eq!(taken.cluster().exec(POD, "cat /tmp/mark"), "mark\n", "the container was never ended");
    taken.assert_writes();
    let after = taken.mounts();
    let lost: Vec<_> = before.iter().filter(|mount| !after.contains(mount)).collect();
    assert!(lost.is_empty(), "unmounted: {lost:?}");
    taken.cluster().delete_pod(POD);
    taken.assert_gone();
}

/// A kubelet finds volumes by the folders of pods. One that is killed when a pod's folder has gone
/// and the volume is still staged never unstages it.
#[test]
fn a_staged_volume_that_the_kubelet_forgot_is_unstaged() {
    let taken = Taken::start("emptyDir: {}");
    let of_driver = taken.root().join("plugins/kubernetes.io/csi/taken.test");
    let mounts = taken.mounts();
    let staged = mounts.iter().map(|(_, point)| point).find(|point| point.starts_with(&of_driver)).unwrap();
    // It cannot be unmounted while this is open.
    let in_use = fs::File::open(taken.cluster().node().path(staged)).unwrap();
    taken.cluster().delete_pod(POD);
    assert!(eventually(|| taken.driver.served.log().contains("NodeUnstageVolume")), "{}", taken.driver.served.log());
    taken.cluster().kill_component("kubelet");
    let folder = taken.of_pod("volumes/kubernetes.io~csi/taken-pv");
    assert!(!folder.exists(), "{}", folder.display());
    assert_eq!(taken.mounts().into_iter().filter(|(_, point)| point == staged).count(), 1);

    let (done, table) = taken.adopt(&["--yes"]);
    assert!(done && table.contains("staged volume of driver taken.test"), "{table}");
    drop(in_use);
    let _daemon = taken.run();
    taken.assert_gone();
}
