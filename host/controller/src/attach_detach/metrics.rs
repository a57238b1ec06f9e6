//! Metrics for Prometheus. Kubernetes' controller has the same names and labels, so that dashboards
//! and alerts keep working.

use std::net::SocketAddr;
use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use volhost_metrics_listener::listener::MetricsBindError;
use volhost_metrics_listener::registry::serve_registry;

use super::Shared;
use super::plan::Force;
use crate::metrics::{Leads, register_queues};

/// What every replica counts.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    /// Its part in the election.
    pub(super) leads: Leads,
    /// Only grows. Kubernetes' name has no `_total`, which this library gives to a counter.
    forced: Family<ReasonLabels, Gauge>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VolumesLabels {
    plugin_name: String,
    state: &'static str,
}

impl Metrics {
    /// Serves the metrics at this address until `stop`.
    ///
    /// # Errors
    /// [`MetricsBindError`].
    pub(super) async fn serve(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        address: SocketAddr,
        stop: CancellationToken,
    ) -> Result<(), MetricsBindError> {
        let (metrics, shared) = (Arc::clone(self), Arc::clone(shared));
        serve_registry(address, stop, move |registry| metrics.register(registry, &shared)).await
    }

    /// A volume is detached that the kubelet reports in use.
    pub(super) fn forced(&self, force: Force) {
        self.forced.get_or_create(&ReasonLabels { reason: force.reason() }).inc();
    }

    fn register(&self, registry: &mut Registry, shared: &Shared) {
        self.leads.register(registry);
        let help = "Volumes that were detached though the kubelet reported them in use";
        let name = "attach_detach_controller_attachdetach_controller_forced_detaches";
        registry.register(name, help, self.forced.clone());
        let (desired, actual) = shared.state().counts();
        let volumes = Family::<VolumesLabels, Gauge>::default();
        for (state, counts) in [("desired_state_of_world", desired), ("actual_state_of_world", actual)] {
            for (plugin_name, count) in counts {
                volumes.get_or_create(&VolumesLabels { plugin_name, state }).set(count);
            }
        }
        let help = "Volumes that pods want attached to a node, and that are attached to one";
        registry.register("attachdetach_controller_total_volumes", help, volumes);
        register_queues(registry, &[("nodes", shared.queue().counts())]);
    }
}
