//! How long the loop's turns take. The loop serves all volumes: while one turn runs, nothing else
//! is decided.
#![deny(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

/// A turn that takes longer than this is logged. Most take some 10 us; callers notice 10 ms.
const SLOW: Duration = Duration::from_millis(10);
/// The least time between two such lines: a node with very many pods has many slow turns in a row.
const QUIET: Duration = Duration::from_secs(1);

/// What is known of slow turns.
#[derive(Debug, Default)]
pub(super) struct Turns {
    told_at: Option<Instant>,
    /// Slow turns since then.
    untold: u32,
}

impl Turns {
    /// Takes note of a turn that handled this input. Returns what is to be logged, if anything.
    pub(super) fn ended(&mut self, input: &str, took: Duration, now: Instant) -> Option<String> {
        if took < SLOW {
            return None;
        }
        if self.told_at.is_some_and(|at| now.saturating_duration_since(at) < QUIET) {
            self.untold = self.untold.saturating_add(1);
            return None;
        }
        self.told_at = Some(now);
        let others = match std::mem::take(&mut self.untold) {
            0 => String::new(),
            count => format!("; {count} more slow turns since the last such line"),
        };
        Some(format!(
            "a turn of the engine took {} ms, and nothing else was decided meanwhile: it handled {input}{others}",
            took.as_millis()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_turn_is_told_with_its_cause_and_not_more_often_than_once_a_second() {
        let (mut turns, start) = (Turns::default(), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        let slow = Duration::from_millis(25);
        assert_eq!(turns.ended("requests", Duration::from_millis(9), start), None);
        let told = turns.ended("manifests", slow, start).unwrap();
        assert!(told.contains("25 ms") && told.contains("it handled manifests"), "{told}");
        assert_eq!(turns.ended("requests", slow, at(500)), None);
        assert_eq!(turns.ended("requests", slow, at(900)), None);
        let told = turns.ended("requests", slow, at(1100)).unwrap();
        assert!(told.ends_with("2 more slow turns since the last such line"), "{told}");
        assert!(!turns.ended("requests", slow, at(2500)).unwrap().contains("more"));
    }
}
