//! The last events, for `volhost events` and `describe`.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use volhost_model::view::{EventKind, EventView};
use volhost_model::visible::{visible_line, visible_lines};

/// The number of events in memory: some hours of a busy node, a few megabytes at the most.
const CAPACITY: usize = 10_000;
/// How many recent events are searched for the same event, to count it up rather than repeat it:
/// events of failing volumes alternate.
const LOOK_BACK: usize = 256;

/// A bounded log of events. The oldest are dropped first.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    events: VecDeque<EventView>,
    /// The [`hash_of`] each event, apart from them: a search reads no more than this.
    hashes: VecDeque<u64>,
    sequence: u64,
}

impl EventLog {
    /// Adds an event. The same reason, object and message as a recent one counts that one up and
    /// moves it to the end.
    pub(super) fn add(&mut self, at: u64, kind: EventKind, reason: &str, object: &str, message: &str) {
        let (object, message) = (visible_line(object), visible_lines(message));
        let (object, message) = (&*object, &*message);
        self.sequence += 1;
        let hash = hash_of(reason, object, message);
        let oldest = self.events.len().saturating_sub(LOOK_BACK);
        let is_same = |event: &EventView| {
            event.kind == kind && event.reason == reason && event.object == object && event.message == message
        };
        let recent = self.hashes.range(oldest..).zip(oldest..self.hashes.len()).rev();
        let mut alike = recent.filter(|(other, _)| **other == hash).map(|(_, position)| position);
        let same = alike.find(|position| self.events.get(*position).is_some_and(is_same));
        let same = same.and_then(|position| {
            self.hashes.remove(position);
            self.events.remove(position)
        });
        let event = match same {
            Some(event) => EventView { sequence: self.sequence, at, count: event.count.saturating_add(1), ..event },
            None => EventView {
                sequence: self.sequence,
                at,
                kind,
                reason: reason.to_owned(),
                object: object.to_owned(),
                message: message.to_owned(),
                count: 1,
            },
        };
        self.events.push_back(event);
        self.hashes.push_back(hash);
        if self.events.len() > CAPACITY {
            self.events.pop_front();
            self.hashes.pop_front();
        }
    }

    /// Returns the events after this sequence number, oldest first.
    pub(super) fn after(&self, sequence: u64) -> Vec<EventView> {
        let first = self.events.partition_point(|event| event.sequence <= sequence);
        self.events.range(first..).cloned().collect()
    }
}

/// Returns a hash that distinguishes most different events.
fn hash_of(reason: &str, object: &str, message: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (reason, object, message).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_event_is_counted_not_repeated() {
        let mut log = EventLog::default();
        for at in 0..5 {
            log.add(at, EventKind::Warning, "FailedMount", "pod a/b", "no");
            log.add(at, EventKind::Warning, "FailedMount", "pod a/c", "no");
        }
        let events = log.after(0);
        assert_eq!(events.len(), 2);
        assert!(events.iter().all(|e| e.count == 5 && e.at == 4), "{events:?}");
        assert_eq!(log.after(9).len(), 1, "a counted event is new to a watcher");
    }

    #[test]
    fn invisible_characters_are_written_out() {
        let mut log = EventLog::default();
        log.add(1, EventKind::Warning, "FailedMount", "pod a/b\u{200b}", "plugin p: \u{202e}no\u{1b}[2J");
        let events = log.after(0);
        assert_eq!(events[0].object, "pod a/b\\u{200b}");
        assert_eq!(events[0].message, "plugin p: \\u{202e}no\\u{1b}[2J");
    }

    #[test]
    fn the_oldest_events_are_dropped() {
        let mut log = EventLog::default();
        for at in 0..=CAPACITY as u64 {
            log.add(at, EventKind::Normal, "X", "pod a/b", &at.to_string());
        }
        let events = log.after(0);
        assert_eq!(events.len(), CAPACITY);
        assert_eq!(events.first().map(|e| e.at), Some(1));
    }
}
