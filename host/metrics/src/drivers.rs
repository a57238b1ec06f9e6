//! External drivers, as a gauge.

use std::collections::BTreeMap;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use volhost_model::view::{DriverKind, DriverState};

use super::labels::DriverLabels;

/// Registers the number of drivers by kind and state.
pub(super) fn register(registry: &mut Registry, counts: &BTreeMap<(DriverKind, DriverState), u64>) {
    let drivers = Family::<DriverLabels, Gauge>::default();
    for kind in DriverKind::ALL {
        for state in DriverState::ALL {
            let count = counts.get(&(kind, state)).copied().unwrap_or_default();
            let labels = DriverLabels { kind: kind.as_str(), state: state.as_str() };
            drivers.get_or_create(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }
    registry.register("volhost_drivers", "External drivers, by protocol and state", drivers);
}
