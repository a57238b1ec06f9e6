//! Events on one object that differ in their notes alone. kube's recorder takes them for one
//! event, and goes on showing the first note; kubectl would show a cause that is long gone. Each
//! note is an event of its own here, up to a number, as with client-go's `EventAggregator`.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType};

/// Notes of one reason on one object, each of them an event of its own. (client-go: 10)
const NOTES: usize = 10;
/// For so long after it was published last, a note counts. (client-go: 10 minutes)
const REMEMBERED: Duration = Duration::from_secs(600);
/// What all further notes begin with, as client-go's.
const COMBINED: &str = "(combined from similar events): ";

/// What similar events have in common.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    type_: EventType,
    reason: String,
}

/// A note, and what publishes the events that have it.
#[derive(Debug)]
struct Noted<R> {
    /// None for all notes beyond [`NOTES`].
    note: Option<String>,
    recorder: R,
    published: Instant,
}

/// The recorder of each note that was published lately.
#[derive(Debug)]
pub(super) struct SimilarEvents<R> {
    noted: HashMap<Key, Vec<Noted<R>>>,
}

impl<R: Clone> SimilarEvents<R> {
    /// Nothing was published yet.
    pub(super) fn new() -> Self {
        Self { noted: HashMap::new() }
    }

    /// Returns the recorder of events with this event's note; a new one for a new note. Beyond the
    /// tenth note of a reason on an object, all have one, and the event's note says so.
    pub(super) fn recorder(
        &mut self,
        event: &mut Event,
        object: &ObjectReference,
        now: Instant,
        new: impl FnOnce() -> R,
    ) -> R {
        self.noted.retain(|_, similar| {
            similar.retain(|noted| now.saturating_duration_since(noted.published) < REMEMBERED);
            !similar.is_empty()
        });
        let key = Key {
            kind: object.kind.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            uid: object.uid.clone(),
            type_: event.type_,
            reason: event.reason.clone(),
        };
        let similar = self.noted.entry(key).or_default();
        let known = similar.iter().position(|noted| noted.note == event.note && noted.note.is_some());
        let beyond = known.is_none() && similar.iter().filter(|noted| noted.note.is_some()).count() >= NOTES;
        let wanted = if beyond { None } else { event.note.clone() };
        if beyond {
            event.note = Some(format!("{COMBINED}{}", event.note.as_deref().unwrap_or_default()));
        }
        if let Some(noted) = similar.iter_mut().find(|noted| noted.note == wanted) {
            noted.published = now;
            return noted.recorder.clone();
        }
        let recorder = new();
        similar.push(Noted { note: wanted, recorder: recorder.clone(), published: now });
        recorder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Publishes; recorders are numbers.
    struct Published {
        similar: SimilarEvents<usize>,
        recorders: usize,
        now: Instant,
    }

    impl Published {
        fn new() -> Self {
            Self { similar: SimilarEvents::new(), recorders: 0, now: Instant::now() }
        }

        /// Returns the recorder of an event with this note, and the note that is published.
        fn publish(&mut self, object: &str, reason: &str, note: &str) -> (usize, String) {
            let mut event = Event {
                type_: EventType::Warning,
                reason: reason.to_owned(),
                note: Some(note.to_owned()),
                action: reason.to_owned(),
                secondary: None,
            };
            let object = ObjectReference { name: Some(object.to_owned()), ..ObjectReference::default() };
            let recorders = &mut self.recorders;
            let recorder = self.similar.recorder(&mut event, &object, self.now, || {
                *recorders += 1;
                *recorders
            });
            (recorder, event.note.unwrap_or_default())
        }
    }

    #[test]
    fn each_note_of_a_reason_is_an_event_of_its_own() {
        let mut published = Published::new();
        let first = published.publish("claim", "Failed", "no such class");
        assert_eq!(first, (1, "no such class".to_owned()));
        assert_eq!(published.publish("claim", "Failed", "no such parameter").0, 2);
        assert_eq!(published.publish("claim", "Failed", "no such class"), first);
        assert_eq!(published.publish("other", "Failed", "no such class").0, 3);
        assert_eq!(published.publish("claim", "Refused", "no such class").0, 4);
    }

    #[test]
    fn notes_without_end_become_one_event() {
        let mut published = Published::new();
        for note in 0..NOTES {
            published.publish("claim", "Failed", &note.to_string());
        }
        let combined = published.publish("claim", "Failed", "one more");
        assert_eq!(combined, (NOTES + 1, "(combined from similar events): one more".to_owned()));
        for note in 100..200 {
            assert_eq!(published.publish("claim", "Failed", &note.to_string()).0, NOTES + 1);
        }
        assert_eq!(published.publish("claim", "Failed", "0"), (1, "0".to_owned()));
    }

    #[test]
    fn a_note_is_forgotten_when_it_was_not_published_for_long() {
        let mut published = Published::new();
        published.publish("claim", "Failed", "old");
        published.now += REMEMBERED / 2;
        published.publish("claim", "Failed", "often");
        published.now += REMEMBERED / 2;
        assert_eq!(published.publish("claim", "Failed", "often").0, 2);
        assert_eq!(published.publish("claim", "Failed", "old").0, 3);
        published.now += REMEMBERED;
        published.publish("other", "Failed", "new");
        assert_eq!(published.similar.noted.len(), 1);
    }
}
