//! Why the log or the traces cannot be set up.

use thiserror::Error;
use tracing_subscriber::util::TryInitError;
use volhost_config::OtlpEndpoint;

/// Why the log or the traces cannot be set up.
#[derive(Debug, Error)]
pub enum TelemetryError {
    /// The thread that sends traces cannot be started.
    #[error("the thread that sends traces cannot be started: {0}")]
    Thread(#[source] std::io::Error),
    /// The endpoint cannot be used.
    #[error("traces cannot be sent to {endpoint}: {source}")]
    Endpoint {
        /// Which.
        endpoint: OtlpEndpoint,
        /// The exporter's error.
        source: opentelemetry_otlp::ExporterBuildError,
    },
    /// The log of this process was set up before.
    #[error("the log is set up already: {0}")]
    Twice(#[from] TryInitError),
}
