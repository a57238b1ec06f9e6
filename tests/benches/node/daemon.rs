//! A daemon to measure, and its API.

use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use volhost_api::pb::volume_manager_client::VolumeManagerClient;
use volhost_api::pb::{AddPodsRequest, DrainRequest, PodSelector, RemovePodRequest, StatesSyncedRequest, WaitRequest};
use volhost_tests::artifacts;

/// A running daemon.
#[derive(Debug)]
pub(crate) struct Daemon {
    process: Child,
    socket: PathBuf,
    /// The API.
    pub api: VolumeManagerClient<Channel>,
}

impl Daemon {
    /// Starts the release binary on a fresh root folder.
    pub(crate) async fn start(folder: &Path) -> Self {
        let plugins = folder.join("plugins");
        std::fs::create_dir(&plugins).expect("a folder");
        for name in ["empty-dir", "host-path", "local", "config-map"] {
            std::fs::copy(artifacts::plugin(name), plugins.join(format!("{name}.wasm"))).expect("the plugin is copied");
        }
        // Config maps come from here; everything else from requests.
        std::fs::create_dir(folder.join("manifests")).expect("a folder");
        Self::start_again(folder).await
    }

    /// Starts the release binary on the folder that another has left; returns when it serves.
    pub(crate) async fn start_again(folder: &Path) -> Self {
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
        let api = VolumeManagerClient::new(connect(socket.clone()).await);
        Self { process, socket, api }
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }

    /// How many operations have ended since it was started.
    pub(crate) fn operations(&self) -> f64 {
        let figures = Command::new(artifacts::volhost()).arg("--socket").arg(&self.socket).arg("metrics").output();
        let figures = String::from_utf8(figures.expect("volhost runs").stdout).expect("figures are text");
        assert!(figures.contains("reconstruct_volume_operations_total"), "{figures}");
        let ended = figures.lines().filter(|line| line.starts_with("volume_manager_operations_total{"));
        ended.map(|line| line.rsplit(' ').next().and_then(|count| count.parse::<f64>().ok()).expect("a count")).sum()
    }

    /// Adds the pods of a manifest.
    pub(crate) async fn add(&mut self, manifest: String) -> Vec<String> {
        let added = self
            .api
            .add_pods(AddPodsRequest { manifest, wait_ms: 0, field_validation: 0, dry_run: false })
            .await
            .expect("the pods are taken")
            .into_inner();
        added.pods.into_iter().map(|pod| pod.uid).collect()
    }

    /// Asks for what the daemon knows without looking.
    pub(crate) async fn ask(&mut self) {
        self.api.states_synced(StatesSyncedRequest {}).await.expect("the daemon answers");
    }

    /// Adds the one pod of a manifest and waits until it is mounted, in one call.
    pub(crate) async fn add_and_wait(&mut self, manifest: String) -> String {
        let request = AddPodsRequest { manifest, wait_ms: 60_000, field_validation: 0, dry_run: false };
        let added = self.api.add_pods(request).await.expect("the pod is taken").into_inner();
        assert!(added.failures.is_empty(), "{added:?}");
        added.pods.into_iter().next().expect("one pod").uid
    }

    /// Waits until the pod is mounted.
    pub(crate) async fn wait_mounted(&mut self, uid: &str) {
        let answer = self.api.wait_for_attach_and_mount(wait(uid)).await.expect("the wait is answered").into_inner();
        assert!(answer.failure.is_none(), "{answer:?}");
    }

    /// Removes the pod and waits until nothing of it is left.
    pub(crate) async fn remove(&mut self, uid: &str) {
        self.api.remove_pod(RemovePodRequest { pod: Some(selector(uid)) }).await.expect("the pod is removed");
        let answer = self.api.wait_for_unmount(wait(uid)).await.expect("the wait is answered").into_inner();
        assert!(answer.failure.is_none(), "{answer:?}");
    }

    /// Takes every volume away.
    pub(crate) async fn drain(&mut self) {
        let timeout_ms = u64::try_from(Duration::from_secs(600).as_millis()).expect("it fits");
        let mut updates = self.api.drain(DrainRequest { timeout_ms }).await.expect("draining begins").into_inner();
        while let Some(update) = updates.message().await.expect("draining goes on") {
            assert!(!update.done || update.left.is_empty(), "{update:?}");
        }
    }

    /// Processor time used so far.
    pub(crate) fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).expect("the daemon lives");
        // The fields after the name, which is in parentheses: utime and stime are the 12th and 13th
        // of them, in ticks of 1/100 s.
        let fields: Vec<&str> = stat.rsplit_once(')').expect("a stat line").1.split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>().expect("a number") + fields[12].parse::<u64>().expect("a number");
        Duration::from_millis(ticks * 10)
    }

    /// Resident memory in MiB.
    pub(crate) fn memory_mib(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("the daemon lives");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a VmRSS line");
        let kib: f64 = line.split_whitespace().nth(1).expect("a figure").parse().expect("a number");
        kib / 1024.0
    }

    /// Ends it.
    pub(crate) fn end(mut self) {
        let sent = Command::new("kill").arg(self.process.id().to_string()).status().expect("kill runs");
        assert!(sent.success());
        self.process.wait().expect("it ends");
    }
}

fn selector(uid: &str) -> PodSelector {
    PodSelector { uid: uid.to_owned(), ..PodSelector::default() }
}

fn wait(uid: &str) -> WaitRequest {
    WaitRequest { pod: Some(selector(uid)), timeout_ms: 60_000 }
}

async fn connect(socket: PathBuf) -> Channel {
    let connector = tower::service_fn(move |_: Uri| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    // The address is not used: the connector knows the socket.
    Endpoint::from_static("http://volhost").connect_with_connector(connector).await.expect("volhost serves")
}
