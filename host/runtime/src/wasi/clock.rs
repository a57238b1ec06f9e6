//! The clock that a plugin sees: its call's own. It shows nothing of the node's time, of how long
//! anything took, or of what else runs on the node, and a repeated call sees the same.
//!
//! Waiting takes no time: the clock moves on to the moment that the plugin waits for. The pollables
//! of `wasmtime_wasi` would sleep in real time, beyond the plugin's deadline and out of reach of a
//! cancellation, so the interface `monotonic-clock` is served here.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::clocks::monotonic_clock;
use wasmtime_wasi::p2::{DynPollable, Pollable, subscribe};
use wasmtime_wasi::{HostWallClock, async_trait};

use crate::host::State;

/// How far the clock moves at each reading, in nanoseconds, so that a loop that waits for it to
/// move ends.
const TICK: u64 = 1_000;

/// Nanoseconds since the call began, as the plugin sees them.
#[derive(Debug, Clone, Default)]
pub(super) struct CallClock(Arc<Mutex<Time>>);

#[derive(Debug, Default)]
struct Time {
    now: u64,
    /// The earliest moment that the plugin waits for; in the past if it waits for none.
    awaited: u64,
}

impl CallClock {
    fn time(&self) -> MutexGuard<'_, Time> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time, which is later than at the last reading.
    fn read(&self) -> u64 {
        let mut time = self.time();
        time.now = time.now.saturating_add(TICK);
        time.now
    }
}

impl HostWallClock for CallClock {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(TICK)
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.read())
    }
}

/// A moment that a plugin can wait for.
struct Moment {
    clock: CallClock,
    at: u64,
}

#[async_trait]
impl Pollable for Moment {
    /// Ready once the moment has come.
    ///
    /// `poll` polls everything that the plugin waits for in rounds. In one round each moment is
    /// noted, in the next the clock moves on to the earliest. A moment that was noted and dropped
    /// costs two more rounds.
    async fn ready(&mut self) {
        let mut noted = false;
        poll_fn(|context| {
            let mut time = self.clock.time();
            if noted {
                time.now = time.now.max(time.awaited);
            }
            if self.at <= time.now {
                return Poll::Ready(());
            }
            if !noted {
                time.awaited = if time.awaited <= time.now { self.at } else { time.awaited.min(self.at) };
            }
            noted = !noted;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

impl State {
    fn clock(&mut self) -> CallClock {
        self.wasi.get_or_insert_default().clock.clone()
    }
}

impl monotonic_clock::Host for State {
    fn now(&mut self) -> wasmtime::Result<u64> {
        Ok(self.clock().read())
    }

    fn resolution(&mut self) -> wasmtime::Result<u64> {
        Ok(TICK)
    }

    fn subscribe_instant(&mut self, when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        let clock = self.clock();
        let moment = self.push(Moment { clock, at: when })?;
        subscribe(&mut self.table, moment)
    }

    fn subscribe_duration(&mut self, when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        let at = self.clock().time().now.saturating_add(when);
        self.subscribe_instant(at)
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    /// Polls the moments in rounds until one is ready, as `poll` does. Returns which are.
    fn poll(clock: &CallClock, at: &[u64]) -> Vec<usize> {
        let mut moments: Vec<_> = at.iter().map(|at| Moment { clock: clock.clone(), at: *at }).collect();
        let mut waits: Vec<_> = moments.iter_mut().map(Pollable::ready).collect();
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..10 {
            let ready = waits.iter_mut().enumerate();
            let ready: Vec<_> = ready
                .filter_map(|(index, wait)| wait.as_mut().poll(&mut context).is_ready().then_some(index))
                .collect();
            if !ready.is_empty() {
                return ready;
            }
        }
        panic!("none of {at:?} comes: {clock:?}");
    }

    #[test]
    fn the_clock_moves_on_by_being_read_and_by_waiting_and_never_back() {
        let clock = CallClock::default();
        assert!(clock.read() < clock.read());
        let hour = 3_600_000_000_000;
        assert_eq!(poll(&clock, &[hour]), [0]);
        assert!(clock.read() > hour);
        assert_eq!(poll(&clock, &[5]), [0]);
        assert!(clock.read() > hour);
        assert_eq!(poll(&clock, &[u64::MAX]), [0]);
        assert_eq!(clock.read(), u64::MAX);
    }

    #[test]
    fn of_several_moments_the_earliest_comes_first_wherever_it_is_in_the_list() {
        let clock = CallClock::default();
        assert_eq!(poll(&clock, &[900, 800, 300, 700]), [2]);
        assert_eq!(clock.read(), 300 + TICK);
        assert_eq!(poll(&clock, &[9_000, 7_000, 7_000]), [1, 2]);
    }

    #[test]
    fn a_moment_that_was_only_looked_at_does_not_keep_a_later_one_from_coming() {
        let clock = CallClock::default();
        let mut looked_at = Moment { clock: clock.clone(), at: 100 };
        assert!(looked_at.ready().as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(poll(&clock, &[500, 400]), [1]);
    }
}
