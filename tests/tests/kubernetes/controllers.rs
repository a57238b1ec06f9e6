//! `volhost controller` with the permissions that `deploy/csi` gives it.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use volhost_tests::artifacts::{self, workspace};
use volhost_tests::cluster::Cluster;
use volhost_tests::csi_serve::CsiServe;
use volhost_tests::http::request;
use volhost_tests::wait::eventually;

use crate::kit::Driver;

/// Where `deploy/csi` puts the controller.
pub(crate) const NAMESPACE: &str = "volhost-csi";
const ACCOUNT: &str = "volhost-csi-controller";

/// One replica. Dropping it kills it.
pub(crate) struct Controller {
    name: String,
    /// As the API server sees it.
    agent: String,
    cluster: Arc<Cluster>,
    log: PathBuf,
    process: Option<Child>,
}

impl Controller {
    /// Starts a replica for this driver. `name`: of its log and kubeconfig file.
    pub(crate) fn start(driver: &Driver, name: &str, arguments: &[&str]) -> Self {
        Self::start_for(&driver.cluster, &driver.served, &driver.driver(), name, arguments)
    }

    /// The same for the driver of this name that is served here.
    pub(crate) fn start_for(
        cluster: &Arc<Cluster>,
        served: &CsiServe,
        driver: &str,
        name: &str,
        arguments: &[&str],
    ) -> Self {
        let cluster = Arc::clone(cluster);
        deploy(&cluster, "csi", &[]);
        let kubeconfig = kubeconfig(&cluster, name, NAMESPACE, ACCOUNT);
        let log = cluster.node().folder().join(format!("{name}.log"));
        let to = fs::File::create(&log).unwrap();
        let process = Command::new(artifacts::volhost())
            .args(["controller", "--namespace", NAMESPACE, "--lease-duration", "5s", "--extra-create-metadata"])
            .arg(format!("--csi=unix://{}", served.socket().display()))
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(to.try_clone().unwrap())
            .stderr(to)
            .spawn()
            .unwrap();
        let agent = format!("volhost-controller/{} ({})", env!("CARGO_PKG_VERSION"), driver);
        Self { name: name.to_owned(), agent, cluster, log, process: Some(process) }
    }

    /// Its log until now.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its metrics, if it was started with `--metrics-listen 127.0.0.1:0`.
    pub(crate) fn metrics(&self) -> String {
        let address = || {
            let log = self.log();
            let served = log.split("metrics are served at http://").nth(1)?.split('/').next()?;
            served.parse::<SocketAddr>().ok()
        };
        assert!(eventually(|| address().is_some()), "{}: {}", self.name, self.log());
        request(address().unwrap(), "GET", "/metrics").body
    }

    /// Waits until it has the Lease.
    pub(crate) fn wait_leads(&self) {
        assert!(eventually(|| self.log().contains("this replica leads")), "{}: {}", self.name, self.log());
    }

    /// Kills it, as a machine that fails does.
    pub(crate) fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Asks it to end, as a node that is drained does, and waits for its end.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        self.signal("-TERM");
        self.wait_ended()
    }

    /// Sends it a signal: `-STOP` freezes it, `-CONT` lets it go on.
    pub(crate) fn signal(&self, signal: &str) {
        let process = self.process.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([signal, &process]).status().unwrap().success());
    }

    /// Waits until it has ended.
    pub(crate) fn wait_ended(&mut self) -> ExitStatus {
        let mut process = self.process.take().unwrap();
        let mut ended = None;
        if eventually(|| {
            ended = process.try_wait().unwrap();
            ended.is_some()
        }) {
            return ended.unwrap();
        }
        self.process = Some(process);
        panic!("{} does not end: {}", self.name, self.log());
    }

    /// What it and the other replicas of its driver have asked the API server for, with success:
    /// each verb and resource, watches apart.
    pub(crate) fn requests(&self) -> Vec<(String, String)> {
        self.requests_that(|_| true)
    }

    /// The same of requests that the API server's log has so.
    pub(crate) fn requests_that(&self, count: impl Fn(&Value) -> bool) -> Vec<(String, String)> {
        let text = |request: &Value, pointer: &str| {
            request.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let all = self.cluster.requests();
        let is_done = |request: &Value| request["responseStatus"]["code"].as_u64().is_some_and(|code| code < 300);
        let own = all.iter().filter(|request| request["userAgent"] == *self.agent && request["verb"] != "watch");
        let own = own.filter(|request| is_done(request) && count(request));
        own.map(|request| {
            let (resource, part) = (text(request, "/objectRef/resource"), text(request, "/objectRef/subresource"));
            (text(request, "/verb"), if part.is_empty() { resource } else { format!("{resource}/{part}") })
        })
        .collect()
    }

    /// Checks that the permissions of `deploy/csi` were enough.
    pub(crate) fn assert_permitted(&self) {
        assert_permitted(&self.cluster, &self.agent);
    }

    /// What a failed test shows.
    pub(crate) fn known(&self) -> String {
        let kubectl = |arguments: &[&str]| self.cluster.try_kubectl(arguments).unwrap_or_else(|error| error);
        let snapshots = self.cluster.try_kubectl(&["get", "crd", "volumesnapshots.snapshot.storage.k8s.io"]).is_ok();
        let more = if snapshots { ",volumesnapshots,volumesnapshotcontents" } else { "" };
        let objects = format!("pods,pvc,pv,volumeattachments,leases{more}");
        format!(
            "{}\n{}\n{}\n{}",
            kubectl(&["get", &objects, "-A"]),
            kubectl(&["get", "events", "--sort-by=.metadata.creationTimestamp"]),
            self.name,
            self.log()
        )
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Checks that this program was allowed all that it has asked the API server for.
pub(crate) fn assert_permitted(cluster: &Cluster, agent: &str) {
    let all = cluster.requests();
    let own: Vec<&Value> = all.iter().filter(|request| request["userAgent"] == *agent).collect();
    assert!(!own.is_empty(), "the audit log has its requests");
    let refused: Vec<_> = own.iter().filter(|request| request["responseStatus"]["code"] == 403).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

/// Applies the manifests of this folder in `deploy`. One test at a time: kubectl fails when an
/// object that it did not find has appeared before it creates it.
pub(crate) fn deploy(cluster: &Cluster, folder: &str, arguments: &[&str]) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = workspace().join("deploy").join(folder).display().to_string();
    cluster.kubectl(&[&["apply", "--validate=strict"], arguments, &["-k", &folder]].concat());
}

/// A kubeconfig file of this name for a service account.
pub(crate) fn kubeconfig(cluster: &Cluster, name: &str, namespace: &str, account: &str) -> PathBuf {
    let token = cluster.kubectl(&["create", "token", account, "-n", namespace, "--duration=2h"]);
    let admin = fs::read_to_string(cluster.kubeconfig()).unwrap();
    let mut config: Value = serde_saphyr::from_str(&admin).unwrap();
    config["users"][0]["user"] = serde_json::json!({ "token": token.trim() });
    let path = cluster.node().folder().join(format!("{name}.kubeconfig"));
    fs::write(&path, config.to_string()).unwrap();
    path
}
