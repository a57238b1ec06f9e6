//! Queues of objects, counted at each scrape.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The objects of one queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct QueueCounts {
    /// Those that wait for a worker.
    pub(crate) waiting: usize,
    /// Those that a worker has.
    pub(crate) running: usize,
    /// Those whose last attempt failed.
    pub(crate) failing: usize,
    /// Attempts so far.
    pub(crate) attempts: u64,
    /// Attempts so far that failed.
    pub(crate) failures: u64,
}

/// A queue, as client-go labels `workqueue_depth`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    name: &'static str,
}

/// Registers the figures of these queues, by their names.
pub(crate) fn register_queues(registry: &mut Registry, queues: &[(&'static str, QueueCounts)]) {
    let (waiting, running, failing) = (gauges(), gauges(), gauges());
    let (attempts, failures) = (counters(), counters());
    for (name, counts) in queues {
        let labels = QueueLabels { name };
        waiting.get_or_create(&labels).set(gauge(counts.waiting));
        running.get_or_create(&labels).set(gauge(counts.running));
        failing.get_or_create(&labels).set(gauge(counts.failing));
        attempts.get_or_create(&labels).inc_by(counts.attempts);
        failures.get_or_create(&labels).inc_by(counts.failures);
    }
    registry.register("workqueue_depth", "Objects that wait for a worker", waiting);
    registry.register("volhost_controller_running", "Objects that are worked on", running);
    registry.register("volhost_controller_failing", "Objects whose last attempt failed", failing);
    registry.register("volhost_controller_attempts", "Attempts that have ended", attempts);
    registry.register("workqueue_retries", "Attempts that failed, after which the object is tried again", failures);
}

fn gauges() -> Family<QueueLabels, Gauge> {
    Family::default()
}

fn counters() -> Family<QueueLabels, Counter> {
    Family::default()
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
