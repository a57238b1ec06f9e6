//! Metrics for Prometheus: of this replica and its part in the election, of what is worked on, and
//! of the driver's calls.
//!
//! Where client-go, or the sidecars that CSI drivers are deployed with, have a metric of the same
//! meaning, its name and labels are kept, so that dashboards and alerts for them keep working.
//!
//! | module | its job |
//! |---|---|
//! | `work` | queues of objects, counted at each scrape |

mod work;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use volhost_metrics_listener::driver_calls::DriverCalls;
use volhost_metrics_listener::listener::MetricsBindError;
use volhost_metrics_listener::registry::serve_registry;

pub(crate) use work::{QueueCounts, register_queues};

use crate::changes::Queues;

/// What every replica counts.
#[derive(Debug)]
pub(crate) struct Metrics {
    calls: Arc<DriverCalls>,
    leads: Leads,
    queues: OnceLock<Queues>,
}

/// 1 for the Lease that this replica holds, 0 for one that it waits for.
#[derive(Debug, Default)]
pub(crate) struct Leads(Family<LeaseLabels, Gauge>);

/// A Lease, as client-go labels `leader_election_master_status`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LeaseLabels {
    name: String,
}

impl Leads {
    /// This replica waits for the Lease, or holds it.
    pub(crate) fn set(&self, lease: &str, leads: bool) {
        self.0.get_or_create(&LeaseLabels { name: lease.to_owned() }).set(leads.into());
    }

    /// Registers the figure.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "1 if this replica holds the Lease and works";
        registry.register("leader_election_master_status", help, self.0.clone());
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let calls = Arc::new(DriverCalls::of_sidecar());
        Self { calls, leads: Leads::default(), queues: OnceLock::new() }
    }
}

impl Metrics {
    /// Serves the metrics at this address until `stop`.
    ///
    /// # Errors
    /// [`MetricsBindError`].
    pub(crate) async fn serve(
        self: &Arc<Self>,
        address: SocketAddr,
        stop: CancellationToken,
    ) -> Result<(), MetricsBindError> {
        let metrics = Arc::clone(self);
        serve_registry(address, stop, move |registry| metrics.register(registry)).await
    }

    /// Where calls of the driver are counted.
    pub(crate) fn calls(&self) -> Arc<DriverCalls> {
        Arc::clone(&self.calls)
    }

    /// Counts the objects of these queues from now on.
    pub(crate) fn watch_queues(&self, queues: Queues) {
        // They are made once.
        drop(self.queues.set(queues));
    }

    /// This replica waits for the Lease, or holds it.
    pub(crate) fn set_leads(&self, lease: &str, leads: bool) {
        self.leads.set(lease, leads);
    }

    fn register(&self, registry: &mut Registry) {
        self.leads.register(registry);
        self.calls.register(registry);
        if let Some(queues) = self.queues.get() {
            register_queues(registry, &queues.counts());
        }
    }
}
