//! Log lines for systemd's journal, with priority and fields, in its [native protocol].
//!
//! [native protocol]: https://systemd.io/JOURNAL_NATIVE_PROTOCOL/

use std::env;
use std::fmt::{Debug, Write as _};
use std::io::{self, Write as _};
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;
use volhost_model::visible::visible_unseen;

/// Where the journal listens.
const SOCKET: &str = "/run/systemd/journal/socket";
/// The variable by which systemd says which stream leads to the journal: device and inode.
const STREAM: &str = "JOURNAL_STREAM";
/// What the names of our fields begin with: the journal has fields of others, too.
const PREFIX: &str = "VOLHOST_";
/// The text of an event.
const MESSAGE: &str = "message";

/// The journal.
#[derive(Debug)]
pub(super) struct Journal {
    socket: UnixDatagram,
    program: String,
}

impl Journal {
    /// The journal, if standard error leads there.
    pub(super) fn of_standard_error() -> Option<Self> {
        let stream = env::var(STREAM).ok()?;
        let found = rustix::fs::fstat(io::stderr()).ok()?;
        if stream != format!("{}:{}", found.st_dev, found.st_ino) {
            return None;
        }
        let program = env::args_os().next()?;
        Self::at(Path::new(SOCKET), &Path::new(&program).file_name()?.to_string_lossy()).ok()
    }

    fn at(path: &Path, program: &str) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        // A journal that hangs must not block the event loop.
        socket.set_nonblocking(true)?;
        socket.connect(path)?;
        Ok(Self { socket, program: program.to_owned() })
    }
}

/// The fields of a span or of an event.
#[derive(Debug, Default)]
struct Fields(Vec<(&'static str, Value)>);

/// A field's value: a text, or what is printed without quotes.
#[derive(Debug)]
enum Value {
    Text(String),
    Other(String),
}

impl Value {
    fn as_str(&self) -> &str {
        match self {
            Self::Text(text) | Self::Other(text) => text,
        }
    }
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        // What the traces alone are told.
        if field.name().starts_with("otel.") {
            return;
        }
        match self.0.iter_mut().find(|(name, _)| *name == field.name()) {
            Some((_, present)) => *present = value,
            None => self.0.push((field.name(), value)),
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Value::Text(value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, Value::Other(format!("{value:?}")));
    }
}

impl<S> Layer<S> for Journal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut entry = Entry::default();
        let mut fields = Fields::default();
        event.record(&mut fields);
        entry.add(&fields);
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(fields) = span.extensions().get::<Fields>() {
                entry.add(fields);
            }
        }
        let priority = priority(*event.metadata().level());
        let sent = self.socket.send(&entry.encode(priority, &self.program, event.metadata().target()));
        if sent.is_err() {
            // systemd reads the priority before the line.
            let _ = writeln!(io::stderr(), "<{priority}>{}", entry.message.replace('\n', " "));
        }
    }
}

/// syslog's number of a level.
const fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

/// An entry of the journal. Characters that a reader does not see are escapes.
#[derive(Debug, Default)]
struct Entry {
    /// The text, then the fields that have a value.
    message: String,
    fields: Vec<(String, String)>,
}

impl Entry {
    /// Adds the fields of the event or of a span around it, the inner ones first. Of two fields of
    /// one name the inner one counts.
    fn add(&mut self, fields: &Fields) {
        for (name, value) in &fields.0 {
            let shown = visible_unseen(value.as_str());
            if *name == MESSAGE {
                self.message.insert_str(0, &shown);
                continue;
            }
            let full = full_name(name);
            if shown.is_empty() || self.fields.iter().any(|(present, _)| *present == full) {
                continue;
            }
            // Writing into a string does not fail.
            let _ = match value {
                Value::Text(_) => write!(self.message, " {name}={shown:?}"),
                Value::Other(_) => write!(self.message, " {name}={shown}"),
            };
            self.fields.push((full, shown.into_owned()));
        }
    }

    fn encode(&self, priority: u8, program: &str, target: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, "PRIORITY", &priority.to_string());
        put(&mut bytes, "SYSLOG_IDENTIFIER", program);
        put(&mut bytes, "MESSAGE", &self.message);
        put(&mut bytes, &full_name("target"), target);
        for (name, value) in &self.fields {
            put(&mut bytes, name, value);
        }
        bytes
    }
}

/// The journal's name of a field: capital letters, digits and underscores.
fn full_name(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    PREFIX.chars().chain(name.chars().map(letter)).collect()
}

fn put(bytes: &mut Vec<u8>, name: &str, value: &str) {
    bytes.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        bytes.push(b'\n');
        bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        bytes.push(b'=');
    }
    bytes.extend_from_slice(value.as_bytes());
    bytes.push(b'\n');
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    fn logged(log: impl FnOnce()) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let journald = UnixDatagram::bind(&path).unwrap();
        let journal = Journal::at(&path, "volhostd").unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(journal), log);
        journald.set_nonblocking(true).unwrap();
        let mut datagram = [0; 4096];
        std::iter::from_fn(|| journald.recv(&mut datagram).ok().map(|bytes| datagram[..bytes].to_vec()))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .collect()
    }

    #[test]
    fn an_entry_has_priority_message_and_the_fields_of_event_and_spans() {
        let entries = logged(|| {
            let span = tracing::info_span!("mount", volume = %"a/b", pod = "default/web", id = 7, otel.name = "x", late = tracing::field::Empty);
            let _within = span.enter();
            span.record("late", true);
            tracing::warn!(reason = "FailedMount", "it failed: {}", "no such\u{202e} folder");
            tracing::error!(id = 8, "inner");
        });
        let [first, second] = entries.as_slice() else { panic!("{entries:?}") };
        let expected = "PRIORITY=4\nSYSLOG_IDENTIFIER=volhostd\nMESSAGE=it failed: no such\\u{202e} folder reason=\"FailedMount\" volume=a/b pod=\"default/web\" id=7 late=true\nVOLHOST_TARGET=volhost_telemetry::journal::tests\nVOLHOST_REASON=FailedMount\nVOLHOST_VOLUME=a/b\nVOLHOST_POD=default/web\nVOLHOST_ID=7\nVOLHOST_LATE=true\n";
        assert_eq!(first, expected);
        assert!(second.starts_with("PRIORITY=3\n") && second.contains("VOLHOST_ID=8\n"), "{second}");
        assert_eq!(second.matches("VOLHOST_ID=").count(), 1, "the inner field counts: {second}");
    }

    #[test]
    fn a_value_of_several_lines_has_its_length_before_it() {
        let entries = logged(|| tracing::info!("one\ntwo"));
        let length = String::from_utf8_lossy(&7_u64.to_le_bytes()).into_owned();
        assert!(entries[0].contains(&format!("\nMESSAGE\n{length}one\ntwo\n")), "{entries:?}");
        assert!(entries[0].starts_with("PRIORITY=6\n"), "{entries:?}");
    }
}
