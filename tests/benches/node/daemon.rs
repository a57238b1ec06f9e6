//! A daemon to measure, and its API.

use std::io::{BufRead, BufReader};
use std::ops::{Deref, DerefMut, Sub};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use volhost_api::pb::inspect_client::InspectClient;
use volhost_api::pb::volume_manager_client::VolumeManagerClient;
use volhost_api::pb::watch_update::Object;
use volhost_api::pb::{
    AddPodsRequest, DrainRequest, Kind, PodSelector, RemovePodRequest, StatesSyncedRequest, WaitRequest, WatchRequest,
};
use volhost_tests::artifacts;

/// The plugins that most sections need. Fewer are compiled faster.
const PLUGINS: [&str; 4] = ["empty-dir", "host-path", "local", "config-map"];

/// A running daemon. It is killed if it is dropped.
#[derive(Debug)]
pub(crate) struct Daemon {
    process: Child,
    socket: PathBuf,
    api: Api,
}

/// Processor time of a process, those of its threads that have ended included, to 10 ms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cpu {
    /// In the program.
    pub program: Duration,
    /// In the kernel.
    pub kernel: Duration,
}

/// A connection to a daemon.
#[derive(Debug)]
pub(crate) struct Api {
    manager: VolumeManagerClient<Channel>,
    inspect: InspectClient<Channel>,
}

/// A process's memory in MiB.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    /// All that is resident: pages of the program's file and of plugins' compiled code included,
    /// which the kernel can drop and read again.
    pub(crate) resident: f64,
    /// What only this process has: its heap and its stacks.
    pub(crate) own: f64,
}

impl Daemon {
    /// Starts the daemon on a fresh root folder.
    pub(crate) async fn start(folder: &Path) -> Self {
        Self::prepare(folder, PLUGINS.map(artifacts::plugin));
        Self::start_again(folder).await
    }

    /// Makes the folders of a daemon with these plugins.
    pub(crate) fn prepare(folder: &Path, plugins: impl IntoIterator<Item = PathBuf>) {
        let own = folder.join("plugins");
        std::fs::create_dir(&own).expect("a folder");
        for file in plugins {
            std::fs::copy(&file, own.join(file.file_name().expect("a file"))).expect("the plugin is copied");
        }
        // What is no pod comes from here; pods come from requests.
        std::fs::create_dir(folder.join("manifests")).expect("a folder");
    }

    /// Starts the daemon on the folder that another has left; returns when its plugins are loaded,
    /// too.
    pub(crate) async fn start_again(folder: &Path) -> Self {
        let mut daemon = Self::serve(folder).await;
        daemon.wait_plugins_loaded().await;
        daemon
    }

    /// Starts the daemon on the folder that another has left; returns as soon as it serves.
    pub(crate) async fn serve(folder: &Path) -> Self {
        let (plugins, manifests) = (folder.join("plugins"), folder.join("manifests"));
        let socket = folder.join("volhost.sock");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let log = std::fs::File::create(folder.join("volhost.log")).expect("a log");
        let mut command = Command::new(artifacts::volhostd());
        command
            .arg("--socket")
            .arg(&socket)
            .arg("run")
            .arg("--root-dir")
            .arg(folder.join("root"))
            .arg("--plugin-dir")
            .arg(&plugins)
            .arg("--cache-dir")
            .arg(folder.join("cache"))
            .arg("--manifests")
            .arg(&manifests)
            .args(["--node-name", "bench-node", "--log-level", "warn", "--ready-file", "/proc/self/fd/0"])
            .stdin(Stdio::from(OwnedFd::from(writer)))
            .stdout(log.try_clone().expect("a handle"))
            .stderr(log);
        let process = command.spawn().expect("volhost starts");
        drop(command);
        let mut line = String::new();
        BufReader::new(reader).read_line(&mut line).expect("the pipe can be read");
        assert!(
            !line.is_empty(),
            "volhost did not get ready:\n{}",
            std::fs::read_to_string(folder.join("volhost.log")).unwrap_or_default()
        );
        let api = Api::connect(&socket).await;
        Self { process, socket, api }
    }

    /// `kill -9`.
    pub(crate) fn kill(self) {
        drop(self);
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// How many operations have ended since it was started.
    pub(crate) fn operations(&self) -> f64 {
        let figures = Command::new(artifacts::volhost()).arg("--socket").arg(&self.socket).arg("metrics").output();
        let figures = String::from_utf8(figures.expect("volhost runs").stdout).expect("figures are text");
        assert!(figures.contains("reconstruct_volume_operations_total"), "{figures}");
        let ended = figures.lines().filter(|line| line.starts_with("volume_manager_operations_total{"));
        ended.map(|line| line.rsplit(' ').next().and_then(|count| count.parse::<f64>().ok()).expect("a count")).sum()
    }

    /// Processor time used so far.
    pub(crate) fn cpu(&self) -> Cpu {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("the daemon lives");
        // The fields after the name, which is in parentheses: utime and stime are the 12th and 13th
        // of them, in ticks of 1/100 s.
        let fields: Vec<&str> = stat.rsplit_once(')').expect("a stat line").1.split_whitespace().collect();
        let time = |field: usize| Duration::from_millis(fields[field].parse::<u64>().expect("a number") * 10);
        Cpu { program: time(11), kernel: time(12) }
    }

    /// Processor time used so far by those threads with this name that are alive.
    pub(crate) fn cpu_of_threads(&self, name: &str) -> Duration {
        let mut used = Duration::ZERO;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("the daemon lives") {
            let task = task.expect("a thread").path();
            // A thread may end meanwhile.
            let read = |name: &str| std::fs::read_to_string(task.join(name)).unwrap_or_default();
            if read("comm").trim() == name
                && let Some(time) = read("schedstat").split_whitespace().next()
            {
                used += Duration::from_nanos(time.parse().expect("a number"));
            }
        }
        used
    }

    /// Memory now.
    pub(crate) fn memory(&self) -> Memory {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("the daemon lives");
        let mebibytes = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("the field is there");
            let kibibytes: f64 = line.split_whitespace().next().expect("a figure").parse().expect("a number");
            kibibytes / 1024.0
        };
        Memory { resident: mebibytes("VmRSS:"), own: mebibytes("RssAnon:") }
    }

