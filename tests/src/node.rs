//! A node under test: a daemon with its folders, and the command line to ask it.

use std::io::{BufRead, BufReader, PipeReader};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::namespace::{MountLine, MountNamespace};
use crate::wait::{TIMEOUT, eventually};
use crate::{artifacts, compiled};

/// The node's folder for compiled plugins.
const CACHE: &str = "cache";

/// How a node is set up.
#[derive(Debug)]
pub struct NodeBuilder {
    plugins: Vec<PathBuf>,
    arguments: Vec<String>,
    variables: Vec<(String, PathBuf)>,
    config: Option<String>,
    prepare: Option<String>,
    cold: bool,
    name: String,
}

/// A running node. Dropping it ends the daemon and discards its mounts with their namespace.
#[derive(Debug)]
pub struct Node {
    folder: TempDir,
    namespace: MountNamespace,
    arguments: Vec<String>,
    variables: Vec<(String, PathBuf)>,
    cold: bool,
    name: String,
    daemon: Option<Child>,
    /// The process id of the daemon that was killed last.
    killed: Option<u32>,
}

/// A daemon that was started, and will say that it serves.
#[derive(Debug)]
pub struct Readiness(PipeReader);

impl Readiness {
    /// Waits until it serves; false when it has ended without.
    pub fn is_ready(self) -> bool {
        let mut line = String::new();
        BufReader::new(self.0).read_line(&mut line).is_ok_and(|bytes| bytes > 0)
    }
}

impl Default for NodeBuilder {
    fn default() -> Self {
        let plugins = ["empty-dir", "host-path", "local"].map(artifacts::plugin).to_vec();
        Self {
            plugins,
            arguments: Vec::new(),
            variables: Vec::new(),
            config: None,
            prepare: None,
            cold: false,
            name: "test-node".to_owned(),
        }
    }
}

impl NodeBuilder {
    /// Loads this plugin file too.
    #[must_use]
    pub fn plugin(mut self, file: PathBuf) -> Self {
        self.plugins.push(file);
        self
    }

    /// Gives the node this name, in place of `test-node`.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Passes more options to `volhost run`.
    #[must_use]
    pub fn arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|a| (*a).to_owned()));
        self
    }

    /// Uses this configuration file; `$NODE` in it is the node's folder.
    #[must_use]
    pub fn config(mut self, text: &str) -> Self {
        self.config = Some(text.to_owned());
        self
    }

    /// Starts the daemon with this variable in its environment.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &Path) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Runs a shell script in the node's namespace before the daemon starts; `$NODE` is the node's
    /// folder.
    #[must_use]
    pub fn prepare(mut self, script: &str) -> Self {
        self.prepare = Some(script.to_owned());
        self
    }

    /// Compiles every plugin anew, with an empty cache, as the first start on a machine does.
    #[must_use]
    pub fn cold(mut self) -> Self {
        self.cold = true;
        self
    }

    /// Makes the folders without starting the daemon.
    ///
    /// # Panics
    /// When the machine does not let it.
    pub fn build(self) -> Node {
        let folder = tempfile::Builder::new().prefix("volhost-test-").tempdir().expect("a temporary folder");
        for name in ["plugins", "manifests", "disk", "root"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        for plugin in &self.plugins {
            let name = plugin.file_name().expect("a plugin file has a name");
            std::fs::copy(plugin, folder.path().join("plugins").join(name)).expect("the plugin is copied");
        }
        if !self.cold {
            compiled::seed(&folder.path().join(CACHE), &self.plugins);
        }
        let mut arguments = self.arguments;
        if let Some(text) = self.config {
            let path = folder.path().join("volhost.toml");
            let text = text.replace("$NODE", &folder.path().display().to_string());
            std::fs::write(&path, text).expect("the configuration is written");
            arguments.extend(["--config".to_owned(), path.display().to_string()]);
        }
        let namespace = MountNamespace::new();
        let variables = self.variables;
        let node = Node {
            folder,
            namespace,
            arguments,
            variables,
            cold: self.cold,
            name: self.name,
            daemon: None,
            killed: None,
        };
        if let Some(script) = self.prepare {
            let done =
                node.inside("sh").args(["-euc", &script]).env("NODE", node.folder.path()).status().expect("sh runs");
            assert!(done.success(), "the preparation failed: {script}");
        }
        node
    }

    /// Makes the folders and starts the daemon.
    ///
    /// # Panics
    /// When the daemon does not get ready; its log is in the message.
    pub fn start(self) -> Node {
        let mut node = self.build();
        node.start();
        node
    }
}

