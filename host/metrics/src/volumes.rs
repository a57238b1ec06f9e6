//! The usage of claims' volumes, as gauges. A volume whose storage hangs is left out until it
//! answers.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use volhost_core::ClaimedVolume;
use volhost_model::view::UsageView;

use super::labels::{ClaimLabels, PluginLabels};
use volhost_volume_ops::stats::VolumeMeter;

/// An answer that is older is not shown when there should be a newer one: the volume hangs.
const STALE_US: u64 = 180_000_000;

/// Registers the usage of these volumes. Blocks for a quarter of a second at most, whatever the
/// storage does.
pub(super) fn register(registry: &mut Registry, meter: &VolumeMeter, claims: &[ClaimedVolume]) {
    let gauges = Gauges::default();
    let asked = meter.measure(claims.iter().map(Into::into).collect());
    for (claimed, (_, usage)) in claims.iter().zip(asked) {
        gauges.set(&claimed.claim, &usage);
    }
    for (plugin, count) in meter.unanswered() {
        let labels = PluginLabels { plugin_name: plugin.to_string() };
        gauges.unanswered.get_or_create(&labels).set(number(count));
    }
    gauges.register(registry);
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

type ClaimGauges = Family<ClaimLabels, Gauge>;

/// The kubelet's metrics, and how many volumes have not answered.
#[derive(Default)]
struct Gauges {
    capacity: ClaimGauges,
    available: ClaimGauges,
    used: ClaimGauges,
    inodes: ClaimGauges,
    inodes_free: ClaimGauges,
    inodes_used: ClaimGauges,
    abnormal: ClaimGauges,
    unanswered: Family<PluginLabels, Gauge>,
}

impl Gauges {
    fn set(&self, claim: &str, usage: &UsageView) {
        let overdue =
            usage.asked_at.zip(usage.measured_at).is_some_and(|(asked, at)| asked.saturating_sub(at) > STALE_US);
        if usage.measured_at.is_none() || overdue {
            return;
        }
        let (namespace, name) = claim.split_once('/').unwrap_or(("", claim));
        let labels = ClaimLabels { namespace: namespace.to_owned(), persistentvolumeclaim: name.to_owned() };
        for (family, value) in [
            (&self.capacity, usage.capacity),
            (&self.available, usage.available),
            (&self.used, usage.used),
            (&self.inodes, usage.inodes),
            (&self.inodes_free, usage.inodes_free),
            (&self.inodes_used, usage.inodes_used),
            (&self.abnormal, Some(u64::from(!usage.abnormal.is_empty()))),
        ] {
            if let Some(value) = value {
                family.get_or_create(&labels).set(number(value));
            }
        }
    }

    fn register(self, registry: &mut Registry) {
        for (name, help, family) in [
            ("capacity_bytes", "Size of the volume", self.capacity),
            ("available_bytes", "Bytes that an ordinary user may still write", self.available),
            ("used_bytes", "Bytes in use", self.used),
            ("inodes", "Inodes of the volume", self.inodes),
            ("inodes_free", "Free inodes", self.inodes_free),
            ("inodes_used", "Inodes in use", self.inodes_used),
            ("health_status_abnormal", "1 if the volume's plugin reports it as abnormal", self.abnormal),
        ] {
            registry.register(format!("kubelet_volume_stats_{name}"), help, family);
        }
        registry.register(
            "volhost_volume_stats_unanswered",
            "Volumes that were asked for their usage and have not answered: their storage hangs",
            self.unanswered,
        );
    }
}
