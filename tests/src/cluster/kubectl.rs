//! kubectl as an administrator of the cluster.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::Cluster;
use crate::wait::{TIMEOUT, eventually};

/// What kubectl says of a kubelet that does not run: the API server's words, then kubectl's own. And
/// the words of one that was just started, and has not read yet which pods it has.
const KUBELET_STARTS: [&str; 3] = ["error dialing backend", "was refused", "pod does not exist"];

impl Cluster {
    pub(super) fn kubectl_command(&self, arguments: &[&str]) -> Command {
        let mut command = self.program("kubectl");
        command.env("KUBECONFIG", self.kubeconfig()).env("HOME", self.folder()).args(arguments);
        command
    }

    /// Runs kubectl. Returns its output, or what it said when it failed.
    pub fn try_kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        let output = self.kubectl_command(arguments).stdin(Stdio::null()).output().expect("kubectl runs");
        answer(&output)
    }

    /// Runs kubectl where it must succeed. Returns its output.
    ///
    /// # Panics
    /// When it fails.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.try_kubectl(arguments).unwrap_or_else(|error| panic!("kubectl {arguments:?}: {error}"))
    }

    /// Applies these objects on the server.
    ///
    /// # Panics
    /// When it is refused.
    pub fn apply(&self, manifest: &str) {
        self.kubectl_with(&["apply", "-f", "-"], manifest);
    }

    /// Runs kubectl with these objects as its input, where it must succeed. Returns its output.
    ///
    /// # Panics
    /// When it fails.
    pub fn kubectl_with(&self, arguments: &[&str], manifest: &str) -> String {
        let answer = self.try_kubectl_with(arguments, manifest);
        answer.unwrap_or_else(|error| panic!("kubectl {arguments:?}: {error}\n{manifest}"))
    }

    /// Runs kubectl with these objects as its input. Returns its output, or what it said when it
    /// failed.
    ///
    /// # Panics
    /// When it does not run.
    pub fn try_kubectl_with(&self, arguments: &[&str], manifest: &str) -> Result<String, String> {
        let mut command = self.kubectl_command(arguments);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("kubectl runs");
        let written = child.stdin.take().expect("it is piped").write_all(manifest.as_bytes());
        let output = child.wait_with_output().expect("kubectl ends");
        written.expect("kubectl reads");
        answer(&output)
    }

    /// Waits until the object is as wanted: `condition=Ready`, `create`, `delete`,
    /// `jsonpath={.status.phase}=Bound`.
    ///
    /// # Panics
    /// When it is not within the time that every test waits; what the cluster knows is in the
    /// message.
    pub fn wait(&self, object: &[&str], wanted: &str) {
        let time = format!("--timeout={}s", TIMEOUT.as_secs());
        // kubectl waits for the state of an object only if the object exists.
        let steps = if wanted == "delete" { vec![wanted] } else { vec!["create", wanted] };
        for wanted in steps {
            if let Err(error) = self.try_kubectl(&[&["wait", &format!("--for={wanted}"), &time], object].concat()) {
                panic!("{object:?}: {wanted}: {error}\n{}", self.known());
            }
        }
    }

    /// Waits until the pod runs.
    ///
    /// # Panics
    /// As [`Cluster::wait`].
    pub fn wait_running(&self, pod: &str) {
        self.wait(&["pod", pod], "condition=Ready");
    }

    /// Deletes the pod and waits until it is gone.
    ///
    /// # Panics
    /// When it is not gone in time.
    pub fn delete_pod(&self, pod: &str) {
        let time = format!("--timeout={}s", TIMEOUT.as_secs());
        if let Err(error) = self.try_kubectl(&["delete", "pod", pod, "--grace-period=1", &time]) {
            panic!("{pod} is not gone: {error}\n{}", self.known());
        }
    }

    /// Runs a shell command in the pod's container. Returns its output.
    ///
    /// # Panics
    /// When it fails.
    pub fn exec(&self, pod: &str, command: &str) -> String {
        self.try_exec(pod, command).unwrap_or_else(|error| panic!("{command} in {pod}: {error}\n{}", self.known()))
    }

    /// Runs a shell command in the pod's container. Returns its output, or what it said when it
    /// failed.
    pub fn try_exec(&self, pod: &str, command: &str) -> Result<String, String> {
        self.ask_kubelet(&["exec", pod, "--", "sh", "-euc", command])
    }

    /// Runs kubectl for what the kubelet answers, again until it does: it may have just been started.
    fn ask_kubelet(&self, arguments: &[&str]) -> Result<String, String> {
        let mut answer = Err(String::new());
        eventually(|| {
            answer = self.try_kubectl(arguments);
            !matches!(&answer, Err(error) if KUBELET_STARTS.iter().any(|words| error.contains(words)))
        });
        answer
    }

    /// The kubelet's statistics of the node's pods. The API server passes no request on to a node
    /// on the loopback interface, so the kubelet is asked itself.
    ///
    /// # Panics
    /// When it does not answer with JSON.
    pub fn stats_summary(&self) -> Value {
        let pki = self.built.join("pki");
        let file = |option: &str, name: &str| format!("--{option}={}", pki.join(name).display());
        let summary = self.ask_kubelet(&[
            &format!("--server=https://{}:{}", super::NODE, self.ports.kubelet),
            &file("certificate-authority", "ca.crt"),
            &file("client-certificate", "apiserver-kubelet-client.crt"),
            &file("client-key", "apiserver-kubelet-client.key"),
            "get",
            "--raw=/stats/summary",
        ]);
        let summary = summary.unwrap_or_else(|error| panic!("the kubelet's statistics: {error}"));
        serde_json::from_str(&summary).expect("statistics are JSON")
    }

    /// Writes a kubeconfig file for a service account. `name`: of the file. Returns its path.
    ///
    /// # Panics
    /// When the API server issues no token.
    pub fn kubeconfig_of(&self, name: &str, namespace: &str, account: &str) -> PathBuf {
        let token = self.kubectl(&["create", "token", account, "-n", namespace, "--duration=4h"]);
        let kubeconfig = self.folder().join(format!("{name}.kubeconfig"));
        fs::copy(self.kubeconfig(), &kubeconfig).expect("the administrator's configuration");
        let own = format!("--kubeconfig={}", kubeconfig.display());
        self.kubectl(&[&own, "config", "unset", "users.test"]);
        self.kubectl(&[&own, "config", "set-credentials", "test", &format!("--token={}", token.trim())]);
        kubeconfig
    }

    /// The requests that programs with service accounts of `deploy` have made until now, as
    /// the API server's audit log has them (`audit.k8s.io/v1`). A watch is there once it has ended.
    ///
    /// # Panics
    /// When the log is unreadable.
    pub fn requests(&self) -> Vec<Value> {
        let mut all = Vec::new();
        self.each_request(|request| all.push(request));
        all
    }

    /// Takes each of these requests, so that a large log does not have to fit into memory.
    ///
    /// # Panics
    /// When the log is unreadable.
    pub fn each_request(&self, mut take: impl FnMut(Value)) {
        let files = fs::read_dir(self.folder()).expect("the cluster's folder").flatten().map(|entry| entry.path());
        let is_log = |file: &PathBuf| {
            let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with("audit") && name.ends_with(".log")
        };
        // Those that are full have their time in the name, which comes before the present one's.
        let mut logs: Vec<PathBuf> = files.filter(is_log).collect();
        logs.sort();
        for log in logs {
            let mut log = BufReader::new(fs::File::open(log).expect("the audit log opens"));
            let mut line = String::new();
            // The last line may be half written.
            while log.read_line(&mut line).expect("the audit log is text") > 0 && line.ends_with('\n') {
                take(serde_json::from_str(&line).expect("a line of the audit log is JSON"));
                line.clear();
            }
        }
    }

    /// What a failed test shows: pods, claims, the newest events, and the end of the kubelet's log.
    fn known(&self) -> String {
        let shown = |arguments: &[&str]| self.try_kubectl(arguments).unwrap_or_else(|error| error);
        format!(
            "{}\n{}\nthe kubelet's log ends:\n{}",
            shown(&["get", "pods,pvc,pv,volumeattachments", "-o", "wide"]),
            shown(&["get", "events", "--sort-by=.lastTimestamp"]),
            self.log_end("kubelet"),
        )
    }
}

fn answer(output: &Output) -> Result<String, String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}
