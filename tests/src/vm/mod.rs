//! A virtual machine for what the machine of the tests lacks: another kernel, file systems and
//! quotas of its own, and a power switch.
//!
//! ```text
//!  test --JSON over a unix socket--> qemu-ga (in the guest) --> sh --> volhost --> volhostd
//!
//!  /            root.img of tests/vm/build.sh, discarded when the guest ends
//!  /payload     read-only: volhost, volhostd and the plugins under test
//!  /disk        the test's own disk: outlives a power loss; compiled/ has the plugins' code
//! ```
//!
//! `tests/vm/build.sh` builds kernel and root file system once. The processor is emulated, which
//! needs no rights and no hardware: a guest boots in seconds, and computes ten to twenty times slower
//! than the machine. Tests of one program that run at the same time [share](Guest::shared) a guest,
//! each with a folder of its own on its disk; a test that pulls the plug boots its own.

mod agent;
mod disks;
mod precompiled;
mod qemu;

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tempfile::TempDir;

use crate::artifacts::workspace;
use agent::Agent;
pub use agent::Finished;
use qemu::{GuestKernel, Machine};

/// The guest that tests share now.
static SHARED: Mutex<Weak<Guest>> = Mutex::new(Weak::new());

/// A running guest. Dropping it ends the machine as a power loss does.
#[derive(Debug)]
pub struct Guest {
    folder: TempDir,
    kernel: GuestKernel,
    running: Running,
}

/// The machine of one boot, and the connection to its agent.
#[derive(Debug)]
struct Running {
    machine: Machine,
    agent: Mutex<Agent>,
}

impl Guest {
    /// The guest that other tests of this program use now, or a new one.
    ///
    /// # Panics
    /// As [`Guest::start`].
    pub fn shared() -> Arc<Self> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let guest = Arc::new(Self::start());
            *shared = Arc::downgrade(&guest);
            guest
        })
    }

    /// Boots a guest with an empty disk.
    ///
    /// # Panics
    /// When the guest is not built (`deploy/setup.sh --tests`), or its agent does not answer; the
    /// end of its console is in the message.
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// Boots a guest whose kernel has further arguments.
    ///
    /// # Panics
    /// As [`Guest::start`].
    pub fn start_with(kernel: &'static str) -> Self {
        Self::start_on(GuestKernel::usual(kernel))
    }

    /// Boots a guest whose kernel has Fibre Channel. It takes longer than the other one.
    ///
    /// # Panics
    /// As [`Guest::start`].
    pub fn start_with_fibre_channel() -> Self {
        Self::start_on(GuestKernel::FIBRE_CHANNEL)
    }

    fn start_on(kernel: GuestKernel) -> Self {
        let folder = tempfile::Builder::new().prefix("volhost-vm-").tempdir().expect("a temporary folder");
        disks::make(folder.path());
        let running = Self::boot(folder.path(), &kernel);
        Self { folder, kernel, running }
    }

    fn boot(folder: &std::path::Path, kernel: &GuestKernel) -> Running {
        let mut machine = Machine::start(folder, &built(), kernel);
        let agent = Agent::connect(&mut machine);
        Running { machine, agent: Mutex::new(agent) }
    }

    /// Ends the machine between two instructions, as a power loss does, and boots it again with the
    /// same disk. What the guest had not written to the disk is lost.
    ///
    /// # Panics
    /// As [`Guest::start`].
    pub fn lose_power(&mut self) {
        self.running.machine.end();
        self.running = Self::boot(self.folder.path(), &self.kernel);
    }

    /// Lets the guest write its disks and reboot, with the same disk. What is mounted stays mounted
    /// until the end.
    ///
    /// # Panics
    /// As [`Guest::start`].
    pub fn reboot(&mut self) {
        self.run("sync");
        // The guest may end before it answers.
        let agent = self.running.agent.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = agent.start("echo b >/proc/sysrq-trigger");
        let ended = crate::wait::eventually(|| !self.running.machine.runs());
        assert!(ended, "the guest does not reboot: {}", self.running.machine.console());
        self.running = Self::boot(self.folder.path(), &self.kernel);
    }

    /// Runs a shell script in the guest to its end.
    ///
    /// # Panics
    /// When the guest has ended; the end of its console is in the message.
    pub fn try_run(&self, script: &str) -> Finished {
        let finished = self.running.agent.lock().unwrap_or_else(PoisonError::into_inner).start(script);
        finished
            .and_then(|command| command.wait(&self.running.agent))
            .unwrap_or_else(|error| panic!("{script}: {error}; the console ends:\n{}", self.running.machine.console()))
    }

    /// Runs a shell script in the guest, which must succeed. Returns its output.
    ///
    /// # Panics
    /// When it fails.
    pub fn run(&self, script: &str) -> String {
        let finished = self.try_run(script);
        assert!(finished.succeeded(), "{script}: {finished:?}");
        finished.output
    }
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
