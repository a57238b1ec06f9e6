//! The replicas of controllers, started again when they end, as by a Deployment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};
use volhost_tests::artifacts::{self, workspace};
use volhost_tests::attach_detach::AttachDetach;
use volhost_tests::cluster::{Attaching, Cluster};

use crate::interruption::eventually;

/// Where `deploy/csi` puts the controller.
const NAMESPACE: &str = "volhost-csi";
const ACCOUNT: &str = "volhost-csi-controller";

/// How often replicas have ended by themselves: one does that leads and cannot renew its Lease.
static ENDED: AtomicUsize = AtomicUsize::new(0);

/// How often replicas have ended by themselves until now.
pub(crate) fn ended() -> usize {
    ENDED.load(Ordering::Relaxed)
}

/// One replica. Dropping it kills it.
pub(crate) struct Replica {
    log: PathBuf,
    life: Arc<Life>,
    watcher: Option<JoinHandle<()>>,
}

/// What the thread that starts a replica again shares with who kills it.
#[derive(Default)]
struct Life {
    process: AtomicU32,
    is_killed: Mutex<bool>,
}

impl Replica {
    /// Starts a replica by `volhost` with these arguments.
    fn start(log: PathBuf, arguments: Vec<String>) -> Self {
        let to = fs::File::create(&log).expect("a log");
        let start = move || {
            let mut command = Command::new(artifacts::volhost());
            command.args(&arguments).stdin(Stdio::null());
            command.stdout(to.try_clone().expect("a handle")).stderr(to.try_clone().expect("a handle"));
            command.spawn().expect("volhost runs")
        };
        let life = Arc::new(Life::default());
        let mut process = start();
        life.process.store(process.id(), Ordering::Relaxed);
        let of_watcher = Arc::clone(&life);
        let watcher = std::thread::spawn(move || {
            loop {
                process.wait().expect("it can be waited for");
                let is_killed = of_watcher.is_killed.lock().unwrap_or_else(PoisonError::into_inner);
                if *is_killed {
                    return;
                }
                ENDED.fetch_add(1, Ordering::Relaxed);
                process = start();
                of_watcher.process.store(process.id(), Ordering::Relaxed);
            }
        });
        Self { log, life, watcher: Some(watcher) }
    }

    /// Waits until it has the Lease.
    pub(crate) fn wait_leads(&self) {
        let log = || fs::read_to_string(&self.log).unwrap_or_default();
        assert!(eventually(|| log().contains("this replica leads")), "{}", log());
    }

    /// Kills it, as a machine that fails does.
    pub(crate) fn kill(&mut self) {
        let Some(watcher) = self.watcher.take() else { return };
        *self.life.is_killed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        let process = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).expect("a process id");
        // It may have ended by itself.
        let _ = kill_process(process, Signal::KILL);
        let _ = watcher.join();
    }

    /// Its process id. `volhost` has become the controller.
    pub(crate) fn pid(&self) -> u32 {
        self.life.process.load(Ordering::Relaxed)
    }

    /// The end of its log.
    pub(crate) fn log_end(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What replicas of `volhost controller` are started with, with the permissions of `deploy/csi`.
pub(crate) struct Controllers<'a> {
    cluster: &'a Cluster,
    socket: PathBuf,
    kubeconfig: PathBuf,
    lease: &'static str,
    started: usize,
}

impl<'a> Controllers<'a> {
    /// Gives the controller its permissions. `lease`: the duration of its Lease.
    pub(crate) fn new(cluster: &'a Cluster, socket: &Path, lease: &'static str) -> Self {
        let folder = workspace().join("deploy/csi").display().to_string();
        cluster.kubectl(&["apply", "-k", &folder]);
        // The driver is this program: none of the manifests' own.
        cluster.kubectl(&["delete", "-n", NAMESPACE, "deployments,daemonsets", "--all"]);
        let kubeconfig = cluster.kubeconfig_of("scale", NAMESPACE, ACCOUNT);
        Self { cluster, socket: socket.to_owned(), kubeconfig, lease, started: 0 }
    }

    /// Starts one more.
    pub(crate) fn start(&mut self) -> Replica {
        self.started += 1;
        let log = self.cluster.node().folder().join(format!("controller-{}.log", self.started));
        let csi = format!("--csi=unix://{}", self.socket.display());
        let kubeconfig = self.kubeconfig.display().to_string();
        let options = ["--namespace", NAMESPACE, "--lease-duration", self.lease, "--kubeconfig", &kubeconfig, &csi];
        Replica::start(log, ["controller"].into_iter().chain(options).map(str::to_owned).collect())
    }
}

/// The replicas of `volhost attach-detach-controller`: none if Kubernetes' own controller attaches.
pub(crate) struct AttachDetachReplicas<'a> {
    cluster: &'a Cluster,
    lease: &'static str,
    /// The one that leads, and the one that waits.
    pair: Option<(Replica, Replica)>,
    started: usize,
}

impl<'a> AttachDetachReplicas<'a> {
    /// Starts two of them, with the permissions of `deploy/attach-detach`.
    pub(crate) fn start(cluster: &'a Cluster, attaching: Attaching, lease: &'static str) -> Self {
        let mut started = Self { cluster, lease, pair: None, started: 0 };
        if attaching == Attaching::ByAnother {
            AttachDetach::deploy(cluster);
            let leader = started.next();
            leader.wait_leads();
            started.pair = Some((leader, started.next()));
        }
        started
    }

    /// Kills the one that leads, and starts another one.
    pub(crate) fn kill_leader(&mut self) {
        let Some((mut leader, follower)) = self.pair.take() else { return };
        leader.kill();
        self.pair = Some((follower, self.next()));
    }

    /// Waits until the first of them leads.
    pub(crate) fn wait_leads(&self) {
        if let Some((leader, _)) = &self.pair {
            leader.wait_leads();
        }
    }

    /// The process of the one that leads.
    pub(crate) fn leader(&self) -> Option<u32> {
        self.pair.as_ref().map(|(leader, _)| leader.pid())
    }

    fn next(&mut self) -> Replica {
        use volhost_tests::attach_detach::{NAME, NAMESPACE};
        self.started += 1;
        let name = format!("attach-detach-{}", self.started);
        let kubeconfig = self.cluster.kubeconfig_of(&name, NAMESPACE, NAME).display().to_string();
        let log = self.cluster.node().folder().join(format!("{name}.log"));
        let options = ["--namespace", NAMESPACE, "--lease-duration", self.lease, "--kubeconfig", &kubeconfig];
        Replica::start(log, ["attach-detach-controller"].into_iter().chain(options).map(str::to_owned).collect())
    }
}
