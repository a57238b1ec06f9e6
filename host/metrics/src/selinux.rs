//! Conflicts of SELinux labels, as gauges under the kubelet's names.

use std::collections::BTreeMap;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use volhost_model::PluginName;

use volhost_objects::populate::SelinuxCounts;

/// `access_mode`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Mode {
    access_mode: &'static str,
}

/// `volume_plugin` and `access_mode`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginMode {
    volume_plugin: String,
    access_mode: &'static str,
}

/// Registers the counts.
pub(super) fn register(registry: &mut Registry, counts: &SelinuxCounts) {
    for (name, help, counted) in [
        (
            "pod_context_mismatch_errors_total",
            "Volumes that containers of one pod use with different SELinux labels; an event reports it",
            &counts.pod_errors,
        ),
        (
            "pod_context_mismatch_warnings_total",
            "Such volumes that are mounted without a label: they would be errors with seLinuxChangePolicy MountOption",
            &counts.pod_warnings,
        ),
    ] {
        let family = Family::<Mode, Gauge>::default();
        for (access_mode, count) in counted {
            family.get_or_create(&Mode { access_mode }).set(number(*count));
        }
        registry.register(format!("volume_manager_selinux_{name}"), help, family);
    }
    for (name, help, counted) in [
        (
            "volume_context_mismatch_errors_total",
            "Pods that wait because other pods use the volume with another SELinux label",
            &counts.volume_errors,
        ),
        (
            "volume_context_mismatch_warnings_total",
            "Pods that share a volume with pods of another SELinux label, which is not enforced",
            &counts.volume_warnings,
        ),
        ("volumes_admitted_total", "Volumes that are mounted with an SELinux label", &counts.admitted),
    ] {
        registry.register(format!("volume_manager_selinux_{name}"), help, by_plugin(counted));
    }
}

fn by_plugin(counted: &BTreeMap<(PluginName, &'static str), u64>) -> Family<PluginMode, Gauge> {
    let family = Family::<PluginMode, Gauge>::default();
    for ((plugin, access_mode), count) in counted {
        let labels = PluginMode { volume_plugin: plugin.to_string(), access_mode };
        family.get_or_create(&labels).set(number(*count));
    }
    family
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_have_the_kubelets_names_and_labels() {
        let plugin = PluginName::new("volhost.io/loop").unwrap();
        let counts = SelinuxCounts {
            pod_errors: [("RWOP", 1)].into(),
            volume_warnings: [((plugin.clone(), "RWX"), 2)].into(),
            admitted: [((plugin, "RWO"), 3)].into(),
            ..SelinuxCounts::default()
        };
        let (mut registry, mut text) = (Registry::default(), String::new());
        register(&mut registry, &counts);
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "volume_manager_selinux_pod_context_mismatch_errors_total{access_mode=\"RWOP\"} 1",
            "volume_manager_selinux_volume_context_mismatch_warnings_total{volume_plugin=\"volhost.io/loop\",access_mode=\"RWX\"} 2",
            "volume_manager_selinux_volumes_admitted_total{volume_plugin=\"volhost.io/loop\",access_mode=\"RWO\"} 3",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
