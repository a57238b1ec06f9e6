//! `log`: lines into the host's log.

use super::State;
use crate::bindings::volhost::plugin::log::{Host, Level};
use crate::context::LogLevel;

/// The longest line, in bytes; the rest of it is cut off.
const LINE_BYTES: usize = 4096;

impl Host for State {
    fn write(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        self.count()?;
        if level == Level::Error {
            self.last_words = Some(self.shown(&message, LINE_BYTES));
        }
        if self.may_log(message.len().min(LINE_BYTES)) {
            let level = match level {
                Level::Error => LogLevel::Error,
                Level::Warn => LogLevel::Warn,
                Level::Info => LogLevel::Info,
                Level::Debug => LogLevel::Debug,
            };
            self.context.sink.log(level, &self.shown(&message, LINE_BYTES));
        }
        Ok(())
    }
}
