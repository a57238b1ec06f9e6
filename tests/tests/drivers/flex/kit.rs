//! A node with drivers whose behaviour a test sets call by call.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use volhost_tests::artifacts::plugin;
use volhost_tests::wait::eventually;
use volhost_tests::{Node, NodeBuilder};

/// The plugin's name in pods' folders.
pub(crate) const PLUGIN: &str = "volhost.io~flex-volume";
/// The driver that most tests have.
pub(crate) const DRIVER: &str = "test/driver";

/// What a driver of the tests is: it writes down how it was called, does what the test says for
/// that call (a piece of shell in `do/CALL`), and if that did not end it, what an honest driver
/// would do.
const SCRIPT: &str = r#"#!/bin/sh
here=@HERE@
call=$1
for argument in "$@"; do printf '%s\036' "$argument"; done >>"$here/calls"
printf '\n' >>"$here/calls"
answer() { printf '{"status":"%s","message":"%s"}\n' "$1" "$2"; exit "${3:-0}"; }
if [ -e "$here/do/$call" ]; then . "$here/do/$call"; fi
case $call in
init) echo '{"status":"Success","capabilities":{"attach":false}}' ;;
mount) mount -t tmpfs -o size=1m driver "$2" && answer Success ;;
unmount) umount "$2" && answer Success ;;
*) answer "Not supported" ;;
esac
"#;

/// A node and its drivers.
pub(crate) struct Flex {
    pub(crate) node: Node,
}

/// Options of the node, before it starts.
pub(crate) fn builder() -> NodeBuilder {
    Node::builder().plugin(plugin("flex-volume"))
}

impl Flex {
    /// A running node with an honest driver, [`DRIVER`].
    pub(crate) fn start() -> Self {
        Self::with(builder(), &[])
    }

    /// The same, with what the driver does at these calls.
    pub(crate) fn doing(behaviour: &[(&str, &str)]) -> Self {
        Self::with(builder(), behaviour)
    }

    /// The same, of a node with other options.
    pub(crate) fn with(builder: NodeBuilder, behaviour: &[(&str, &str)]) -> Self {
        let mut flex = Self::empty(builder);
        flex.install(DRIVER);
        for (call, script) in behaviour {
            flex.does(call, script);
        }
        flex.node.start();
        flex
    }

    /// A node without drivers that does not run yet.
    pub(crate) fn empty(builder: NodeBuilder) -> Self {
        let mut node = builder.build();
        let drivers = node.folder().join("drivers");
        for name in ["drivers", "do"] {
            fs::create_dir(node.folder().join(name)).unwrap();
        }
        node.add_arguments(&["--flex-driver-dir", drivers.to_str().unwrap()]);
        Self { node }
    }

    pub(crate) fn drivers(&self) -> PathBuf {
        self.node.folder().join("drivers")
    }

    /// Where a driver's program is.
    pub(crate) fn program(&self, driver: &str) -> PathBuf {
        self.drivers().join(driver.replace('/', "~")).join(driver.rsplit('/').next().unwrap())
    }

    /// Installs a driver as installers do: aside, then by a rename.
    pub(crate) fn install(&self, driver: &str) {
        self.install_script(driver, &SCRIPT.replace("@HERE@", self.node.folder().to_str().unwrap()));
    }

    pub(crate) fn install_script(&self, driver: &str, script: &str) {
        let program = self.program(driver);
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        let aside = program.with_file_name(".new");
        write_program(&aside, script, 0o755);
        fs::rename(&aside, &program).unwrap();
    }

    /// What the driver does from now on when it gets this call.
    pub(crate) fn does(&self, call: &str, script: &str) {
        let aside = self.node.folder().join("do").join(format!(".{call}"));
        fs::write(&aside, script).unwrap();
        fs::rename(&aside, self.node.folder().join("do").join(call)).unwrap();
    }

    /// The driver is honest again.
    pub(crate) fn is_honest(&self, call: &str) {
        fs::remove_file(self.node.folder().join("do").join(call)).unwrap();
    }

    /// How the drivers were called so far, each call with its arguments.
    pub(crate) fn calls(&self) -> Vec<Vec<String>> {
        let text = fs::read_to_string(self.node.folder().join("calls")).unwrap_or_default();
        let arguments = |call: &str| call.split('\u{1e}').map(str::to_owned).collect::<Vec<_>>();
        // The last may still be being written.
        let whole = text.rfind("\u{1e}\n").and_then(|end| text.get(..end)).unwrap_or_default();
        whole.split("\u{1e}\n").filter(|call| !call.is_empty()).map(arguments).collect()
    }

