//! Replicas of `volhost attach-detach-controller`, with the permissions of `deploy/attach-detach`.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::artifacts::{self, workspace};
use crate::cluster::Cluster;
use crate::http::request;
use crate::wait::eventually;

/// The namespace in `deploy/attach-detach`.
pub const NAMESPACE: &str = "volhost-attach-detach";
/// The service account, the Lease, and the name that the API server logs.
pub const NAME: &str = "volhost-attach-detach-controller";

/// One replica. Dropping it kills it.
#[derive(Debug)]
pub struct AttachDetach {
    process: Child,
    log: PathBuf,
}

impl AttachDetach {
    /// Gives the controller its permissions, by the manifests without their Deployment.
    ///
    /// # Panics
    /// When the API server refuses them.
    pub fn deploy(cluster: &Cluster) {
        let folder = workspace().join("deploy/attach-detach").display().to_string();
        cluster.kubectl(&["apply", "--validate=strict", "-k", &folder]);
        cluster.kubectl(&["delete", "-n", NAMESPACE, "deployments", "--all"]);
    }

    /// Starts a replica. `name`: of its log and its kubeconfig file.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(cluster: &Cluster, name: &str, arguments: &[&str]) -> Self {
        let kubeconfig = cluster.kubeconfig_of(name, NAMESPACE, NAME);
        let log = cluster.node().folder().join(format!("{name}.log"));
        let to = fs::File::create(&log).expect("a log");
        let process = Command::new(artifacts::volhost())
            .args(["attach-detach-controller", "--namespace", NAMESPACE, "--lease-duration", "5s"])
            .args(["--metrics-listen", "127.0.0.1:0", "--kubeconfig"])
            .arg(&kubeconfig)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(to.try_clone().expect("a handle"))
            .stderr(to)
            .spawn()
            .expect("volhost runs");
        Self { process, log }
    }

    /// Its log until now.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its metrics.
    ///
    /// # Panics
    /// When it serves none.
    pub fn metrics(&self) -> String {
        let address = || {
            let log = self.log();
            let served = log.split("metrics are served at http://").nth(1)?.split('/').next()?;
            served.parse::<SocketAddr>().ok()
        };
        assert!(eventually(|| address().is_some()), "{}", self.log());
        request(address().expect("an address"), "GET", "/metrics").body
    }

    /// What the replicas in this cluster have asked the API server for, with success: each verb and
    /// resource, watches apart.
    ///
    /// # Panics
    /// When one of them was forbidden: the permissions of `deploy/attach-detach` are not enough.
    pub fn requests(cluster: &Cluster) -> Vec<(String, String)> {
        let agent = format!("{NAME}/{}", env!("CARGO_PKG_VERSION"));
        let mut own = Vec::new();
        for request in cluster.requests() {
            let text = |pointer: &str| request.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            if text("/userAgent") != agent {
                continue;
            }
            let code = request.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or_default();
            assert_ne!(code, 403, "{request}");
            if text("/verb") == "watch" || code >= 300 {
                continue;
            }
            let (resource, part) = (text("/objectRef/resource"), text("/objectRef/subresource"));
            let part = if part.is_empty() { String::new() } else { format!("/{part}") };
            own.push((text("/verb").to_owned(), format!("{resource}{part}")));
        }
        own
    }

    /// Waits until it has the Lease.
    ///
    /// # Panics
    /// When it does not get it.
    pub fn wait_leads(&self) {
        assert!(eventually(|| self.log().contains("this replica leads")), "{}", self.log());
    }

    /// Kills it, as a machine that fails does.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Asks it to end, and waits for that. Returns whether it ended well.
    ///
    /// # Panics
    /// When it does not end.
    pub fn terminate(&mut self) -> bool {
        let process = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &process]).status().expect("kill runs").success());
        let mut ended = None;
        eventually(|| {
            ended = self.process.try_wait().expect("it can be waited for");
            ended.is_some()
        });
        ended.unwrap_or_else(|| panic!("it does not end: {}", self.log())).success()
    }
}

impl Drop for AttachDetach {
    fn drop(&mut self) {
        self.kill();
    }
}
