//! Log lines on standard error or in systemd's journal, and traces to a collector if one is
//! configured.
//!
//! Both come from the spans and events of `tracing`. Each operation has a span with its volume,
//! pod, plugin, kind and number; all that is logged for it is logged within, and it is the root of
//! a trace of its own. Below it are the calls of the plugin, and below those the primitives that
//! the plugin asked for.
#![forbid(unsafe_code)]

mod error;
mod journal;
mod lines;
mod traces;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

pub use error::TelemetryError;
use journal::Journal;
use lines::LineWriters;
use traces::Traces;
use volhost_config::{LogFilter, LogFormat, OtlpEndpoint};

/// The log and the traces of the process.
#[derive(Debug)]
pub struct Telemetry {
    traces: Option<Traces>,
}

impl Telemetry {
    /// Sets up the log of the process, on standard error because standard output is for results,
    /// and the traces if there is an endpoint. Text that standard error would lead to systemd's
    /// journal is sent there with its priority and fields. A collector that cannot be reached is logged, and is
    /// no error.
    ///
    /// # Errors
    /// [`TelemetryError`].
    pub fn begin(
        format: LogFormat,
        level: &LogFilter,
        traces_to: Option<&OtlpEndpoint>,
        node: &str,
    ) -> Result<Self, TelemetryError> {
        // The text was checked when it was read; should the two ever differ, everything at `info`
        // is the safer side.
        let filter = EnvFilter::try_new(level.as_str()).unwrap_or_else(|_| EnvFilter::new("info"));
        let lines = tracing_subscriber::fmt::layer().with_writer(LineWriters(format));
        let lines = match (format, Journal::of_standard_error()) {
            (LogFormat::Text, Some(journal)) => journal.boxed(),
            (LogFormat::Text, None) => lines.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).boxed(),
            (LogFormat::Json, _) => lines.json().boxed(),
        };
        let traces = traces_to.map(|endpoint| Traces::begin(endpoint, node)).transpose()?;
        let layer = traces.as_ref().map(Traces::layer);
        tracing_subscriber::registry().with(lines.with_filter(filter)).with(layer).try_init()?;
        Ok(Self { traces })
    }

    /// Sends the remaining spans. Blocks for some seconds at most; not to be called in a tokio
    /// runtime.
    pub fn end(self) {
        if let Some(traces) = self.traces {
            traces.end();
        }
    }
}
