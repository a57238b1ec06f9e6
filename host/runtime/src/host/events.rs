//! `events`: what the person who looks at the pod is told.

use volhost_model::view::EventKind;

use super::State;
use crate::bindings::volhost::plugin::events::Host;
use crate::text::reason;

/// The longest message, in bytes: Kubernetes' limit for an event.
const MESSAGE_BYTES: usize = 1024;

impl State {
    fn tell(&mut self, kind: EventKind, word: &str, message: &str) -> wasmtime::Result<()> {
        self.count()?;
        if self.may_tell() {
            self.call.sink().event(kind, &reason(word), &self.shown(message, MESSAGE_BYTES));
        }
        Ok(())
    }
}

impl Host for State {
    fn normal(&mut self, reason: String, message: String) -> wasmtime::Result<()> {
        self.tell(EventKind::Normal, &reason, &message)
    }

    fn warning(&mut self, reason: String, message: String) -> wasmtime::Result<()> {
        self.tell(EventKind::Warning, &reason, &message)
    }
}
