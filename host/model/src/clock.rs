//! The clock of a process: the time of day at its start, and a monotonic clock from there on.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Returns microseconds since the Unix epoch and never runs backwards.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Instant,
    offset: u64,
}

impl Clock {
    /// A clock that starts at the time of day.
    pub fn start() -> Self {
        let of_day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: Instant::now(), offset: micros(of_day) }
    }

    /// Now.
    pub fn now(&self) -> u64 {
        self.offset.saturating_add(micros(self.started.elapsed()))
    }

    /// The instant of a time; one that has passed is the start.
    pub fn instant(&self, time: u64) -> Instant {
        self.started + Duration::from_micros(time.saturating_sub(self.offset))
    }
}

/// A duration in microseconds.
pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
