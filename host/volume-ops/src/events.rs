//! Events about volumes, on their way to the users.

use std::fmt;
use std::sync::Arc;

use volhost_model::view::EventKind;

/// An event that has just happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    /// Whether a user has to act.
    pub kind: EventKind,
    /// One CamelCase word.
    pub reason: String,
    /// The object it is about: `pod NS/NAME`, `volume NAME`.
    pub object: String,
    /// What happened and why.
    pub message: String,
}

/// Receives events. Cloning it gives another handle to the same receiver.
#[derive(Clone)]
pub struct EventSink(Arc<dyn Fn(NewEvent) + Send + Sync>);

impl EventSink {
    /// Creates a sink that passes each event to `receive`, which must not block.
    pub fn new(receive: impl Fn(NewEvent) + Send + Sync + 'static) -> Self {
        Self(Arc::new(receive))
    }

    /// Passes an event on.
    pub fn emit(&self, event: NewEvent) {
        (self.0)(event);
    }
}

impl fmt::Debug for EventSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventSink")
    }
}
