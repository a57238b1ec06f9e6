//! Events on objects, published in the background: an API server that does not answer delays no
//! volume.

mod similar;

use std::time::Instant;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::mpsc;
use tracing::warn;

use similar::SimilarEvents;

/// How many events may wait to be published. More are dropped, and are in the log alone.
const WAITING: usize = 1000;
/// The longest note that the API server accepts, in bytes.
const NOTE_BYTES: usize = 1024;

/// Publishes events. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct Events {
    sender: mpsc::Sender<(Event, ObjectReference)>,
}

impl Events {
    /// Starts publishing, by a component of this name, of which several may run: this one is
    /// `instance`. Needs a tokio runtime.
    pub fn start(client: Client, component: &str, instance: &str) -> Self {
        let (sender, mut receiver) = mpsc::channel::<(Event, ObjectReference)>(WAITING);
        let reporter = Reporter { controller: component.to_owned(), instance: Some(instance.to_owned()) };
        tokio::spawn(async move {
            let mut similar = SimilarEvents::new();
            while let Some((mut event, object)) = receiver.recv().await {
                let new = || Recorder::new(client.clone(), reporter.clone());
                let recorder = similar.recorder(&mut event, &object, Instant::now(), new);
                event.note = event.note.map(|note| shortened(&note).to_owned());
                if let Err(error) = recorder.publish(&event, &object).await {
                    warn!(reason = event.reason, "an event is not published: {error}");
                }
            }
        });
        Self { sender }
    }

    /// An event about something that went well.
    pub fn normal(&self, object: &ObjectReference, reason: &str, note: &str) {
        self.publish(object, EventType::Normal, reason, note);
    }

    /// An event about a failure.
    pub fn warning(&self, object: &ObjectReference, reason: &str, note: &str) {
        self.publish(object, EventType::Warning, reason, note);
    }

    fn publish(&self, object: &ObjectReference, type_: EventType, reason: &str, note: &str) {
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(shortened(note).to_owned()),
            action: reason.to_owned(),
            secondary: None,
        };
        if self.sender.try_send((event, object.clone())).is_err() {
            warn!(reason, note, "an event is dropped: too many wait for the API server");
        }
    }
}

/// The beginning of a text, as long as the API server accepts it in an event.
#[must_use]
pub fn shortened(note: &str) -> &str {
    let end = (0..=NOTE_BYTES.min(note.len())).rev().find(|at| note.is_char_boundary(*at)).unwrap_or_default();
    note.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_ends_at_a_character() {
        assert_eq!(shortened("short"), "short");
        let long = "é".repeat(600);
        assert_eq!(shortened(&long).len(), 1024);
        assert_eq!(shortened(&format!("a{long}")).len(), 1023);
    }
}
