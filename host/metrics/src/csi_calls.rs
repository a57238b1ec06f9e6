//! Calls of CSI drivers, counted as they end.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use volhost_csi::CallObserver;

use super::operations::KUBELET_BUCKETS;

/// How many drivers have a label of their own. Every user who may write to the registry's folder chooses
/// names.
const DRIVERS: usize = 64;
/// The label of the other drivers and methods.
const OTHER: &str = "other";
/// The methods of CSI. A plugin chooses the path of a call.
const METHODS: [&str; 30] = [
    "/csi.v1.Identity/GetPluginInfo",
    "/csi.v1.Identity/GetPluginCapabilities",
    "/csi.v1.Identity/Probe",
    "/csi.v1.Controller/CreateVolume",
    "/csi.v1.Controller/DeleteVolume",
    "/csi.v1.Controller/ControllerPublishVolume",
    "/csi.v1.Controller/ControllerUnpublishVolume",
    "/csi.v1.Controller/ValidateVolumeCapabilities",
    "/csi.v1.Controller/ListVolumes",
    "/csi.v1.Controller/GetCapacity",
    "/csi.v1.Controller/ControllerGetCapabilities",
    "/csi.v1.Controller/CreateSnapshot",
    "/csi.v1.Controller/DeleteSnapshot",
    "/csi.v1.Controller/ListSnapshots",
    "/csi.v1.Controller/GetSnapshot",
    "/csi.v1.Controller/ControllerExpandVolume",
    "/csi.v1.Controller/ControllerGetVolume",
    "/csi.v1.Controller/ControllerModifyVolume",
    "/csi.v1.GroupController/GroupControllerGetCapabilities",
    "/csi.v1.GroupController/CreateVolumeGroupSnapshot",
    "/csi.v1.GroupController/DeleteVolumeGroupSnapshot",
    "/csi.v1.GroupController/GetVolumeGroupSnapshot",
    "/csi.v1.Node/NodeStageVolume",
    "/csi.v1.Node/NodeUnstageVolume",
    "/csi.v1.Node/NodePublishVolume",
    "/csi.v1.Node/NodeUnpublishVolume",
    "/csi.v1.Node/NodeGetVolumeStats",
    "/csi.v1.Node/NodeExpandVolume",
    "/csi.v1.Node/NodeGetCapabilities",
    "/csi.v1.Node/NodeGetInfo",
];

/// A call and its outcome, as the kubelet labels `csi_operations_seconds`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    /// The driver.
    driver_name: String,
    /// The full gRPC path.
    method_name: &'static str,
    /// The name of the gRPC status.
    grpc_status_code: &'static str,
    /// Always `false`: volhost moves no volume from one plugin to another.
    migrated: &'static str,
}

/// The durations of calls of CSI drivers. Every method takes about a microsecond.
#[derive(Debug)]
pub struct CsiCalls {
    took: Family<CallLabels, Histogram, fn() -> Histogram>,
    /// The drivers that have a label of their own.
    drivers: Mutex<BTreeSet<String>>,
}

impl Default for CsiCalls {
    fn default() -> Self {
        let buckets: fn() -> Histogram = || Histogram::new(KUBELET_BUCKETS);
        Self { took: Family::new_with_constructor(buckets), drivers: Mutex::default() }
    }
}

impl CsiCalls {
    /// Registers the histogram.
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "How long calls of CSI drivers took, by method and gRPC status";
        registry.register("csi_operations_seconds", help, self.took.clone());
    }

    fn label_of(&self, driver: &str) -> String {
        let mut drivers = self.drivers.lock().unwrap_or_else(PoisonError::into_inner);
        if drivers.contains(driver) {
            return driver.to_owned();
        }
        if drivers.len() >= DRIVERS {
            return OTHER.to_owned();
        }
        drivers.insert(driver.to_owned());
        driver.to_owned()
    }
}

impl CallObserver for CsiCalls {
    fn call_ended(&self, driver: &str, method: &str, code: &'static str, took: Duration) {
        let labels = CallLabels {
            driver_name: self.label_of(driver),
            method_name: METHODS.into_iter().find(|known| *known == method).unwrap_or(OTHER),
            grpc_status_code: code,
            migrated: "false",
        };
        self.took.get_or_create(&labels).observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(calls: &CsiCalls) -> String {
        let (mut registry, mut text) = (Registry::default(), String::new());
        calls.register(&mut registry);
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn every_method_of_the_protocol_is_told_apart() {
        let protocol = include_str!("../../../proto/csi.proto");
        let mut service = "";
        let mut methods = BTreeSet::new();
        for line in protocol.lines() {
            if let Some(rest) = line.strip_prefix("service ") {
                service = rest.trim_end_matches([' ', '{']);
            }
            if let Some((method, _)) = line.strip_prefix("  rpc ").and_then(|rest| rest.split_once('(')) {
                methods.insert(format!("/csi.v1.{service}/{method}"));
            }
        }
        assert_eq!(methods, METHODS.into_iter().map(str::to_owned).collect());
    }

    #[test]
    fn a_call_has_the_kubelets_labels() {
        let calls = CsiCalls::default();
        calls.call_ended("a.b", "/csi.v1.Node/NodeStageVolume", "NotFound", Duration::from_millis(300));
        let labels = r#"driver_name="a.b",method_name="/csi.v1.Node/NodeStageVolume",grpc_status_code="NotFound",migrated="false""#;
        let text = text(&calls);
        assert!(text.contains(&format!("csi_operations_seconds_count{{{labels}}} 1")), "{text}");
        assert!(text.contains(&format!("csi_operations_seconds_bucket{{le=\"0.25\",{labels}}} 0")), "{text}");
        assert!(text.contains(&format!("csi_operations_seconds_bucket{{le=\"0.5\",{labels}}} 1")), "{text}");
    }

    #[test]
    fn neither_drivers_nor_plugins_add_series_without_bound() {
        let calls = CsiCalls::default();
        for number in 0..1_000 {
            let (driver, method) = (format!("driver-{number}"), format!("/csi.v1.Node/Call{number}"));
            calls.call_ended(&driver, &method, "OK", Duration::ZERO);
        }
        let text = text(&calls);
        let series = text.lines().filter(|line| line.starts_with("csi_operations_seconds_count")).count();
        assert_eq!(series, DRIVERS + 1);
        assert!(text.contains("driver_name=\"driver-0\",method_name=\"other\""), "{text}");
        assert!(text.contains("driver_name=\"other\",method_name=\"other\""), "{text}");
    }
}
