//! A node on which daemons are killed, and the inventory of what is on it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use volhost_tests::kill_points::{KillPoint, Trace};
use volhost_tests::loop_devices::LoopDevices;
use volhost_tests::node::Readiness;
use volhost_tests::wait::eventually;
use volhost_tests::{Node, NodeBuilder, artifacts};

use crate::witness::Witness;

/// The PersistentVolumes' and pods' plugin for image files.
pub(crate) const LOOP: &str = "volhost.io~loop";
pub(crate) const OVERLAY: &str = "volhost.io~overlay";
pub(crate) const EMPTY_DIR: &str = "kubernetes.io~empty-dir";
pub(crate) const LOCAL: &str = "kubernetes.io~local-volume";
pub(crate) const CONFIG_MAP: &str = "kubernetes.io~configmap";
pub(crate) const SECRET: &str = "kubernetes.io~secret";
pub(crate) const IMAGE: &str = "kubernetes.io~image";
pub(crate) const PROJECTED: &str = "kubernetes.io~projected";

/// Everything that volhost has made on a node: mounts, folders, devices, records. Not the content
/// of volumes.
pub(crate) type Inventory = BTreeSet<String>;

/// A node, and a pod on it that runs throughout.
pub(crate) struct Site {
    pub(crate) node: Node,
    devices: LoopDevices,
    witness: Option<Witness>,
}

/// Returns a node with every shipped plugin, and a folder `disk` for images and host paths.
pub(crate) fn builder() -> NodeBuilder {
    let plugins = ["config-map", "secret", "downward-api", "projected", "loop", "overlay"].map(artifacts::plugin);
    plugins
        .into_iter()
        .fold(Node::builder(), NodeBuilder::plugin)
        .config("[grants.\"volhost.io/loop\"]\ninterfaces = [\"id-maps\"]\nloop-files = [\"$NODE/disk\"]\n[grants.\"kubernetes.io/host-path\"]\nhost-paths = [\"$NODE/disk\"]\n[grants.\"kubernetes.io/image\"]\nimage-layouts = [\"$NODE/disk\"]\n")
}

impl Site {
    /// A running node without pods.
    pub(crate) fn start() -> Self {
        Self::of(builder())
    }

    /// A node that is set up like this.
    pub(crate) fn of(builder: NodeBuilder) -> Self {
        let node = builder.start();
        let devices = LoopDevices::below(node.folder());
        Self { node, devices, witness: None }
    }

    /// Starts a daemon after a kill, repeatedly if needed, as a service manager does: a program
    /// that the killed one was just starting has copies of its locks until it runs.
    pub(crate) fn revive(&mut self) {
        let node = &mut self.node;
        assert!(eventually(|| node.try_start()), "volhost did not get ready; its log:\n{}", self.log());
    }

    /// Adds a pod to the node whose volumes must never be touched.
    pub(crate) fn with_witness(mut self, witness: Witness) -> Self {
        witness.arrive(&self.node);
        self.witness = Some(witness);
        self
    }

    /// Closes the files of the witness, so that its volumes can be unmounted.
    pub(crate) fn dismiss_witness(&mut self) {
        self.witness = None;
    }

    /// Asserts that no volume of the witness was ever unmounted.
    pub(crate) fn check_witness(&self) {
        if let Some(witness) = &self.witness {
            witness.check(&self.node);
        }
    }

    pub(crate) fn image(&self, name: &str) -> PathBuf {
        self.node.folder().join("disk").join(name)
    }

    pub(crate) fn loop_devices(&self) -> Vec<String> {
        self.devices.all()
    }

    /// Follows the running daemon.
    pub(crate) fn follow(&self, death: KillPoint) -> Trace {
        Trace::begin(self.node.pid(), death)
    }

    /// Starts a daemon that is followed from its first instruction on.
    pub(crate) fn start_followed(&mut self, death: KillPoint) -> (Trace, Readiness) {
        let readiness = self.node.start_stopped();
        (self.follow(death), readiness)
    }

    pub(crate) fn write(&self, manifests: &[(&str, String)]) {
        for (name, text) in manifests {
            self.node.manifest(name, text);
        }
    }

    pub(crate) fn has_manifest(&self, name: &str) -> bool {
        self.node.folder().join("manifests").join(name).exists()
    }

    /// Waits until the node looks like this.
    ///
    /// # Panics
    /// When it does not within a minute; the message has what is too much and what is missing.
    pub(crate) fn assert_becomes(&self, wanted: &Inventory, when: &str) {
        if eventually(|| self.inventory() == *wanted) {
            return;
        }
        let found = self.inventory();
        let (extra, missing): (Vec<_>, Vec<_>) =
            (found.difference(wanted).collect(), wanted.difference(&found).collect());
        panic!(
            "{when}: too much: {extra:#?}, missing: {missing:#?}\n{}\nthe daemon's log:\n{}",
            self.node.ok(&["get", "volumes"]),
            self.log()
        );
    }

    /// Returns the log of the daemon that was started last.
    pub(crate) fn log(&self) -> String {
        let log = self.node.log();
        let from = log.rfind("volhost starts").unwrap_or(0);
        log.get(from..).unwrap_or(&log).to_owned()
    }

    pub(crate) fn inventory(&self) -> Inventory {
        let mut all = Inventory::new();
        let root = self.node.root();
        for mount in self.node.all_mounts() {
            let point = mount.point.strip_prefix(&root).unwrap_or(&mount.point).display().to_string();
            all.insert(format!("mount {point} {} {}", mount.fs_type, mount.options.join(",")));
        }
        let seen = self.node.path(&root);
        // How far down volhost's own folders go; below that is what pods have written.
        for (folder, depth) in [("pods", 4), ("plugins", 5), ("state", usize::MAX)] {
            list(&seen, Path::new(folder), depth, &mut all);
        }
        // Volhost's own, for good.
        for folder in ["state/pods", "state/devices", "state/objects", "state/objects/complete"] {
            all.remove(folder);
        }
        let (pins, files) = self.devices.files();
        all.extend((0..pins).map(|pin| format!("pin {pin}")));
        let name = |file: &PathBuf| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        all.extend(files.iter().map(|file| format!("loop device of {}", name(file))));
        all
    }
}

fn list(root: &Path, folder: &Path, depth: usize, all: &mut Inventory) {
    for entry in fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
        let path = folder.join(entry.file_name());
        all.insert(path.display().to_string());
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        // A folder of volhost's, and not a volume.
        if is_folder && depth > 1 && path.file_name() != Some(OsStr::new("globalmount")) {
            list(root, &path, depth - 1, all);
        }
    }
}
