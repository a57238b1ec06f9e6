//! Programs that serve FUSE file systems as a gauge.

use std::collections::BTreeMap;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::Helper;

/// Puts the census of helpers into a registry.
pub(super) fn register(registry: &mut Registry, census: BTreeMap<String, u64>) {
    let helpers = Family::<Helper, Gauge>::default();
    for (helper, count) in census {
        helpers.get_or_create(&Helper { helper }).set(i64::try_from(count).unwrap_or(i64::MAX));
    }
    registry.register(
        "volhost_helpers",
        "Programs that run and serve FUSE file systems, by their names in grants",
        helpers,
    );
}
