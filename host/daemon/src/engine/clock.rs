//! The engine's clock: the time of day at the start, and a monotonic clock from there on.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use volhost_core::Time;

/// Tells microseconds since the Unix epoch, never running backwards.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Instant,
    offset: Time,
}

impl Clock {
    /// A clock that starts at the time of day.
    pub fn start() -> Self {
        let of_day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: Instant::now(), offset: micros(of_day) }
    }

    /// Now.
    pub fn now(&self) -> Time {
        self.offset.saturating_add(micros(self.started.elapsed()))
    }

    /// The instant of a time; one that has passed is the start.
    pub fn instant(&self, time: Time) -> Instant {
        self.started + Duration::from_micros(time.saturating_sub(self.offset))
    }
}

/// A duration in microseconds.
pub fn micros(duration: Duration) -> Time {
    Time::try_from(duration.as_micros()).unwrap_or(Time::MAX)
}
