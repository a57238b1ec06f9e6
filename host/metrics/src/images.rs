//! The store of OCI images as gauges.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use volhost_images::ImageUsage;

/// Adds the use of the store to a registry.
pub(super) fn register(registry: &mut Registry, usage: ImageUsage) {
    let number = |value: u64| {
        let gauge = Gauge::<i64>::default();
        gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        gauge
    };
    registry.register("volhost_images", "OCI images on the node", number(usage.images));
    registry.register("volhost_image_layers_bytes", "What their layers have on disk", number(usage.bytes));
}
