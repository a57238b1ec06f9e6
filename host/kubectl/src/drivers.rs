//! `kubectl volhost drivers`: a row for each CSI driver.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, StorageClass, VolumeAttachment};
use serde::Serialize;
use volhost_table::{Cell, Colour};

use crate::arguments::ListArguments;
use crate::chain::driver_and_handle;
use crate::cluster::Cluster;
use crate::error::PluginError;
use crate::output::{Output, Row};
use crate::state::{Leader, age};

/// What the Leases of `volhost controller` begin with.
const LEASE: &str = "volhost-controller-";

/// A driver.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DriverRow {
    name: String,
    /// Whether it has a CSIDriver object.
    object: bool,
    attach: bool,
    /// Nodes on which it is registered, and all.
    nodes: usize,
    of_nodes: usize,
    controller: Option<String>,
    volumes: usize,
    attachments: usize,
    not_attached: usize,
    classes: Vec<String>,
    age: String,
}

impl Row for DriverRow {
    const COLUMNS: (&'static [&'static str], &'static [&'static str]) =
        (&["NAME", "ATTACH", "NODES", "CONTROLLER", "VOLUMES", "ATTACHMENTS", "AGE"], &["CLASSES", "OBJECT"]);

    fn cells(&self) -> Vec<Cell> {
        let attachments = match self.not_attached {
            0 => Cell::new(self.attachments.to_string()),
            wrong => Cell::coloured(format!("{} ({wrong} not attached)", self.attachments), Some(Colour::Yellow)),
        };
        let nodes = format!("{}/{}", self.nodes, self.of_nodes);
        vec![
            Cell::new(&self.name),
            Cell::new(self.attach.to_string()),
            Cell::coloured(nodes, (self.nodes == 0).then_some(Colour::Red)),
            Cell::new(self.controller.as_deref().unwrap_or_default()),
            Cell::new(self.volumes.to_string()),
            attachments,
            Cell::new(&self.age),
            Cell::new(self.classes.join(",")),
            Cell::new(self.object.to_string()),
        ]
    }
}

/// Runs the command.
///
/// # Errors
/// [`PluginError`].
pub(crate) async fn run(cluster: &Cluster, arguments: &ListArguments, output: &Output) -> Result<(), PluginError> {
    let rows = Known::read(cluster).await?.rows(Timestamp::now());
    output.list(&rows, arguments, "The cluster has no CSI driver.")
}

/// The objects of which the rows are made.
pub(crate) struct Known {
    pub(crate) drivers: Vec<CSIDriver>,
    pub(crate) nodes: Vec<CSINode>,
    pub(crate) classes: Vec<StorageClass>,
    pub(crate) volumes: Vec<PersistentVolume>,
    pub(crate) attachments: Vec<VolumeAttachment>,
    /// Of `volhost controller`, for any driver.
    pub(crate) leases: Vec<Lease>,
}

impl Known {
    /// Reads them.
    ///
    /// # Errors
    /// [`PluginError::List`]; not for Leases, which fewer people may read.
    pub(crate) async fn read(cluster: &Cluster) -> Result<Self, PluginError> {
        let mut leases: Vec<Lease> = cluster.list_in(None, "").await.unwrap_or_default();
        leases.retain(|lease| driver_of(lease).is_some());
        Ok(Self {
            drivers: cluster.list().await?,
            nodes: cluster.list().await?,
            classes: cluster.list().await?,
            volumes: cluster.list().await?,
            attachments: cluster.list().await?,
            leases,
        })
    }

    /// The rows, by name: of drivers with an object, on a node, of a volume or of a Lease.
    pub(crate) fn rows(&self, now: Timestamp) -> Vec<DriverRow> {
        let mut rows: BTreeMap<String, DriverRow> = BTreeMap::new();
        let mut row = |name: &str, change: &mut dyn FnMut(&mut DriverRow)| {
            let row = rows.entry(name.to_owned()).or_insert_with(|| DriverRow {
                name: name.to_owned(),
                // What Kubernetes takes a driver without an object for.
                attach: true,
                of_nodes: self.nodes.len(),
                ..DriverRow::default()
            });
            change(row);
        };
        for driver in &self.drivers {
            row(driver.metadata.name.as_deref().unwrap_or_default(), &mut |row| {
                row.object = true;
                row.attach = driver.spec.attach_required.unwrap_or(true);
                row.age = age(&driver.metadata, now);
            });
        }
        for node in &self.nodes {
            let names: BTreeSet<&str> = node.spec.drivers.iter().map(|driver| driver.name.as_str()).collect();
            names.into_iter().for_each(|name| row(name, &mut |row| row.nodes += 1));
        }
        for volume in &self.volumes {
            if let Some((driver, _)) = driver_and_handle(volume) {
                row(&driver, &mut |row| row.volumes += 1);
            }
        }
        for attachment in &self.attachments {
            let is_attached = attachment.status.as_ref().is_some_and(|status| status.attached);
            row(&attachment.spec.attacher, &mut |row| {
                row.attachments += 1;
                row.not_attached += usize::from(!is_attached);
            });
        }
        for class in &self.classes {
            if let Some(row) = rows.get_mut(&class.provisioner) {
                row.classes.extend(class.metadata.name.clone());
            }
        }
        for lease in &self.leases {
            let (Some(driver), Leader::Works(holder)) = (driver_of(lease), Leader::of(lease, now)) else { continue };
            // Objects' names have no capitals.
            if let Some(row) = rows.values_mut().find(|row| row.name.to_ascii_lowercase() == driver) {
                row.controller = Some(holder);
            }
        }
        rows.into_values().collect()
    }
}

/// The driver for which a Lease's controller works.
pub(crate) fn driver_of(lease: &Lease) -> Option<&str> {
    lease.metadata.name.as_deref()?.strip_prefix(LEASE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    fn object<K: DeserializeOwned>(value: Value) -> K {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_driver_is_known_by_any_object_of_it() {
        let known = Known {
            drivers: vec![object(json!({ "metadata": { "name": "A.test" }, "spec": { "attachRequired": false } }))],
            nodes: vec![
                object(
                    json!({ "metadata": { "name": "n" }, "spec": { "drivers": [{ "name": "b.test", "nodeID": "n" }] } }),
                ),
                object(json!({ "metadata": { "name": "m" }, "spec": { "drivers": [] } })),
            ],
            classes: vec![object(json!({ "metadata": { "name": "fast" }, "provisioner": "A.test" }))],
            volumes: vec![object(
                json!({ "metadata": { "name": "v" }, "spec": { "csi": { "driver": "b.test", "volumeHandle": "v" } } }),
            )],
            attachments: vec![object(json!({
                "metadata": { "name": "x" },
                "spec": { "attacher": "b.test", "nodeName": "n", "source": { "persistentVolumeName": "v" } },
                "status": { "attached": false },
            }))],
            leases: vec![object(json!({
                "metadata": { "name": "volhost-controller-a.test" },
                "spec": { "holderIdentity": "pod_1", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z" },
            }))],
        };
        let rows = known.rows("2026-01-01T00:00:05Z".parse().unwrap());
        let [a, b] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((a.name.as_str(), a.attach, a.nodes, a.of_nodes), ("A.test", false, 0, 2));
        assert_eq!((a.controller.as_deref(), a.classes.as_slice()), (Some("pod_1"), &["fast".to_owned()][..]));
        assert_eq!((b.name.as_str(), b.object, b.attach, b.nodes), ("b.test", false, true, 1));
        assert_eq!((b.volumes, b.attachments, b.not_attached), (1, 1, 1));
    }
}
