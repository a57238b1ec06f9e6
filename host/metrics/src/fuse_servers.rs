//! Running FUSE servers as a gauge.

use std::collections::BTreeMap;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::FuseServerLabels;

/// Adds the counts of running FUSE servers to a registry.
pub(super) fn register(registry: &mut Registry, counts: BTreeMap<String, u64>) {
    let servers = Family::<FuseServerLabels, Gauge>::default();
    for (server, count) in counts {
        servers.get_or_create(&FuseServerLabels { server }).set(i64::try_from(count).unwrap_or(i64::MAX));
    }
    registry.register("volhost_fuse_servers", "Running FUSE servers, by their names in grants", servers);
}
