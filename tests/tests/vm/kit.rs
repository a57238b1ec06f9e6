//! A daemon in a guest.

use volhost_tests::vm::{Finished, Guest};
use volhost_tests::wait::eventually;

/// How long a command in the guest waits for volumes: it computes slowly.
const WAIT: &str = "150s";

/// A daemon with its folders below `/disk/NAME`.
pub(crate) struct Daemon<'a> {
    guest: &'a Guest,
    name: &'static str,
    /// Further arguments.
    arguments: &'static str,
}

/// The command that makes a cache with the compiled plugins, unless it is there. A daemon removes
/// the plugins that it does not have from its cache: each has one of its own.
pub(crate) fn fill_cache(folder: &str) -> String {
    format!("test -e {folder} || {{ cp -al /disk/compiled {folder}; chmod 700 {folder}; }}")
}

impl<'a> Daemon<'a> {
    /// Starts a daemon with these plugins of the payload.
    pub(crate) fn start(guest: &'a Guest, name: &'static str, plugins: &[&str]) -> Self {
        Self::start_with(guest, name, plugins, "")
    }

    /// Starts a daemon with further arguments.
    pub(crate) fn start_with(guest: &'a Guest, name: &'static str, plugins: &[&str], arguments: &'static str) -> Self {
        let daemon = Self { guest, name, arguments };
        let folder = daemon.folder();
        let files: String = plugins.iter().map(|plugin| format!(" /payload/plugins/{plugin}.wasm")).collect();
        guest.run(&format!(
            "mkdir -p {folder}/root {folder}/manifests {folder}/plugins {folder}/data
             cp {files} {folder}/plugins/
             {cache}
             printf '[grants.\"volhost.io/loop\"]\\ninterfaces = [\"id-maps\"]\\nloop-files = [\"{folder}/data\"]\\n[grants.\"kubernetes.io/host-path\"]\\n\
             host-paths = [\"{folder}/data\"]\\n' >{folder}/volhost.toml",
            cache = fill_cache(&format!("{folder}/cache"))
        ));
        daemon.run();
        daemon
    }

    /// The daemon that ran here before a power loss: starts it again.
    pub(crate) fn start_again(guest: &'a Guest, name: &'static str) -> Self {
        let daemon = Self { guest, name, arguments: "" };
        daemon.run();
        daemon
    }

    /// Starts the daemon, and waits until it serves.
    pub(crate) fn run(&self) {
        let folder = self.folder();
        let served = self.guest.try_run(&format!(
            "rm -f /run/{name}.ready; mkfifo /run/{name}.ready
             setsid /payload/volhostd run --root-dir {folder}/root --plugin-dir {folder}/plugins \
             --manifests {folder}/manifests --socket /run/{name}.sock --cache-dir {folder}/cache \
             --config {folder}/volhost.toml --shipped-plugins /payload/shipped-plugins.sha256 \
             --ready-file /run/{name}.ready {arguments} >>{folder}/log 2>&1 </dev/null & echo $! >/run/{name}.pid
             read -r line </run/{name}.ready",
            name = self.name,
            arguments = self.arguments
        ));
        assert!(served.succeeded(), "{served:?}\n{}", self.log());
    }

    /// `kill -9`, and waits until the kernel has closed what the process had open.
    pub(crate) fn kill(&self) {
        self.guest
            .run(&format!("pid=$(cat /run/{}.pid); kill -9 $pid; while [ -e /proc/$pid ]; do :; done", self.name));
    }

    /// The daemon's folder in the guest.
    pub(crate) fn folder(&self) -> String {
        format!("/disk/{}", self.name)
    }

    /// What the daemon has logged.
    pub(crate) fn log(&self) -> String {
        self.guest.run(&format!("tail -n 60 {}/log", self.folder()))
    }

    /// Runs the command line.
    pub(crate) fn volhost(&self, arguments: &str) -> Finished {
        self.guest.try_run(&format!("/payload/volhost --socket /run/{}.sock {arguments}", self.name))
    }

    /// Adds the objects of a manifest, which appears whole.
    pub(crate) fn add(&self, file: &str, manifest: &str) {
        let folder = self.folder();
        self.guest
            .run(&format!("cat >{folder}/{file} <<'END'\n{manifest}\nEND\nmv {folder}/{file} {folder}/manifests/"));
    }

    /// Removes a manifest.
    pub(crate) fn remove(&self, file: &str) {
        self.guest.run(&format!("rm {}/manifests/{file}", self.folder()));
    }

    /// Waits until the pod's volumes are mounted.
    pub(crate) fn wait_mounted(&self, pod: &str) {
        self.wait(&format!("pod {pod}"));
    }

    /// Waits until nothing of the pod is mounted.
    pub(crate) fn wait_unmounted(&self, pod: &str) {
        self.wait(&format!("pod {pod} --for unmounted"));
    }

    /// Waits for an event that has all these words, which have no quotation marks. Nothing polls:
    /// the guest has no time to spare.
    pub(crate) fn wait_event(&self, words: &[&str]) {
        // From the last word inwards: a line that has all of them ends the loop.
        let found = words
            .iter()
            .rev()
            .fold("found=yes; break".to_owned(), |inner, word| format!("case $line in *'{word}'*) {inner} ;; esac"));
        let name = self.name;
        let seen = self.guest.try_run(&format!(
            "rm -f /run/{name}.events; mkfifo /run/{name}.events; found=no
             timeout {WAIT} /payload/volhost --socket /run/{name}.sock events -w >/run/{name}.events & watcher=$!
             while read -r line; do echo \"$line\"; {found}; done </run/{name}.events
             kill $watcher || true
             test $found = yes"
        ));
        assert!(seen.succeeded(), "no event with {words:?}: {seen:?}\n{}", self.log());
    }

    fn wait(&self, what: &str) {
        let waited = self.volhost(&format!("wait {what} --timeout {WAIT}"));
        assert!(waited.succeeded(), "{waited:?}\n{}", self.log());
    }

    /// The mounts of volumes, as `/proc/self/mountinfo` has them.
    pub(crate) fn mounts(&self) -> Vec<String> {
        let mounts =
            self.guest.run(&format!("grep -E ' {}/root/(pods|plugins)/' /proc/self/mountinfo || true", self.folder()));
        mounts.lines().map(str::to_owned).collect()
    }

    /// Checks that nothing is mounted, and that no loop device has an image of this daemon. The last
    /// pod's volume is unstaged after the pod has been unmounted.
    pub(crate) fn assert_clean(&self) {
        assert!(eventually(|| self.mounts().is_empty()), "{:?}", self.mounts());
        let devices = self.guest.run("losetup -a || true");
        assert!(!devices.contains(&self.folder()), "{devices}");
    }
}

/// A PersistentVolume with these fields of its spec, and its claim, both of this name.
pub(crate) fn claimed(name: &str, size: &str, mode: &str, fields: &str) -> String {
    format!(
        "apiVersion: v1
kind: PersistentVolume
metadata: {{ name: {name} }}
spec:
  capacity: {{ storage: {size} }}
  accessModes: [ReadWriteOnce]
  storageClassName: ''
  volumeMode: {mode}
  {fields}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{ name: {name} }}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: ''
  volumeMode: {mode}
  volumeName: {name}
  resources: {{ requests: {{ storage: {size} }} }}
---
"
    )
}
