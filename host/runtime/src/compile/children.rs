//! The compiler children that run, so that a host that stops can end them at once.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process};
use volhost_kernel::program::Child;

/// The running children.
#[derive(Debug, Default)]
pub(crate) struct Children(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    stopped: bool,
    running: BTreeSet<i32>,
}

/// A running child. Dropping it takes the child off the list, which must happen before the child is
/// waited for: afterwards its id may be another process's.
#[derive(Debug)]
pub(super) struct Listed<'a> {
    children: &'a Children,
    pid: Pid,
}

impl Children {
    /// Kills every child and lets no further one live.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        for pid in state.running.iter().copied().filter_map(Pid::from_raw) {
            // It may have ended this very moment. Its id is its own still: a listed child has not
            // been waited for.
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// Whether no child may run any more.
    pub(super) fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Puts a child on the list; kills it if none may run any more.
    pub(super) fn list(&self, child: &Child) -> Listed<'_> {
        let mut state = self.lock();
        if state.stopped {
            let _ = child.kill();
        }
        let pid = child.pid();
        state.running.insert(pid.as_raw_pid());
        Listed { children: self, pid }
    }

    /// Each change is whole at any moment.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.children.lock().running.remove(&self.pid.as_raw_pid());
    }
}