    /// Ends it by SIGTERM. The connection answers meanwhile: a client that does not is waited for.
    pub(crate) async fn end(mut self) {
        let sent = Command::new("kill").arg(self.process.id().to_string()).status().expect("kill runs");
        assert!(sent.success());
        let ended = tokio::task::spawn_blocking(move || self.process.wait().expect("it ends")).await;
        assert!(ended.expect("it is waited for").success());
    }
}

impl Cpu {
    /// In both.
    pub(crate) fn all(self) -> Duration {
        self.program + self.kernel
    }
}

impl Sub for Cpu {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self { program: self.program - before.program, kernel: self.kernel - before.kernel }
    }
}

impl Deref for Daemon {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

impl DerefMut for Daemon {
    fn deref_mut(&mut self) -> &mut Api {
        &mut self.api
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Api {
    /// Connects to the daemon that listens there.
    pub(crate) async fn connect(socket: &Path) -> Self {
        let socket = socket.to_owned();
        let connector = tower::service_fn(move |_: Uri| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        // The address is not used: the connector knows the socket.
        let channel = Endpoint::from_static("http://volhost").connect_with_connector(connector).await;
        let channel = channel.expect("volhost serves");
        Self { manager: VolumeManagerClient::new(channel.clone()), inspect: InspectClient::new(channel) }
    }

    /// Adds the pods of a manifest.
    pub(crate) async fn add(&mut self, manifest: String) -> Vec<String> {
        let added = self
            .manager
            .add_pods(AddPodsRequest { manifest, wait_ms: 0, field_validation: 0, dry_run: false })
            .await
            .expect("the pods are taken")
            .into_inner();
        added.pods.into_iter().map(|pod| pod.uid).collect()
    }

    /// Waits until every plugin is compiled and loaded.
    pub(crate) async fn wait_plugins_loaded(&mut self) {
        let request = WatchRequest { kind: Kind::Events.into(), ..WatchRequest::default() };
        let mut updates = self.inspect.watch(request).await.expect("events are watched").into_inner();
        loop {
            let update = updates.message().await.expect("the watch goes on").expect("the daemon lives");
            if matches!(update.object, Some(Object::Event(event)) if event.reason == "PluginsLoaded") {
                return;
            }
        }
    }

    /// Asks for what the daemon knows without looking.
    pub(crate) async fn ask(&mut self) {
        self.manager.states_synced(StatesSyncedRequest {}).await.expect("the daemon answers");
    }

    /// Adds the one pod of a manifest and waits until it is mounted, in one call.
    pub(crate) async fn add_and_wait(&mut self, manifest: String) -> String {
        let request = AddPodsRequest { manifest, wait_ms: 60_000, field_validation: 0, dry_run: false };
        let added = self.manager.add_pods(request).await.expect("the pod is taken").into_inner();
        assert!(added.failures.is_empty(), "{added:?}");
        added.pods.into_iter().next().expect("one pod").uid
    }

    /// Waits until the pod is mounted.
    pub(crate) async fn wait_mounted(&mut self, uid: &str) {
        let answer =
            self.manager.wait_for_attach_and_mount(wait(uid)).await.expect("the wait is answered").into_inner();
        assert!(answer.failure.is_none(), "{answer:?}");
    }

    /// Removes the pod and waits until nothing of it is left.
    pub(crate) async fn remove(&mut self, uid: &str) {
        self.manager.remove_pod(RemovePodRequest { pod: Some(selector(uid)) }).await.expect("the pod is removed");
        let answer = self.manager.wait_for_unmount(wait(uid)).await.expect("the wait is answered").into_inner();
        assert!(answer.failure.is_none(), "{answer:?}");
    }

    /// Takes every volume away.
    pub(crate) async fn drain(&mut self) {
        let timeout_ms = u64::try_from(Duration::from_secs(600).as_millis()).expect("it fits");
        let mut updates = self.manager.drain(DrainRequest { timeout_ms }).await.expect("draining begins").into_inner();
        while let Some(update) = updates.message().await.expect("draining goes on") {
            assert!(!update.done || update.left.is_empty(), "{update:?}");
        }
    }
}

fn selector(uid: &str) -> PodSelector {
    PodSelector { uid: uid.to_owned(), ..PodSelector::default() }
}

fn wait(uid: &str) -> WaitRequest {
    WaitRequest { pod: Some(selector(uid)), timeout_ms: 60_000 }
}
