//! The clock that a plugin sees: its call's own. Nothing can be told from it of the node's time, of how long anything took, or of what else
//! runs on the node; and a call that is made again sees the same.

/// How far the clock goes at each reading, in nanoseconds, so that who waits in a loop for it to go on gets somewhere.
pub(super) const TICK: u64 = 1_000;

/// Nanoseconds since the call began, as the plugin is told.
#[derive(Debug, Default)]
pub(super) struct CallClock(u64);

impl CallClock {
    /// The time; later than at the last reading.
    pub(super) fn read(&mut self) -> u64 {
        self.0 = self.0.saturating_add(TICK);
        self.0
    }

    /// The moment that lies this far ahead.
    pub(super) fn after(&self, nanoseconds: u64) -> u64 {
        self.0.saturating_add(nanoseconds)
    }

    /// Returns whether the moment has come.
    pub(super) fn has_come(&self, moment: u64) -> bool {
        moment <= self.0
    }

    /// Sleeps until the moment: it is there at once.
    pub(super) fn skip_to(&mut self, moment: u64) {
        self.0 = self.0.max(moment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_goes_on_by_being_read_and_by_sleeping_and_never_back() {
        let mut clock = CallClock::default();
        assert!(clock.read() < clock.read());
        let moment = clock.after(3_600_000_000_000);
        assert!(!clock.has_come(moment));
        clock.skip_to(moment);
        assert!(clock.has_come(moment) && clock.read() > moment);
        clock.skip_to(5);
        assert!(clock.has_come(moment));
        assert_eq!(CallClock(u64::MAX).after(1), u64::MAX);
    }
}
