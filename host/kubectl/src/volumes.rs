//! `kubectl volhost volumes`: a row for each volume of a pod that a claim or a CSI driver gives it.

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use serde::Serialize;
use volhost_table::{Cell, Colour};

use crate::arguments::VolumesArguments;
use crate::chain::{Source, driver_and_handle, source};
use crate::cluster::Cluster;
use crate::error::PluginError;
use crate::explain::node_of;
use crate::output::{Output, Row};
use crate::state::{age, attachment_error, attachment_name, has_ended, has_volumes, is_used};

/// A volume of a pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VolumeRow {
    namespace: String,
    pod: String,
    volume: String,
    claim: Option<String>,
    persistent_volume: Option<String>,
    driver: Option<String>,
    node: Option<String>,
    state: State,
    handle: Option<String>,
    message: Option<String>,
    /// Of the pod.
    age: String,
}

/// How far a volume is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum State {
    /// The claim is not there.
    NoClaim,
    /// The claim has no PersistentVolume.
    Unbound,
    /// The pod has no node.
    Unscheduled,
    /// The driver has to attach it.
    Attaching,
    /// It is attached or need not be, and not mounted.
    Mounting,
    /// The pod has it.
    Mounted,
    /// No container of the pod uses it, and so the node leaves it alone.
    Unused,
}

impl Row for VolumeRow {
    const COLUMNS: (&'static [&'static str], &'static [&'static str]) = (
        &["NAMESPACE", "POD", "VOLUME", "CLAIM", "PERSISTENTVOLUME", "DRIVER", "NODE", "STATE", "AGE"],
        &["HANDLE", "MESSAGE"],
    );

    fn cells(&self) -> Vec<Cell> {
        let text = |value: &Option<String>| Cell::new(value.as_deref().unwrap_or_default());
        let colour = match self.state {
            State::Mounted | State::Unused => Colour::Green,
            State::NoClaim => Colour::Red,
            _ => Colour::Yellow,
        };
        vec![
            Cell::new(&self.namespace),
            Cell::new(&self.pod),
            Cell::new(&self.volume),
            text(&self.claim),
            text(&self.persistent_volume),
            text(&self.driver),
            text(&self.node),
            Cell::coloured(format!("{:?}", self.state), Some(colour)),
            Cell::new(&self.age),
            text(&self.handle),
            text(&self.message),
        ]
    }
}

/// Runs the command.
///
/// # Errors
/// [`PluginError`].
pub(crate) async fn run(cluster: &Cluster, arguments: &VolumesArguments, output: &Output) -> Result<(), PluginError> {
    let namespace = (!arguments.all_namespaces).then(|| cluster.namespace());
    let mut rows = Known::read(cluster, namespace, arguments.node.as_deref()).await?.rows(Timestamp::now());
    if arguments.waiting {
        rows.retain(|row| !matches!(row.state, State::Mounted | State::Unused));
    }
    let place = namespace.map_or_else(|| "any namespace".to_owned(), |name| format!("namespace {name}"));
    let which =
        if arguments.waiting { "No volume of a pod waits" } else { "No pod has a volume of a claim or a driver" };
    output.list(&rows, &arguments.list, &format!("{which} in {place}."))
}

/// The objects of which the rows are made.
pub(crate) struct Known {
    pods: Vec<Pod>,
    claims: HashMap<(String, String), PersistentVolumeClaim>,
    volumes: HashMap<String, PersistentVolume>,
    attachments: HashMap<String, VolumeAttachment>,
}

impl Known {
    /// Reads them.
    ///
    /// # Errors
    /// [`PluginError::List`].
    pub(crate) async fn read(
        cluster: &Cluster,
        namespace: Option<&str>,
        node: Option<&str>,
    ) -> Result<Self, PluginError> {
        let fields = node.map(|node| format!("spec.nodeName={node}")).unwrap_or_default();
        let pods = cluster.list_in::<Pod>(namespace, &fields).await?;
        let claims = cluster.list_in::<PersistentVolumeClaim>(namespace, "").await?;
        let volumes = cluster.list::<PersistentVolume>().await?;
        let attachments = cluster.list::<VolumeAttachment>().await?;
        Ok(Self::new(pods, claims, volumes, attachments))
    }

    fn new(
        pods: Vec<Pod>,
        claims: Vec<PersistentVolumeClaim>,
        volumes: Vec<PersistentVolume>,
        attachments: Vec<VolumeAttachment>,
    ) -> Self {
        let key = |name: Option<String>| name.unwrap_or_default();
        let claims =
            claims.into_iter().map(|one| ((key(one.metadata.namespace.clone()), key(one.metadata.name.clone())), one));
        Self {
            pods,
            claims: claims.collect(),
            volumes: volumes.into_iter().map(|one| (key(one.metadata.name.clone()), one)).collect(),
            attachments: attachments.into_iter().map(|one| (key(one.metadata.name.clone()), one)).collect(),
        }
    }

    /// The rows, by namespace, pod and volume. A pod that has ended has none.
    pub(crate) fn rows(&self, now: Timestamp) -> Vec<VolumeRow> {
        let mut rows: Vec<VolumeRow> =
            self.pods.iter().filter(|pod| !has_ended(pod)).flat_map(|pod| self.rows_of(pod, now)).collect();
        rows.sort_by(|one, other| {
            (&one.namespace, &one.pod, &one.volume).cmp(&(&other.namespace, &other.pod, &other.volume))
        });
        rows
    }