impl Node {
    /// A node with the shipped plugins.
    pub fn builder() -> NodeBuilder {
        NodeBuilder::default()
    }

    /// A running node with the shipped plugins.
    pub fn start_default() -> Self {
        Self::builder().start()
    }

    /// Passes more options to the next `volhost run`.
    pub fn add_arguments(&mut self, arguments: &[&str]) {
        self.arguments.extend(arguments.iter().map(|a| (*a).to_owned()));
    }

    /// Starts the daemon with this variable in its environment from now on.
    pub fn add_variable(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.into()));
    }

    /// The node's folder: `plugins`, `manifests`, `disk` (for sources), `root`.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The root folder.
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// The socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("volhost.sock")
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("volhost.log")
    }

    /// What the daemon has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Returns a command that will run in the node's mount namespace.
    pub fn inside(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.namespace.command(program)
    }

    /// A path of the node, as seen from the test.
    pub fn path(&self, inside: &Path) -> PathBuf {
        self.namespace.path(inside)
    }

    /// The folder of a pod's volume, as seen from the test. `plugin` is `vendor~name`.
    pub fn volume(&self, uid: &str, plugin: &str, name: &str) -> PathBuf {
        self.path(&self.volume_inside(uid, plugin, name))
    }

    /// The folder of a pod's volume, as the node names it.
    pub fn volume_inside(&self, uid: &str, plugin: &str, name: &str) -> PathBuf {
        let folder = self.root().join("pods").join(uid).join("volumes").join(plugin).join(name);
        // The kubelet's layout.
        if plugin == "kubernetes.io~csi" { folder.join("mount") } else { folder }
    }

    /// The mounts of pods' volumes.
    pub fn pod_mounts(&self) -> Vec<MountLine> {
        self.namespace.mounts_below(&self.root().join("pods"))
    }

    /// The ids and points of the mounts below this folder: equal before and after only if nothing
    /// was unmounted.
    pub fn mount_ids_below(&self, folder: &Path) -> Vec<(u64, PathBuf)> {
        self.namespace.mount_ids_below(folder)
    }

    /// Every mount below the node's folder.
    pub fn all_mounts(&self) -> Vec<MountLine> {
        self.namespace.mounts_below(self.folder.path())
    }

    /// Kills every process in the node's mount namespace.
    pub fn end_processes(&self) {
        self.namespace.end_processes();
    }

    /// The daemon's arguments.
    fn daemon_command(&self) -> Command {
        let folder = self.folder.path();
        let mut command = self.inside(artifacts::volhostd());
        command
            .arg("run")
            .arg("--root-dir")
            .arg(folder.join("root"))
            .arg("--plugin-dir")
            .arg(folder.join("plugins"))
            .arg("--manifests")
            .arg(folder.join("manifests"))
            .arg("--socket")
            .arg(self.socket())
            .arg("--cache-dir")
            .arg(folder.join(CACHE))
            .args(["--node-name", &self.name])
            .envs(self.variables.iter().cloned())
            .args(&self.arguments);
        command
    }

    /// Starts the daemon and waits until it serves and has loaded its plugins: it compiles those
    /// that are in no cache while it serves.
    ///
    /// Starts it again where it is refused for the sake of a daemon that was killed, as a service
    /// manager does: a program that the killed one was just starting has copies of its locks until
    /// it runs.
    ///
    /// # Panics
    /// When it ends before; its log is in the message.
    pub fn start(&mut self) {
        let mut is_ready = false;
        eventually(|| {
            is_ready = self.try_start();
            is_ready || !is_refused_for(self.killed, &self.log())
        });
        assert!(is_ready, "volhost did not get ready; its log:\n{}", self.log());
        self.wait_event(&["PluginsLoaded"]);
        if !self.cold {
            compiled::keep(&self.folder.path().join(CACHE));
        }
    }

    /// Starts the daemon; whether it serves, or else has ended.
    ///
    /// # Panics
    /// When it cannot be started at all.
    pub fn try_start(&mut self) -> bool {
        let ready = self.start_at_once().is_ready();
        if !ready {
            let _ = self.daemon.take().expect("it was started").wait();
        }
        ready
    }

    /// Starts the daemon without waiting for it.
    ///
    /// # Panics
    /// When it cannot be started at all.
    pub fn start_at_once(&mut self) -> Readiness {
        let command = self.daemon_command();
        self.spawn(command)
    }

    /// Starts the daemon without waiting for it. It stops itself (`SIGSTOP`) before its first
    /// instruction, so that it can be traced from there.
    ///
    /// # Panics
    /// When it cannot be started at all.
    pub fn start_stopped(&mut self) -> Readiness {
        let daemon = self.daemon_command();
        let mut command = Command::new(daemon.get_program());
        let arguments: Vec<_> = daemon.get_args().collect();
        let program = arguments.iter().position(|argument| *argument == "--").expect("nsenter runs a program") + 1;
        command.args(&arguments[..program]).args(["sh", "-c", "kill -STOP $$; exec \"$@\"", "sh"]);
        command.args(&arguments[program..]);
        self.spawn(command)
    }

    fn spawn(&mut self, mut command: Command) -> Readiness {
        assert!(self.daemon.is_none(), "the daemon runs already");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let writer = OwnedFd::from(writer);
        let log = std::fs::File::options().create(true).append(true).open(self.log_file()).expect("the log opens");
        // Standard input is the one descriptor besides output that a child can be given without
        // unsafe code.
        command
            .args(["--ready-file", "/proc/self/fd/0"])
            .stdin(Stdio::from(writer))
            .stdout(log.try_clone().expect("a handle"))
            .stderr(log);
        command.env("RUST_BACKTRACE", "1").process_group(0);
        let daemon = command.spawn().expect("nsenter (util-linux) runs");
        drop(command);
        self.daemon = Some(daemon);
        Readiness(reader)
    }

    /// The daemon's process id.
    ///
    /// # Panics
    /// When it does not run.
    pub fn pid(&self) -> u32 {
        self.daemon.as_ref().expect("the daemon runs").id()
    }

    fn signal(&mut self, signal: Signal) -> std::process::ExitStatus {
        let mut daemon = self.daemon.take().expect("the daemon runs");
        let sent = kill_process(Pid::from_child(&daemon), signal);
        assert!(sent.is_ok(), "the daemon was gone already; its log:\n{}", self.log());
        daemon.wait().expect("the daemon can be waited for")
    }

    /// `kill -9`: the daemon ends between two instructions. Its mounts stay.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&mut self) {
        self.killed = Some(self.pid());
        let _ = self.signal(Signal::KILL);
    }

    /// SIGTERM, and its exit status.
    ///
    /// # Panics
    /// When it does not run.
    pub fn terminate(&mut self) -> std::process::ExitStatus {
        self.signal(Signal::TERM)
    }

    /// Sends the daemon a signal that does not end it.
    ///
    /// # Panics
    /// When it does not run.
    pub fn poke(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.pid().to_string()]).status().expect("kill runs");
        assert!(sent.success());
    }

    /// Puts a manifest in place, at once and whole.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn manifest(&self, name: &str, text: &str) {
        let folder = self.folder.path().join("manifests");
        let hidden = folder.join(format!(".{name}.new"));
        std::fs::write(&hidden, text).expect("the manifest is written");
        std::fs::rename(hidden, folder.join(name)).expect("the manifest is put in place");
    }

    /// Takes a manifest away.
    ///
    /// # Panics
    /// When it is not there.
    pub fn remove_manifest(&self, name: &str) {
        std::fs::remove_file(self.folder.path().join("manifests").join(name)).expect("the manifest is removed");
    }

    /// Runs the command line against the node.
    ///
    /// # Panics
    /// When the binary does not run.
    pub fn cli(&self, arguments: &[&str]) -> Output {
        Command::new(artifacts::volhost())
            .arg("--socket")
            .arg(self.socket())
            .args(arguments)
            .output()
            .expect("volhost runs")
    }

    /// Runs the command line, which must succeed, and returns what it printed.
    ///
    /// # Panics
    /// When it fails; the message has all it said.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let output = self.cli(arguments);
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "volhost {arguments:?} failed ({}):\n{stdout}{}\nthe daemon's log:\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr),
            self.log()
        );
        stdout
    }

    /// Runs the command line, which must fail, and returns all it said.
    ///
    /// # Panics
    /// When it succeeds.
    pub fn fails(&self, arguments: &[&str]) -> String {
        let output = self.cli(arguments);
        assert!(
            !output.status.success(),
            "volhost {arguments:?} succeeded:\n{}",
            String::from_utf8_lossy(&output.stdout)
        );
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    }

    /// Waits until an event has all these words in its line.
    ///
    /// # Panics
    /// When there is none within [`TIMEOUT`].
    pub fn wait_event(&self, words: &[&str]) {
        self.wait_event_within(TIMEOUT, words);
    }

    /// Waits until an event has all these words in its line.
    ///
    /// # Panics
    /// When there is none within this time.
    pub fn wait_event_within(&self, time: Duration, words: &[&str]) {
        let mut watching = Command::new("timeout")
            .arg(time.as_secs().to_string())
            .arg(artifacts::volhost())
            .arg("--socket")
            .arg(self.socket())
            .args(["events", "--watch"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("timeout (coreutils) runs");
        let lines = BufReader::new(watching.stdout.take().expect("it is piped")).lines();
        let found = lines.map_while(Result::ok).any(|line| words.iter().all(|word| line.contains(word)));
        let _ = watching.kill();
        let _ = watching.wait();
        assert!(found, "no event with {words:?} came; the daemon's log:\n{}", self.log());
    }

    /// Waits until the pod's volumes are mounted.
    ///
    /// # Panics
    /// When they are not within [`TIMEOUT`].
    pub fn wait_mounted(&self, pod: &str) {
        self.ok(&["wait", "pod", pod, "--timeout", &timeout()]);
    }

    /// Waits until nothing of the pod is mounted.
    ///
    /// # Panics
    /// When it still is after [`TIMEOUT`].
    pub fn wait_unmounted(&self, pod: &str) {
        self.ok(&["wait", "pod", pod, "--for", "unmounted", "--timeout", &timeout()]);
    }

    /// Waits until `volhost wait` gives a reason with all these words why the pod is not mounted,
    /// and returns all it said.
    ///
    /// # Panics
    /// When the pod is mounted, or after [`TIMEOUT`].
    pub fn wait_blocked(&self, pod: &str, words: &[&str]) -> String {
        let mut said = String::new();
        let is_blocked = eventually(|| {
            said = self.fails(&["wait", "pod", pod, "--timeout", "10ms"]);
            words.iter().all(|word| said.contains(word))
        });
        assert!(is_blocked, "{words:?} is not the reason:\n{said}\nthe daemon's log:\n{}", self.log());
        said
    }

    /// Waits until the volume's storage has answered how full it is, and returns the answer as
    /// `get volume NAME -o json` has it. A command by itself waits a quarter of a second.
    ///
    /// # Panics
    /// When it has not answered within [`TIMEOUT`].
    pub fn wait_usage(&self, volume: &str) -> serde_json::Value {
        let mut usage = serde_json::Value::Null;
        let has_answered = eventually(|| {
            let shown = self.ok(&["get", "volume", volume, "-o", "json"]);
            let shown: serde_json::Value = serde_json::from_str(&shown).expect("the view is JSON");
            usage = shown["status"]["usage"].clone();
            usage["measuredAt"].is_string() && usage["askedAt"].is_null()
        });
        assert!(has_answered, "{volume} has not answered: {usage}\nthe daemon's log:\n{}", self.log());
        usage
    }
}

/// Whether the log ends with the error that the process of this id has a lock.
pub(crate) fn is_refused_for(process: Option<u32>, log: &str) -> bool {
    let error = log.lines().rfind(|line| line.starts_with("Error: ")).unwrap_or_default();
    process.is_some_and(|pid| error.contains(&format!("(process {pid})")))
}

/// [`TIMEOUT`] as the command line takes it.
fn timeout() -> String {
    format!("{}s", TIMEOUT.as_secs())
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}
