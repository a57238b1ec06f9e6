//! How long the loop's turns take. The loop serves all volumes: while one turn runs, no other input
//! is handled.
#![deny(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

/// A turn that takes longer than this is logged. Most take some 10 us; callers notice 10 ms.
const SLOW: Duration = Duration::from_millis(10);
/// The least time between two such lines: a node with very many pods has many slow turns in a row.
const QUIET: Duration = Duration::from_secs(1);

/// Statistics of slow turns.
#[derive(Debug, Default)]
pub(super) struct Turns {
    logged_at: Option<Instant>,
    /// Slow turns since then.
    unlogged: u32,
}

impl Turns {
    /// Notes a turn that handled this input. Returns the line to log, if any.
    pub(super) fn ended(&mut self, input: &str, took: Duration, now: Instant) -> Option<String> {
        if took < SLOW {
            return None;
        }
        if self.logged_at.is_some_and(|at| now.saturating_duration_since(at) < QUIET) {
            self.unlogged = self.unlogged.saturating_add(1);
            return None;
        }
        self.logged_at = Some(now);
        let others = match std::mem::take(&mut self.unlogged) {
            0 => String::new(),
            count => format!("; {count} more slow turns since the last such line"),
        };
        Some(format!(
            "a turn of the event loop took {} ms, and no other input was handled in that time: it handled {input}{others}",
            took.as_millis()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_turn_is_logged_with_its_cause_and_at_most_once_a_second() {
        let (mut turns, start) = (Turns::default(), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        let slow = Duration::from_millis(25);
        assert_eq!(turns.ended("requests", Duration::from_millis(9), start), None);
        let line = turns.ended("manifests", slow, start).unwrap();
        assert!(line.contains("25 ms") && line.contains("it handled manifests"), "{line}");
        assert_eq!(turns.ended("requests", slow, at(500)), None);
        assert_eq!(turns.ended("requests", slow, at(900)), None);
        let line = turns.ended("requests", slow, at(1100)).unwrap();
        assert!(line.ends_with("2 more slow turns since the last such line"), "{line}");
        assert!(!turns.ended("requests", slow, at(2500)).unwrap().contains("more"));
    }
}
