//! Reports a walk over a volume's files that takes long, and what would make it shorter.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use volhost_model::view::EventKind;

use crate::sink::CallSink;
use crate::target::Target;

/// When the first event about a walk is emitted, as the kubelet does.
const FIRST: Duration = Duration::from_secs(30);
/// And then again.
const NEXT: Duration = Duration::from_secs(60);

/// The progress reports of one walk, from any of its threads.
#[derive(Debug)]
pub(super) struct SlowWalk {
    sink: Arc<dyn CallSink>,
    volume: String,
    due: Mutex<Instant>,
}

impl SlowWalk {
    /// A walk that begins now.
    pub(super) fn new(sink: Arc<dyn CallSink>, target: &Target) -> Self {
        Self::begun(sink, target.spec_name.to_string(), Instant::now())
    }

    fn begun(sink: Arc<dyn CallSink>, volume: String, at: Instant) -> Self {
        Self { sink, volume, due: Mutex::new(at + FIRST) }
    }

    /// Hears how many files have been looked at.
    pub(super) fn hear(&self, visited: u64) {
        self.hear_at(Instant::now(), visited);
    }

    fn hear_at(&self, now: Instant, visited: u64) {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        if now < *due {
            return;
        }
        *due = now + NEXT;
        let message = format!(
            "setting the group of volume \"{}\" takes long: {visited} files so far; consider fsGroupChangePolicy: OnRootMismatch",
            self.volume
        );
        self.sink.event(EventKind::Warning, "VolumePermissionChangeInProgress", &message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::LogLevel;

    /// The events that were emitted.
    #[derive(Debug, Default)]
    struct Emitted(Mutex<Vec<String>>);

    impl CallSink for Emitted {
        fn log(&self, _level: LogLevel, _message: &str) {}

        fn event(&self, kind: EventKind, reason: &str, message: &str) {
            assert_eq!(kind, EventKind::Warning);
            self.0.lock().unwrap().push(format!("{reason}: {message}"));
        }
    }

    #[test]
    fn a_walk_that_takes_long_emits_an_event_after_half_a_minute_and_then_every_minute() {
        let emitted = Arc::new(Emitted::default());
        let begin = Instant::now();
        let walk = SlowWalk::begun(Arc::clone(&emitted) as Arc<dyn CallSink>, "data".to_owned(), begin);
        for (second, files, events) in [(0, 1, 0), (29, 2, 0), (30, 3, 1), (31, 4, 1), (89, 5, 1), (90, 6, 2)] {
            walk.hear_at(begin + Duration::from_secs(second), files);
            assert_eq!(emitted.0.lock().unwrap().len(), events, "after {second} s");
        }
        let first = emitted.0.lock().unwrap().remove(0);
        assert!(first.starts_with("VolumePermissionChangeInProgress: "), "{first}");
        assert!(first.contains("volume \"data\"") && first.contains("3 files so far"), "{first}");
    }
}
