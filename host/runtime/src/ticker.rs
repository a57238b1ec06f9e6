//! The clock of running plugins. A thread advances the engine's epoch while at least one call runs,
//! and sleeps without waking while none does: an idle host costs nothing.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use wasmtime::{Engine, EngineWeak};

/// How often a running plugin is looked at.
pub(crate) const TICK: Duration = Duration::from_millis(10);

#[derive(Debug, Default)]
struct TickerState {
    running: usize,
    /// The thread waits for a first call. Only then is it woken: a wake-up for each of many short
    /// calls would cost more than they do.
    idle: bool,
    stopped: bool,
}

#[derive(Debug, Default)]
struct TickerShared {
    state: Mutex<TickerState>,
    changed: Condvar,
}

/// The clock. Dropping it ends its thread.
#[derive(Debug)]
pub(crate) struct Ticker {
    shared: Arc<TickerShared>,
}

/// One call that runs: the clock ticks while it exists.
#[derive(Debug)]
pub(crate) struct TickGuard<'a> {
    shared: &'a TickerShared,
}

impl Ticker {
    /// Starts the clock's thread.
    ///
    /// # Errors
    /// When the thread cannot be made.
    pub(crate) fn start(engine: &Engine) -> std::io::Result<Self> {
        let shared = Arc::new(TickerShared::default());
        let (engine, clock) = (engine.weak(), Arc::clone(&shared));
        let _detached = thread::Builder::new().name("volhost-epoch".into()).spawn(move || tick(&engine, &clock))?;
        Ok(Self { shared })
    }

    /// Says that a call runs, until the answer is dropped.
    pub(crate) fn run(&self) -> TickGuard<'_> {
        let idle = {
            let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.running += 1;
            std::mem::take(&mut state.idle)
        };
        if idle {
            self.shared.changed.notify_one();
        }
        TickGuard { shared: &self.shared }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).stopped = true;
        self.shared.changed.notify_one();
    }
}

impl Drop for TickGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.running = state.running.saturating_sub(1);
    }
}

fn tick(engine: &EngineWeak, shared: &TickerShared) {
    let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
    while !state.stopped {
        if state.running == 0 {
            state.idle = true;
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        state = shared.changed.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0;
        match engine.upgrade() {
            Some(engine) => engine.increment_epoch(),
            None => return,
        }
    }
}
