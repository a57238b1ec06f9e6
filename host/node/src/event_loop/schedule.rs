//! Work that is due at regular intervals.
#![deny(clippy::disallowed_methods)]

use std::time::Duration;

use tokio::time::Instant;
use volhost_core::Event;

use super::world::World;

/// A regular interval.
#[derive(Debug)]
struct Interval {
    every: Duration,
    next: Instant,
}

impl Interval {
    fn new(every: Duration) -> Self {
        Self { every, next: Instant::now() + every }
    }

    /// Whether it is due now; then it is due again after the interval.
    fn is_due(&mut self, now: Instant) -> bool {
        let due = now >= self.next;
        if due {
            self.next = now + self.every;
        }
        due
    }
}

/// Work that is due at regular intervals.
#[derive(Debug)]
pub(super) struct Schedule {
    /// Ask plugins which volumes are attached.
    verify: Interval,
    /// Remount the volumes whose content is to be refreshed.
    refresh: Interval,
}

impl Schedule {
    /// Creates a schedule. Both are due for the first time after their interval.
    pub(super) fn new(verify_every: Duration, refresh_every: Duration) -> Self {
        Self { verify: Interval::new(verify_every), refresh: Interval::new(refresh_every) }
    }

    /// Returns when work is due next.
    pub(super) fn next(&self) -> Instant {
        self.verify.next.min(self.refresh.next)
    }

    /// Does the work that is due.
    pub(super) fn run(&mut self, world: &mut World) {
        let now = Instant::now();
        if self.verify.is_due(now) {
            for (plugin, volumes) in world.core().attached_volumes() {
                world.executor_mut().verify(plugin, volumes);
            }
        }
        if self.refresh.is_due(now) {
            world.dispatch(Event::Refresh);
        }
    }
}
