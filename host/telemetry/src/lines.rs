//! Log lines on standard error, with escapes for characters that a reader does not see.

use std::io::{self, Write};

use tracing_subscriber::fmt::MakeWriter;
use volhost_model::visible::{visible_json, visible_unseen};

use volhost_config::LogFormat;

/// Makes the writers of log lines. The layer writes each line at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineWriters(pub(super) LogFormat);

impl<'a> MakeWriter<'a> for LineWriters {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line(self.0)
    }
}

/// The writer of one line.
#[derive(Debug)]
pub(super) struct Line(LogFormat);

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let shown = match self.0 {
            LogFormat::Text => visible_unseen(&text),
            LogFormat::Json => visible_json(&text),
        };
        io::stderr().write_all(shown.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
