//! Operations, counted as they end.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use volhost_model::names::PluginName;
use volhost_model::{Failure, FailureClass};

use super::labels::{EndedOperationLabels, PluginOperationLabels, StorageOperationLabels};

/// The kubelet's buckets, in seconds.
pub(super) const KUBELET_BUCKETS: [f64; 13] =
    [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0];
/// Buckets that distinguish fast operations, in seconds: a mount without a server behind it takes
/// less than the kubelet's first.
const FINE_BUCKETS: [f64; 18] = [
    0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 120.0,
    600.0,
];
/// How operations end: the values of the label `status`.
const STATUSES: [&str; 4] = ["success", "final", "uncertain", "transient"];
/// The kubelet's name of the time from a pod's request to its mounted volume.
const OVERALL_MOUNT: &str = "overall_volume_mount";

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// Counters and histograms of operations. Every method takes about a microsecond and never blocks.
#[derive(Debug)]
pub struct Operations {
    registry: Registry,
    ended: Family<EndedOperationLabels, Counter>,
    took: Histograms<EndedOperationLabels>,
    took_as_kubelet: Histograms<StorageOperationLabels>,
    overall: Histograms<PluginOperationLabels>,
    reconstructed: Counter,
    reconstruction_errors: Counter,
    forced: Counter,
    forced_errors: Counter,
}

impl Default for Operations {
    fn default() -> Self {
        let fine: fn() -> Histogram = || Histogram::new(FINE_BUCKETS);
        let coarse: fn() -> Histogram = || Histogram::new(KUBELET_BUCKETS);
        let new = Self {
            registry: Registry::default(),
            ended: Family::default(),
            took: Family::new_with_constructor(fine),
            took_as_kubelet: Family::new_with_constructor(coarse),
            overall: Family::new_with_constructor(coarse),
            reconstructed: Counter::default(),
            reconstruction_errors: Counter::default(),
            forced: Counter::default(),
            forced_errors: Counter::default(),
        };
        new.registered()
    }
}

impl Operations {
    /// The text format adds `_total` to a counter's name.
    fn registered(mut self) -> Self {
        let Self {
            registry,
            ended,
            took,
            took_as_kubelet,
            overall,
            reconstructed,
            reconstruction_errors,
            forced,
            forced_errors,
        } = &mut self;
        registry.register("volume_manager_operations", "Operations that have ended, by outcome", ended.clone());
        registry.register(
            "volume_manager_operation_duration_seconds",
            "How long operations took since they were decided on, in buckets from 0.1 ms",
            took.clone(),
        );
        registry.register(
            "storage_operation_duration_seconds",
            "How long operations took, in the kubelet's buckets",
            took_as_kubelet.clone(),
        );
        registry.register(
            "volume_operation_total_seconds",
            "Time from when a pod wanted a volume until it was mounted, retries included",
            overall.clone(),
        );
        registry.register(
            "reconstruct_volume_operations",
            "Volumes of an earlier run that were examined when volhost started",
            reconstructed.clone(),
        );
        registry.register(
            "reconstruct_volume_operations_errors",
            "Of these, those that could not be read or had no owner",
            reconstruction_errors.clone(),
        );
        registry.register(
            "force_cleaned_failed_volume_operations",
            "Forced unmounts of volumes that could not be unmounted otherwise",
            forced.clone(),
        );
        registry.register(
            "force_cleaned_failed_volume_operation_errors",
            "Of these, those that failed",
            forced_errors.clone(),
        );
        self
    }

    /// An operation has ended.
    pub fn ended(&self, plugin: &PluginName, operation: &'static str, took: Duration, result: &Result<(), Failure>) {
        let seconds = took.as_secs_f64();
        let ended = EndedOperationLabels {
            volume_plugin: plugin.to_string(),
            operation_name: operation,
            status: status(result),
        };
        let as_kubelet = StorageOperationLabels {
            volume_plugin: plugin.to_string(),
            operation_name: operation,
            status: if result.is_ok() { "success" } else { "fail-unknown" },
            migrated: "false",
        };
        // A counter that begins with 1 is no increase for Prometheus: the other outcomes begin with
        // 0.
        for status in STATUSES {
            drop(self.ended.get_or_create(&EndedOperationLabels { status, ..ended.clone() }));
        }
        self.ended.get_or_create(&ended).inc();
        self.took.get_or_create(&ended).observe(seconds);
        self.took_as_kubelet.get_or_create(&as_kubelet).observe(seconds);
    }

    /// A volume that a pod wanted is mounted, this long after it was wanted.
    pub fn mounted(&self, plugin: &PluginName, took: Duration) {
        let labels = PluginOperationLabels { plugin_name: plugin.to_string(), operation_name: OVERALL_MOUNT };
        self.overall.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// Recovery has reconstructed this many volumes, and failed for that many others.
    pub fn reconstructed(&self, volumes: usize, problems: usize) {
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        self.reconstructed.inc_by(count(volumes.saturating_add(problems)));
        self.reconstruction_errors.inc_by(count(problems));
    }

    /// A volume was unmounted by force, or that has failed.
    pub fn forced(&self, succeeded: bool) {
        self.forced.inc();
        if !succeeded {
            self.forced_errors.inc();
        }
    }

    /// The metrics, to be encoded.
    pub(super) const fn registry(&self) -> &Registry {
        &self.registry
    }
}

const fn status(result: &Result<(), Failure>) -> &'static str {
    match result {
        Ok(()) => "success",
        Err(failure) => match failure.class {
            FailureClass::Final => "final",
            FailureClass::Uncertain => "uncertain",
            FailureClass::Transient => "transient",
        },
    }
}
