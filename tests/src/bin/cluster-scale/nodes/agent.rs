//! A node's agent: `volhost node-agent`, a process of its own, as on a real node.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use volhost_tests::artifacts::{self, workspace};
use volhost_tests::cluster::Cluster;

use crate::process::{Memory, memory_of, processor_seconds_of};

const NAMESPACE: &str = "volhost-node";
const ACCOUNT: &str = "volhost-node-agent";

/// Gives agents the permissions of `deploy/node-agent`, and them and the controllers their shares of
/// the API server, those of `deploy/flow-schemas`. Returns the agents' kubeconfig file.
pub(crate) fn deploy(cluster: &Cluster) -> PathBuf {
    let folder = workspace().join("deploy/node-agent").display().to_string();
    cluster.kubectl(&["apply", "--validate=strict", "-k", &folder]);
    let shares = workspace().join("deploy/flow-schemas").display().to_string();
    cluster.kubectl(&["apply", "--validate=strict", "-k", &shares]);
    cluster.kubeconfig_of("node-agents", NAMESPACE, ACCOUNT)
}

/// One agent. Dropping it kills it.
pub(crate) struct Agent(Child);

impl Agent {
    /// Starts the agent of this node beside the daemon at this socket.
    pub(crate) fn start(node: &str, kubeconfig: &Path, socket: &Path, log: &Path) -> Self {
        let log = fs::File::options().create(true).append(true).open(log).expect("a log");
        let process = Command::new(artifacts::volhost())
            // It ends with this program, however that ends.
            .args(["node-agent", "--parent", &std::process::id().to_string(), "--node-name", node, "--kubeconfig"])
            .arg(kubeconfig)
            .arg("--socket")
            .arg(socket)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a handle"))
            .stderr(log)
            .spawn()
            .expect("volhost runs");
        Self(process)
    }

    /// Its memory now.
    pub(crate) fn memory(&self) -> Memory {
        memory_of(self.0.id())
    }

    /// The processor time that it has taken.
    pub(crate) fn processor_seconds(&self) -> f64 {
        processor_seconds_of(self.0.id())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
