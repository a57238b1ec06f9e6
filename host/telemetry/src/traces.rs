//! Spans to a collector, over OTLP/gRPC. On threads of its own: a collector that is slow or gone
//! costs volhost nothing but a bounded queue, and spans that find it full are dropped.

use std::path::PathBuf;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider};
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata, Subscriber, warn};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use super::error::TelemetryError;
use volhost_config::OtlpEndpoint;

/// Spans that may wait to be sent, a few hundred bytes each: about a thousand operations.
const QUEUE: usize = 16 << 10;
/// Spans sent at once.
const BATCH: usize = 2048;
/// How often they are sent.
const EVERY: Duration = Duration::from_secs(1);
/// How long the collector may take for a batch.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the last batch may take when volhost ends.
const FAREWELL: Duration = Duration::from_secs(3);
/// The name of the tracer and of the service.
const NAME: &str = "volhost";

/// The way of spans to the collector.
#[derive(Debug)]
pub(super) struct Traces {
    provider: SdkTracerProvider,
    connection: Runtime,
}

impl Traces {
    /// Starts to send spans. The connection is opened with the first span, and again after it
    /// breaks.
    pub(super) fn begin(endpoint: &OtlpEndpoint, node: &str) -> Result<Self, TelemetryError> {
        // Not the daemon's runtime: that one belongs to the event loop, and ends before the last
        // spans are sent.
        let connection = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("volhost-traces")
            .enable_all()
            .build()
            .map_err(TelemetryError::Thread)?;
        let within = connection.enter();
        let exporter =
            exporter(endpoint).map_err(|source| TelemetryError::Endpoint { endpoint: endpoint.clone(), source })?;
        drop(within);
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE)
            .with_max_export_batch_size(BATCH)
            .with_scheduled_delay(EVERY)
            .build();
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
        let resource = Resource::builder_empty()
            .with_service_name(NAME)
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .with_attribute(KeyValue::new("k8s.node.name", node.to_owned()))
            .build();
        let provider = SdkTracerProvider::builder().with_span_processor(processor).with_resource(resource).build();
        Ok(Self { provider, connection })
    }

    /// What turns tracing's spans into the collector's.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer(NAME))
            .with_location(false)
            .with_tracked_inactivity(false)
            .with_filter(filter_fn(is_traced).with_max_level_hint(LevelFilter::DEBUG))
    }

    /// Sends what is left.
    pub(super) fn end(self) {
        if let Err(error) = self.provider.shutdown_with_timeout(FAREWELL) {
            warn!(%error, "the last traces may not have reached the collector");
        }
        self.connection.shutdown_background();
    }
}

/// Our own spans, and what is logged within them. Never the exporter's own lines: sending them
/// would make new ones.
fn is_traced(metadata: &Metadata<'_>) -> bool {
    let ours = metadata.target().starts_with(NAME);
    ours && (metadata.is_span() || *metadata.level() <= Level::INFO)
}

fn exporter(endpoint: &OtlpEndpoint) -> Result<SpanExporter, ExporterBuildError> {
    let builder = SpanExporter::builder().with_tonic().with_timeout(EXPORT_TIMEOUT);
    match endpoint {
        OtlpEndpoint::Http(url) => builder.with_endpoint(url).build(),
        OtlpEndpoint::Unix(path) => builder.with_channel(socket(path.clone())).build(),
    }
}

fn socket(path: PathBuf) -> Channel {
    let connect = tower::service_fn(move |_| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    // The name is never resolved: the connector knows the socket.
    Endpoint::from_static("http://localhost").timeout(EXPORT_TIMEOUT).connect_with_connector_lazy(connect)
}