    /// How often this call was made.
    pub(crate) fn count(&self, call: &str) -> usize {
        self.calls().iter().filter(|made| made[0] == call).count()
    }

    /// Puts a pod in place whose volume `data` is of [`DRIVER`], with these further lines of the
    /// source.
    pub(crate) fn pod(&self, source: &str) {
        self.pod_of(DRIVER, source);
    }

    pub(crate) fn pod_of(&self, driver: &str, source: &str) {
        let lines: String = source.lines().map(|line| format!("        {line}\n")).collect();
        let volume = format!("      flexVolume:\n        driver: {driver}\n{lines}");
        self.node.manifest("pod.yaml", &pod(&volume));
    }

    /// Puts a pod in place whose volume comes from a PersistentVolume of [`DRIVER`].
    pub(crate) fn claimed(&self, source: &str) {
        self.claimed_of("1Mi", source);
    }

    /// The same, of a PersistentVolume of this size.
    pub(crate) fn claimed_of(&self, size: &str, source: &str) {
        let lines: String = source.lines().map(|line| format!("    {line}\n")).collect();
        let volume = format!(
            "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{ name: lun-1 }}\nspec:\n  capacity: {{ storage: {size} }}\n  accessModes: [ReadWriteOnce]\n  claimRef: {{ name: data, namespace: default }}\n  flexVolume:\n    driver: {DRIVER}\n{lines}"
        );
        let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: { name: data }\nspec:\n  accessModes: [ReadWriteOnce]\n  volumeName: lun-1\n  resources: { requests: { storage: 1Mi } }\n";
        self.node.manifest("volume.yaml", &format!("{volume}---\n{claim}"));
        self.node.manifest("pod.yaml", &pod("      persistentVolumeClaim: { claimName: data }\n"));
    }

    /// The pod's volume; `name` is `data`, or the PersistentVolume's.
    pub(crate) fn volume(&self, name: &str) -> PathBuf {
        self.node.volume("uid-1", PLUGIN, name)
    }

    pub(crate) fn wait_mounted(&self) {
        self.node.wait_mounted("default/web");
    }

    /// Takes the pod away and waits until nothing of it is left.
    pub(crate) fn remove_pod(&self) {
        self.node.remove_manifest("pod.yaml");
        self.node.wait_unmounted("default/web");
        assert_eq!(self.node.pod_mounts(), []);
    }

    /// Takes the pod away while others stay.
    pub(crate) fn remove_pod_but_not_others(&self) {
        self.node.remove_manifest("pod.yaml");
        self.node.wait_unmounted("default/web");
    }

    /// Waits until the pod's description has this.
    pub(crate) fn wait_described(&self, words: &str) {
        let mut last = String::new();
        let so = eventually(|| {
            last = String::from_utf8_lossy(&self.node.cli(&["describe", "pod", "web"]).stdout).into_owned();
            last.contains(words)
        });
        assert!(so, "{words:?} is not in\n{last}\nthe daemon's log:\n{}", self.node.log());
    }

    /// Waits until `get drivers -o wide` has a line with all of these.
    pub(crate) fn wait_driver(&self, words: &[&str]) {
        let mut last = String::new();
        let so = eventually(|| {
            last = self.node.ok(&["get", "drivers", "-o", "wide"]);
            last.lines().any(|line| words.iter().all(|word| line.contains(word)))
        });
        assert!(so, "{words:?} is not in\n{last}\nthe daemon's log:\n{}", self.node.log());
    }

    /// Nothing is left in the pods' folders, nor of volumes for the node.
    pub(crate) fn assert_nothing_left(&self) {
        assert_eq!(self.node.pod_mounts(), []);
        let plugin = self.node.root().join("plugins/volhost.io/flex-volume/mounts");
        let left = fs::read_dir(self.node.path(&plugin)).map(|entries| entries.count()).unwrap_or(0);
        assert_eq!(left, 0, "volumes of the node are left");
    }
}

/// A pod `default/web` with uid `uid-1` and a volume `data` of this source.
pub(crate) fn pod(source: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{ name: web, uid: uid-1 }}\nspec:\n  serviceAccountName: robot\n  securityContext: {{ fsGroup: 2000 }}\n  containers:\n    - name: main\n      image: any\n      volumeMounts: [{{ name: data, mountPath: /data }}]\n  volumes:\n    - name: data\n{source}"
    )
}

pub(crate) fn write_program(path: &Path, script: &str, mode: u32) {
    fs::write(path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
