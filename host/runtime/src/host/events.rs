//! `events`: messages for the person who looks at the pod.

use volhost_model::view::EventKind;

use super::State;
use crate::bindings::volhost::plugin::events::Host;
use crate::text::reason;

/// The longest message, in bytes: Kubernetes' limit for an event.
const MESSAGE_BYTES: usize = 1024;

impl State {
    /// Emits an event about the volume of the call.
    pub(super) fn emit(&mut self, kind: EventKind, word: &str, message: &str) -> wasmtime::Result<()> {
        self.count()?;
        if self.may_emit() {
            self.call.sink().event(kind, &reason(word), &self.shown(message, MESSAGE_BYTES));
        }
        Ok(())
    }
}

impl Host for State {
    fn normal(&mut self, reason: String, message: String) -> wasmtime::Result<()> {
        self.emit(EventKind::Normal, &reason, &message)
    }

    fn warning(&mut self, reason: String, message: String) -> wasmtime::Result<()> {
        self.emit(EventKind::Warning, &reason, &message)
    }
}
