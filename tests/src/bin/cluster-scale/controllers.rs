//! The replicas of `volhost controller`, with the permissions of `deploy/csi`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use volhost_tests::artifacts::{self, workspace};
use volhost_tests::cluster::Cluster;
use volhost_tests::wait::eventually;

/// Where `deploy/csi` puts the controller.
const NAMESPACE: &str = "volhost-csi";
const ACCOUNT: &str = "volhost-csi-controller";

/// What replicas are started with.
pub(crate) struct Controllers<'a> {
    cluster: &'a Cluster,
    socket: PathBuf,
    kubeconfig: PathBuf,
    started: usize,
}

/// One replica. Dropping it kills it.
pub(crate) struct Replica {
    process: Child,
    log: PathBuf,
}

impl<'a> Controllers<'a> {
    /// Gives the controller its permissions.
    pub(crate) fn new(cluster: &'a Cluster, socket: &Path) -> Self {
        let folder = workspace().join("deploy/csi").display().to_string();
        cluster.kubectl(&["apply", "-k", &folder]);
        // The driver is this program: none of the manifests' own.
        cluster.kubectl(&["delete", "-n", NAMESPACE, "deployments,daemonsets", "--all"]);
        let token = cluster.kubectl(&["create", "token", ACCOUNT, "-n", NAMESPACE, "--duration=4h"]);
        let kubeconfig = cluster.node().folder().join("scale.kubeconfig");
        let config = cluster.kubeconfig().display().to_string();
        fs::copy(&config, &kubeconfig).expect("the administrator's configuration");
        let own = format!("--kubeconfig={}", kubeconfig.display());
        cluster.kubectl(&[&own, "config", "unset", "users.test"]);
        cluster.kubectl(&[&own, "config", "set-credentials", "test", &format!("--token={}", token.trim())]);
        Self { cluster, socket: socket.to_owned(), kubeconfig, started: 0 }
    }

    /// Starts one more.
    pub(crate) fn start(&mut self) -> Replica {
        self.started += 1;
        let log = self.cluster.node().folder().join(format!("controller-{}.log", self.started));
        let to = fs::File::create(&log).expect("a log");
        let process = Command::new(artifacts::volhost())
            .args(["controller", "--namespace", NAMESPACE, "--lease-duration", "5s"])
            .arg(format!("--csi=unix://{}", self.socket.display()))
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .stdin(Stdio::null())
            .stdout(to.try_clone().expect("a handle"))
            .stderr(to)
            .spawn()
            .expect("volhost runs");
        Replica { process, log }
    }
}

impl Replica {
    /// Waits until it has the Lease.
    pub(crate) fn wait_leads(&self) {
        let log = || fs::read_to_string(&self.log).unwrap_or_default();
        assert!(eventually(|| log().contains("this replica leads")), "{}", log());
    }

    /// Kills it, as a machine that fails does.
    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// The most memory that it has had resident, in MiB. `volhost` has become the controller.
    pub(crate) fn peak_mib(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a VmHWM line");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).expect("a figure") / 1024.0
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
