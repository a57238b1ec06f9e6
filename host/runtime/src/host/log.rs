//! `log`: lines into the host's log.

use super::State;
use crate::bindings::volhost::plugin::log::{Host, Level};
use crate::sink::LogLevel;

/// The longest line, in bytes; the rest of it is cut off.
const LINE_BYTES: usize = 4096;

impl Host for State {
    fn write(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        self.count()?;
        let may_log = self.may_log(message.len().min(LINE_BYTES));
        if !may_log && level != Level::Error {
            return Ok(());
        }
        let line = self.shown(&message, LINE_BYTES);
        if level == Level::Error {
            self.last_words = Some(line.clone());
        }
        if may_log {
            let level = match level {
                Level::Error => LogLevel::Error,
                Level::Warn => LogLevel::Warn,
                Level::Info => LogLevel::Info,
                Level::Debug => LogLevel::Debug,
            };
            self.call.sink().log(level, &line);
        }
        Ok(())
    }
}
