//! The node as a whole, as gauges, counted at each scrape.

use std::collections::BTreeMap;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;
use volhost_core::VolumeCounts;
use volhost_model::view::PluginState;
use volhost_objects::ProblemKind;
use volhost_objects::populate::SelinuxCounts;

/// What there is on the node at one moment.
#[derive(Debug, Clone, Default)]
pub struct NodeCounts {
    /// Volumes and operations.
    pub volumes: VolumeCounts,
    /// SELinux labels of volumes.
    pub selinux: SelinuxCounts,
    /// Plugins by state.
    pub plugins: BTreeMap<PluginState, u64>,
    /// Manifest files with a problem, by its kind.
    pub manifest_problems: BTreeMap<ProblemKind, u64>,
    /// The node is being drained, or is drained.
    pub is_draining: bool,
    /// The last search for folders of pods that are gone.
    pub orphans: OrphanCounts,
}

/// A search for folders of pods that are gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OrphanCounts {
    /// Pods whose folders it found.
    pub found: u64,
    /// Of these, those whose folders are still there.
    pub left: u64,
}

/// A state.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    state: &'static str,
}

/// A kind of problem.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

/// Registers what is not counted by plugin.
pub(super) fn register(registry: &mut Registry, counts: &NodeCounts) {
    let plugins = Family::<StateLabels, Gauge>::default();
    for state in PluginState::ALL {
        let count = counts.plugins.get(&state).copied().unwrap_or_default();
        plugins.get_or_create(&StateLabels { state: state.as_str() }).set(number(count));
    }
    registry.register("volhost_plugins", "Plugins by state, as volhost get plugins shows it", plugins);
    let problems = Family::<KindLabels, Gauge>::default();
    for kind in ProblemKind::ALL {
        let count = counts.manifest_problems.get(&kind).copied().unwrap_or_default();
        problems.get_or_create(&KindLabels { kind: kind.as_str() }).set(number(count));
    }
    registry.register("volhost_manifest_problems", "Manifest files with a problem, by its kind", problems);
    for (name, help, value) in [
        ("volhost_draining", "1 while the node is being drained or is drained", i64::from(counts.is_draining)),
        (
            "kubelet_orphan_pod_cleaned_volumes",
            "Pods that are gone whose folders the last search found",
            number(counts.orphans.found),
        ),
        (
            "kubelet_orphan_pod_cleaned_volumes_errors",
            "Of these, pods whose folders could not be cleaned",
            number(counts.orphans.left),
        ),
    ] {
        registry.register(name, help, ConstGauge::new(value));
    }
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_and_kind_is_shown_before_it_occurs() {
        let (mut registry, mut text) = (Registry::default(), String::new());
        let counts = NodeCounts { plugins: [(PluginState::Failed, 2)].into(), ..NodeCounts::default() };
        register(&mut registry, &counts);
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for state in PluginState::ALL {
            let count = if state == PluginState::Failed { 2 } else { 0 };
            let line = format!("volhost_plugins{{state=\"{}\"}} {count}", state.as_str());
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
        for kind in ProblemKind::ALL {
            let line = format!("volhost_manifest_problems{{kind=\"{}\"}} 0", kind.as_str());
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
        assert!(text.contains("\nvolhost_draining 0\n"), "{text}");
    }
}
