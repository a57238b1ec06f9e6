//! The cluster's programs: started, awaited, killed and started again.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::sync::PoisonError;

use super::{Cluster, IMAGE, configuration};
use crate::wait::eventually;

/// Every program, in the order of their start.
pub(super) const ALL: [&str; 6] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "containerd", "kubelet"];
/// Those that need no node, in the order of their start.
pub(super) const CONTROL_PLANE: [&str; 3] = ["etcd", "kube-apiserver", "kube-controller-manager"];
/// The last bytes of a log that a failed test shows.
const LOG_END: usize = 4000;

impl Cluster {
    /// Starts one of the programs, and waits until it serves.
    ///
    /// # Panics
    /// When it does not; the end of its log is in the message.
    pub fn start_component(&self, component: &'static str) {
        self.start_component_with(component, &[]);
    }

    /// The same with more arguments than it usually has.
    ///
    /// # Panics
    /// As [`Cluster::start_component`].
    pub fn start_component_with(&self, component: &'static str, arguments: &[&str]) {
        let log = fs::File::options().create(true).append(true).open(self.log_file(component)).expect("a log");
        let child = self
            .program(component)
            .args(configuration::arguments(self, component))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a handle"))
            .stderr(log)
            .process_group(0)
            .spawn()
            .expect("nsenter (util-linux) runs");
        self.running.lock().unwrap_or_else(PoisonError::into_inner).push((component, child));
        let mut serves = false;
        eventually(|| {
            serves = self.serves(component);
            serves || !self.runs(component)
        });
        if !serves {
            // The last line first: what shows a failed test may shorten the rest.
            let state = if self.runs(component) { "does not serve" } else { "has ended" };
            let log = self.log_end(component);
            let last = log.lines().last().unwrap_or_default();
            panic!("{component} {state}: {last}\nits log ends:\n{log}");
        }
        if component == "containerd" {
            let image = self.built.join("image.tar").display().to_string();
            self.ctr(&["images", "import", "--local", &image]);
            assert!(self.ctr(&["images", "ls", "-q"]).contains(IMAGE));
        }
    }

    /// Kills one of the programs between two instructions.
    ///
    /// # Panics
    /// When it does not run, and of a [shared](Cluster::shared) cluster: a kubelet that is killed
    /// between the two calls that unpublish and unstage a volume never unstages it, whichever test it
    /// belongs to.
    pub fn kill_component(&self, component: &str) {
        assert!(!self.is_shared(), "a test that kills {component} needs a cluster of its own");
        self.kill(component);
    }

    fn kill(&self, component: &str) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let position = running.iter().position(|(name, _)| *name == component).expect("it runs");
        let (_, mut child) = running.remove(position);
        let _ = child.kill();
        child.wait().expect("it can be waited for");
    }

    /// The process id of one of the programs.
    ///
    /// # Panics
    /// When it does not run.
    pub fn component_pid(&self, component: &str) -> u32 {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.iter().find(|(name, _)| *name == component).expect("it runs").1.id()
    }

    /// The process ids of all of them, by their names.
    pub fn component_pids(&self) -> Vec<(&'static str, u32)> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.iter().map(|(name, child)| (*name, child.id())).collect()
    }

    /// The end of a program's log.
    pub fn log_end(&self, component: &str) -> String {
        let log = fs::read_to_string(self.log_file(component)).unwrap_or_default();
        let begin = log.len().saturating_sub(LOG_END);
        let begin = (begin..log.len()).find(|at| log.is_char_boundary(*at)).unwrap_or(log.len());
        log[begin..].to_owned()
    }

    fn log_file(&self, component: &str) -> std::path::PathBuf {
        self.folder().join("log").join(format!("{component}.log"))
    }

    fn runs(&self, component: &str) -> bool {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let child = running.iter_mut().find(|(name, _)| *name == component);
        child.is_some_and(|(_, child)| child.try_wait().is_ok_and(|end| end.is_none()))
    }

    /// Whether it answers.
    fn serves(&self, component: &str) -> bool {
        let listens = |port: u16| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        match component {
            "etcd" => listens(self.ports.etcd),
            "kube-apiserver" => listens(self.ports.apiserver) && self.try_kubectl(&["get", "--raw=/readyz"]).is_ok(),
            "kube-controller-manager" => listens(self.ports.controller_manager),
            "kube-scheduler" => listens(self.ports.scheduler),
            "containerd" => self.try_ctr(&["version"]).is_some(),
            _ => listens(self.ports.kubelet_health),
        }
    }

    fn try_ctr(&self, arguments: &[&str]) -> Option<String> {
        let socket = self.folder().join("containerd.sock");
        let mut command = self.program("ctr");
        command.arg("--address").arg(socket).args(["--namespace", "k8s.io"]).args(arguments);
        let output = command.stdin(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    pub(super) fn ctr(&self, arguments: &[&str]) -> String {
        self.try_ctr(arguments).unwrap_or_else(|| panic!("ctr {arguments:?} failed"))
    }

    /// Ends every container, once the kubelet cannot start another.
    ///
    /// # Panics
    /// When the kubelet cannot be ended.
    pub fn end_containers(&self) {
        if self.runs("kubelet") {
            self.kill("kubelet");
        }
        for task in self.try_ctr(&["tasks", "ls", "-q"]).unwrap_or_default().split_whitespace() {
            let _ = self.try_ctr(&["tasks", "kill", "-s", "9", task]);
            let _ = self.try_ctr(&["tasks", "rm", "-f", task]);
        }
    }

    /// Kills every program.
    pub(super) fn end_components(&mut self) {
        for (_, child) in self.running.get_mut().unwrap_or_else(PoisonError::into_inner) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
