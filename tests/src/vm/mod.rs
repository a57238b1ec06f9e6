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
//! than the machine. An emulator keeps one processor busy, so tests that run at the same time have a
//! guest each. A test [borrows](Guest::borrow) one that an earlier test has left, where the programs
//! are translated already; a test that pulls the plug boots its own.

mod agent;
mod booted;
mod disks;
mod lifetime;
mod precompiled;
mod qemu;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::figures;
pub use agent::Finished;
use booted::Booted;
use qemu::GuestKernel;

/// Guests that no test uses now.
static IDLE: Mutex<Vec<Booted>> = Mutex::new(Vec::new());

/// A running guest, which one test has for itself. When it is dropped, a line of the test program's
/// output says how long its emulator has kept a processor busy for the test.
#[derive(Debug)]
pub struct Guest {
    /// None only while this is dropped.
    booted: Option<Booted>,
    /// It is kept for the next test.
    is_borrowed: bool,
    /// What earlier tests have used of a processor.
    used_before: Duration,
}

impl Guest {
    /// Returns a guest that an earlier test of this program has borrowed, with whatever that test
    /// has left on its disk, or boots one. Dropping it keeps it for the next test, unless the test
    /// fails.
    ///
    /// # Panics
    /// As [`Guest::start`].
    pub fn borrow() -> Self {
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let booted = idle.unwrap_or_else(|| Booted::new(GuestKernel::usual("")).without_folder());
        Self { used_before: booted.processor_time(), booted: Some(booted), is_borrowed: true }
    }

    /// Boots a guest with an empty disk. Dropping it ends the machine as a power loss does.
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
        Self { booted: Some(Booted::new(kernel)), is_borrowed: false, used_before: Duration::ZERO }
    }

    /// Ends the machine between two instructions, as a power loss does, and boots it again with the
    /// same disk. What the guest had not written to the disk is lost.
    ///
    /// # Panics
    /// As [`Guest::start`]; for a guest that is borrowed.
    pub fn lose_power(&mut self) {
        self.own().lose_power();
    }

    /// Lets the guest write its disks and reboot, with the same disk. What is mounted stays mounted
    /// until the end.
    ///
    /// # Panics
    /// As [`Guest::lose_power`].
    pub fn reboot(&mut self) {
        self.run("sync");
        self.own().reboot();
    }

    fn own(&mut self) -> &mut Booted {
        assert!(!self.is_borrowed, "a borrowed guest is not rebooted");
        self.booted.as_mut().expect("a booted guest")
    }

    /// Runs a shell script in the guest to its end.
    ///
    /// # Panics
    /// When the guest has ended; the end of its console is in the message.
    pub fn try_run(&self, script: &str) -> Finished {
        self.booted.as_ref().expect("a booted guest").run(script)
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

impl Drop for Guest {
    fn drop(&mut self) {
        let Some(booted) = self.booted.take() else { return };
        let used = booted.processor_time().saturating_sub(self.used_before);
        let test = std::thread::current();
        let test = test.name().unwrap_or_default();
        figures::show(&format!("{test}: its guest took {:.1} s of a processor", used.as_secs_f64()));
        // A test that fails may leave anything.
        if self.is_borrowed && !std::thread::panicking() {
            IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(booted);
        }
    }
}
