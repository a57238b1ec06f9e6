//! Metrics that are made at each scrape, with those that every program has.

use std::net::SocketAddr;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::listener::{MetricsBindError, MetricsListener, MetricsSource, ScrapeError};
use crate::process;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VersionLabels {
    version: &'static str,
}

/// Serves what `register` adds, and the program's version, memory, processor time and files, at this
/// address until `stop`. Needs a tokio runtime.
///
/// # Errors
/// [`MetricsBindError`].
pub async fn serve_registry(
    address: SocketAddr,
    stop: CancellationToken,
    register: impl Fn(&mut Registry) + Send + Sync + 'static,
) -> Result<(), MetricsBindError> {
    let listener = MetricsListener::bind(address).await?;
    if let Ok(address) = listener.address() {
        info!("metrics are served at http://{address}/metrics");
    }
    let source = MetricsSource::new(move || {
        let text = text(&register);
        async move { text }
    });
    tokio::spawn(listener.serve(source, None, stop));
    Ok(())
}

fn text(register: impl Fn(&mut Registry)) -> Result<String, ScrapeError> {
    let mut registry = Registry::default();
    let version = Family::<VersionLabels, Gauge>::default();
    version.get_or_create(&VersionLabels { version: env!("CARGO_PKG_VERSION") }).set(1);
    registry.register("volhost_build_info", "The program's version", version);
    register(&mut registry);
    process::register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}