    fn rows_of<'a>(&'a self, pod: &'a Pod, now: Timestamp) -> impl Iterator<Item = VolumeRow> + 'a {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        volumes.iter().filter_map(move |volume| {
            let mut row = VolumeRow {
                namespace: pod.metadata.namespace.clone().unwrap_or_default(),
                pod: name.clone(),
                volume: volume.name.clone(),
                claim: None,
                persistent_volume: None,
                driver: None,
                node: node_of(pod).map(str::to_owned),
                state: State::Mounting,
                handle: None,
                message: None,
                age: age(&pod.metadata, now),
            };
            match source(&name, volume) {
                Source::OfNode(_) => return None,
                Source::Csi { driver } => row.driver = Some(driver),
                Source::Claim(claim) => {
                    let found = self.claims.get(&(row.namespace.clone(), claim.clone()));
                    row.claim = Some(claim);
                    self.fill(&mut row, found);
                }
            }
            if !is_used(pod, &volume.name) {
                row.state = State::Unused;
            }
            if row.state == State::Mounting {
                row.state = match () {
                    () if row.node.is_none() => State::Unscheduled,
                    () if has_volumes(pod) => State::Mounted,
                    () => State::Mounting,
                };
            }
            Some(row)
        })
    }

    /// What the claim adds to its row.
    fn fill(&self, row: &mut VolumeRow, claim: Option<&PersistentVolumeClaim>) {
        let Some(claim) = claim else {
            row.state = State::NoClaim;
            return;
        };
        row.persistent_volume =
            claim.spec.as_ref().and_then(|spec| spec.volume_name.clone()).filter(|name| !name.is_empty());
        let is_bound = claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
        let volume = row.persistent_volume.as_ref().and_then(|name| self.volumes.get(name));
        let Some(volume) = volume.filter(|_| is_bound) else {
            row.state = State::Unbound;
            return;
        };
        let Some((driver, handle)) = driver_and_handle(volume) else { return };
        let attachment =
            row.node.as_ref().and_then(|node| self.attachments.get(&attachment_name(&handle, &driver, node)));
        if let Some(attachment) = attachment {
            if !attachment.status.as_ref().is_some_and(|status| status.attached) {
                row.state = State::Attaching;
            }
            row.message = attachment_error(attachment).map(str::to_owned);
        }
        (row.driver, row.handle) = (Some(driver), Some(handle));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    fn objects<K: DeserializeOwned>(values: &[Value]) -> Vec<K> {
        values.iter().map(|value| serde_json::from_value(value.clone()).unwrap()).collect()
    }

    #[test]
    fn each_volume_says_how_far_it_is() {
        let pod = |name: &str, node: Value, claim: &str, ready: &str| {
            let mounts = if name == "p7" { json!([]) } else { json!([{ "name": "data", "mountPath": "/data" }]) };
            json!({
                "metadata": { "namespace": "a", "name": name },
                "spec": { "containers": [{ "name": "main", "volumeMounts": mounts }], "nodeName": node, "volumes": [
                    { "name": "own", "emptyDir": {} },
                    { "name": "data", "persistentVolumeClaim": { "claimName": claim } },
                ] },
                "status": { "conditions": [{ "type": "PodReadyToStartContainers", "status": ready }] },
            })
        };
        let claim = |name: &str, phase: &str| json!({ "metadata": { "namespace": "a", "name": name }, "spec": { "volumeName": name }, "status": { "phase": phase } });
        let volume = |name: &str| json!({ "metadata": { "name": name }, "spec": { "csi": { "driver": "d.test", "volumeHandle": name } } });
        let attachment = json!({
            "metadata": { "name": attachment_name("coming", "d.test", "n") },
            "spec": { "attacher": "d.test", "nodeName": "n", "source": { "persistentVolumeName": "coming" } },
            "status": { "attached": false, "attachError": { "message": "no slot" } },
        });
        let known = Known::new(
            objects(&[
                pod("p1", json!("n"), "none", "False"),
                pod("p2", json!("n"), "pending", "False"),
                pod("p3", json!(null), "bound", "False"),
                pod("p4", json!("n"), "coming", "False"),
                pod("p5", json!("n"), "bound", "False"),
                pod("p6", json!("n"), "bound", "True"),
                pod("p7", json!("n"), "coming", "True"),
            ]),
            objects(&[claim("pending", "Pending"), claim("bound", "Bound"), claim("coming", "Bound")]),
            objects(&[volume("bound"), volume("coming")]),
            objects(&[attachment]),
        );
        let rows = known.rows(Timestamp::UNIX_EPOCH);
        let states: Vec<State> = rows.iter().map(|row| row.state).collect();
        use State::{Attaching, Mounted, Mounting, NoClaim, Unbound, Unscheduled, Unused};
        assert_eq!(states, [NoClaim, Unbound, Unscheduled, Attaching, Mounting, Mounted, Unused]);
        assert_eq!(rows[3].message.as_deref(), Some("no slot"));
        assert_eq!(rows[5].handle.as_deref(), Some("bound"));
    }
}
