//! Desired and actual state of world, as gauges.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use volhost_core::{PluginCounts, VolumeCounts};

use super::labels::PluginStateLabels;

type States = Family<PluginStateLabels, Gauge>;

/// Registers the counts.
pub(super) fn register(registry: &mut Registry, counts: &VolumeCounts) {
    let (volumes, difference, pending) = (States::default(), States::default(), States::default());
    for (name, plugin) in &counts.plugins {
        let PluginCounts { desired, actual, to_mount, to_unmount, uncertain, running, overdue, waiting } = *plugin;
        let name = name.to_string();
        set(&volumes, &name, "desired_state_of_world", desired);
        set(&volumes, &name, "actual_state_of_world", actual);
        set(&difference, &name, "to_mount", to_mount);
        set(&difference, &name, "to_unmount", to_unmount);
        set(&difference, &name, "uncertain", uncertain);
        set(&pending, &name, "running", running.saturating_sub(overdue));
        set(&pending, &name, "overdue", overdue);
        set(&pending, &name, "waiting", waiting);
    }
    set(&difference, "", "unresolved", counts.unresolved);
    registry.register(
        "volume_manager_total_volumes",
        "Volumes of pods in the desired and in the actual state of world",
        volumes,
    );
    registry.register(
        "volume_manager_state_diff",
        "Volumes of pods whose actual state differs from the desired one: to be mounted, to be unmounted, uncertain, or unresolved",
        difference,
    );
    registry.register(
        "volume_manager_pending_operations",
        "Operations that run, that run past their deadline, or that failed and wait for their next try",
        pending,
    );
}

fn set(family: &States, plugin: &str, state: &'static str, value: u64) {
    let labels = PluginStateLabels { plugin_name: plugin.to_owned(), state };
    family.get_or_create(&labels).set(i64::try_from(value).unwrap_or(i64::MAX));
}
