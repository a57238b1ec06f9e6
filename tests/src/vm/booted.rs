//! A guest from one boot to the next.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use super::agent::{Agent, Finished};
use super::disks;
use super::qemu::{GuestKernel, Machine};
use crate::artifacts::workspace;
use crate::wait::eventually;

/// A machine with its disks. Dropping it ends the machine as a power loss does.
#[derive(Debug)]
pub(super) struct Booted {
    /// The folder with its disks; none when it will not be booted again.
    folder: Option<TempDir>,
    kernel: GuestKernel,
    machine: Machine,
    agent: Mutex<Agent>,
    /// What its earlier boots have used of a processor.
    used_before: Duration,
}

impl Booted {
    /// Boots a machine with an empty disk.
    pub(super) fn new(kernel: GuestKernel) -> Self {
        let folder = tempfile::Builder::new().prefix("volhost-vm-").tempdir().expect("a temporary folder");
        disks::make(folder.path());
        let (machine, agent) = boot(folder.path(), &kernel);
        Self { folder: Some(folder), kernel, machine, agent: Mutex::new(agent), used_before: Duration::ZERO }
    }

    /// Removes the names of its files, which the emulator has open: they go with it, however this
    /// program ends. It cannot be booted again.
    pub(super) fn without_folder(mut self) -> Self {
        self.folder = None;
        self
    }

    /// Ends the machine between two instructions, and boots it again with the same disk.
    pub(super) fn lose_power(&mut self) {
        self.machine.end();
        self.boot_again();
    }

    /// Reboots it, though volumes are mounted.
    pub(super) fn reboot(&mut self) {
        // The guest may end before it answers.
        let agent = self.agent.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = agent.start("echo b >/proc/sysrq-trigger");
        let ended = eventually(|| !self.machine.runs());
        assert!(ended, "the guest does not reboot: {}", self.machine.console());
        self.boot_again();
    }

    fn boot_again(&mut self) {
        self.used_before = self.processor_time();
        let folder = self.folder.as_ref().expect("a guest that has its disks");
        let (machine, agent) = boot(folder.path(), &self.kernel);
        (self.machine, self.agent) = (machine, Mutex::new(agent));
    }

    /// Runs a shell script to its end.
    pub(super) fn run(&self, script: &str) -> Finished {
        let mut agent = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
        agent
            .run(script)
            .unwrap_or_else(|error| panic!("{script}: {error}; the console ends:\n{}", self.machine.console()))
    }

    /// How long its emulators have kept a processor busy.
    pub(super) fn processor_time(&self) -> Duration {
        self.used_before + self.machine.processor_time()
    }
}

fn boot(folder: &Path, kernel: &GuestKernel) -> (Machine, Agent) {
    let mut machine = Machine::start(folder, &built(), kernel);
    let agent = Agent::connect(&mut machine);
    (machine, agent)
}

/// Where `build.sh` has put the guest.
fn built() -> PathBuf {
    let script = workspace().join("tests/vm/build.sh");
    let output = Command::new(script).arg("--where").output().expect("tests/vm/build.sh runs");
    let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    assert!(
        folder.join("complete").exists(),
        "the guest is not built in {}; run `deploy/setup.sh --tests`",
        folder.display()
    );
    folder
}
