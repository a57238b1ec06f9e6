//! A switch that ends all runs under it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::Signal;

use crate::process::Process;

/// Ends every run under it at once, and lets no further one live.
#[derive(Debug, Default)]
pub struct StopSwitch(Mutex<StopState>);

#[derive(Debug, Default)]
struct StopState {
    stopped: bool,
    next: u64,
    running: BTreeMap<u64, Arc<Process>>,
}

/// A process under the switch. Dropping it takes the process off the list.
#[derive(Debug)]
pub(crate) struct RegisteredProcess<'a> {
    switch: &'a StopSwitch,
    number: u64,
}

impl StopSwitch {
    /// Kills every process under the switch, now and from now on.
    pub fn stop(&self) {
        let mut state = self.state();
        state.stopped = true;
        for process in state.running.values() {
            // It fails only when the process has ended.
            let _ = process.signal(Signal::KILL);
        }
    }

    /// Whether [`Self::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.state().stopped
    }

    /// Puts a process under the switch, which kills it at once if it is stopped.
    pub(crate) fn list(&self, process: &Arc<Process>) -> RegisteredProcess<'_> {
        let mut state = self.state();
        if state.stopped {
            let _ = process.signal(Signal::KILL);
        }
        let number = state.next;
        state.next = number.wrapping_add(1);
        state.running.insert(number, Arc::clone(process));
        RegisteredProcess { switch: self, number }
    }

    /// Each change is whole at any moment.
    fn state(&self) -> MutexGuard<'_, StopState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RegisteredProcess<'_> {
    fn drop(&mut self) {
        self.switch.state().running.remove(&self.number);
    }
}
