//! What the engine does from time to time although nothing happens: it has plugins look whether what they attached still is, and volumes set up
//! again that want it.
#![deny(clippy::disallowed_methods)]

use std::time::Duration;

use tokio::time::Instant;
use volhost_core::Event;

use super::serve::Engine;

/// How often volumes are set up again that want it from time to time, unless somebody says otherwise.
pub(super) const REFRESH_EVERY: Duration = Duration::from_secs(60);

/// Something that is due again and again.
#[derive(Debug)]
pub(super) struct Period {
    every: Duration,
    next: Instant,
}

impl Period {
    /// Due for the first time when this time has passed.
    pub(super) fn new(every: Duration) -> Self {
        Self { every, next: Instant::now() + every }
    }

    /// When it is due.
    pub(super) const fn next(&self) -> Instant {
        self.next
    }

    /// Whether it is due now; then it is due again after the same time.
    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let due = now >= self.next;
        if due {
            self.next = now + self.every;
        }
        due
    }
}

impl Engine {
    /// The same, setting volumes up again this often that want it from time to time.
    #[must_use]
    pub fn refreshing(mut self, every: Duration) -> Self {
        self.refresh = Period::new(every);
        self
    }

    /// Does what is due.
    pub(super) fn do_periodic(&mut self) {
        if self.verify.is_due() {
            for (plugin, volumes) in self.world.core.attached_volumes() {
                self.world.executor.verify(plugin, volumes);
            }
        }
        if self.refresh.is_due() {
            self.world.feed(Event::Refresh);
        }
    }
}
