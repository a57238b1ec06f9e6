//! Claims whose volumes grow on the node: what their status says once they have grown.
//!
//! ```text
//!  controller: volume is larger, claim waits for the node --> daemon grows the file system
//!      --> the claim has the size; or the size is one that the plugin refuses
//! ```
//!
//! The statuses and conditions are those that a kubelet writes (Kubernetes 1.34,
//! RecoverVolumeExpansionFailure).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolumeClaim};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;
use tonic::Status;
use tracing::{info, warn};
use volhost_api::pb;
use volhost_api::pb::watch_update::{Object, Type};
use volhost_cluster_client::{Events, claims, quantity};
use volhost_objects::Kind;

use crate::daemon::{Daemon, daemon_ends};
use crate::in_use::MANAGER;

/// How long after a failure it is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// A claim whose volume is larger than the claim's status says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClaimGrowth {
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
    /// The PersistentVolume's name.
    volume: String,
    /// The size in bytes that it is to have.
    to: u64,
}

impl ClaimGrowth {
    /// What a claim waits for; none if it does not wait for the node.
    pub(crate) fn of(claim: &DynamicObject) -> Option<Self> {
        let text = |pointer: &str| claim.data.pointer(pointer).and_then(Value::as_str);
        let state = text("/status/allocatedResourceStatuses/storage");
        let conditions = claim.data.pointer("/status/conditions").and_then(Value::as_array);
        let is_pending = conditions.into_iter().flatten().any(|condition| condition["type"] == claims::RESIZE_PENDING);
        let waits = match state {
            Some(state) => matches!(state, "NodeResizePending" | "NodeResizeInProgress"),
            // An older controller writes the condition alone.
            None => is_pending,
        };
        let size = text("/status/allocatedResources/storage").or_else(|| text("/spec/resources/requests/storage"))?;
        let metadata = claim.metadata.clone();
        waits.then_some(Self {
            namespace: metadata.namespace?,
            name: metadata.name?,
            uid: metadata.uid?,
            resource_version: metadata.resource_version?,
            volume: text("/spec/volumeName")?.to_owned(),
            to: volhost_model::quantity::parse_bytes(size).ok()?,
        })
    }

    fn reference(&self) -> ObjectReference {
        let kind = Kind::PersistentVolumeClaim;
        ObjectReference {
            api_version: Some(kind.api_version().to_owned()),
            kind: Some(kind.name().to_owned()),
            namespace: Some(self.namespace.clone()),
            name: Some(self.name.clone()),
            uid: Some(self.uid.clone()),
            ..ObjectReference::default()
        }
    }
}

/// The sizes of a volume here, in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Sizes {
    has: Option<u64>,
    refused: Option<u64>,
}

/// What has become of a claim's wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Grown,
    Refused,
}

fn outcome(claim: &ClaimGrowth, sizes: Sizes) -> Option<Outcome> {
    if sizes.has.is_some_and(|has| has >= claim.to) {
        Some(Outcome::Grown)
    } else {
        (sizes.refused == Some(claim.to)).then_some(Outcome::Refused)
    }
}

/// Writes the status of claims whose volumes have grown here, until the daemon is lost. Volumes are
/// watched only while a claim waits: the daemon lists all of them whenever one changes.
pub(crate) async fn report(
    client: &Client,
    daemon: &Daemon,
    events: &Events,
    mut waiting: watch::Receiver<Vec<ClaimGrowth>>,
) -> Result<(), Status> {
    let mut updates = None;
    // By the names of PersistentVolumes.
    let mut volumes: BTreeMap<String, Sizes> = BTreeMap::new();
    // Versions of claims whose successors have been written, and are not read yet.
    let mut written: BTreeSet<String> = BTreeSet::new();
    loop {
        let claims = waiting.borrow_and_update().clone();
        written.retain(|version| claims.iter().any(|claim| claim.resource_version == *version));
        if claims.is_empty() {
            (updates, volumes) = (None, BTreeMap::new());
            waiting.changed().await.map_err(|_| Status::cancelled("the agent ends"))?;
            continue;
        }
        let updates = match &mut updates {
            Some(updates) => updates,
            None => updates.insert(daemon.watch(pb::Kind::Volumes, 0).await?),
        };
        let mut has_failed = false;
        for claim in claims.iter().filter(|claim| !written.contains(&claim.resource_version)).collect::<Vec<_>>() {
            let sizes = volumes.get(&claim.volume).copied().unwrap_or_default();
            if let Some(outcome) = outcome(claim, sizes) {
                if write(client, events, claim, outcome).await {
                    written.insert(claim.resource_version.clone());
                } else {
                    has_failed = true;
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(AGAIN), if has_failed => {}
            changed = waiting.changed() => changed.map_err(|_| Status::cancelled("the agent ends"))?,
            update = updates.message() => {
                take(&mut volumes, update?.ok_or_else(daemon_ends)?);
            }
        }
    }
}

fn take(volumes: &mut BTreeMap<String, Sizes>, update: pb::WatchUpdate) {
    let is_gone = update.r#type() == Type::Deleted;
    let Some(Object::Volume(volume)) = update.object else { return };
    if volume.claim.is_empty() {
        return;
    }
    if is_gone {
        volumes.remove(&volume.spec_name);
    } else {
        let sizes = Sizes { has: volume.size_bytes, refused: volume.refused_size_bytes };
        volumes.insert(volume.spec_name, sizes);
    }
}

/// Returns whether it was written, or is out of date.
async fn write(client: &Client, events: &Events, claim: &ClaimGrowth, outcome: Outcome) -> bool {
    let status = match outcome {
        Outcome::Grown => claims::grown(claim.to),
        Outcome::Refused => json!({ "allocatedResourceStatuses": { "storage": "NodeResizeInfeasible" } }),
    };
    // Only of the claim as it was read: a later wish is not fulfilled by this.
    let patch = json!({
        "metadata": { "uid": claim.uid, "resourceVersion": claim.resource_version }, "status": status,
    });
    let api = Api::<PersistentVolumeClaim>::namespaced(client.clone(), &claim.namespace);
    let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let (namespace, name, bytes) = (&claim.namespace, &claim.name, claim.to);
    match api.patch_status(name, &parameters, &Patch::Strategic(patch)).await {
        Ok(_) => {
            info!(namespace, name, bytes, ?outcome, "a claim's status says what has become of its growth");
            if outcome == Outcome::Grown {
                let size = quantity::of_bytes(bytes).0;
                let note = format!("the file system of volume {:?} has {size}", claim.volume);
                events.normal(&claim.reference(), "FileSystemResizeSuccessful", &note);
            }
            true
        }
        // Its change leads here again.
        Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => true,
        Err(error) => {
            warn!(namespace, name, bytes, "a claim's status cannot say now that its volume has grown: {error}");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(status: Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": { "namespace": "default", "name": "data", "uid": "u", "resourceVersion": "7" },
            "spec": { "volumeName": "pv", "resources": { "requests": { "storage": "2Gi" } } },
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_claim_waits_for_the_node_only_while_its_status_says_so() {
        let size = |status: Value| ClaimGrowth::of(&claim(status)).map(|growth| growth.to);
        let pending = |state: &str| json!({ "allocatedResources": { "storage": "1Gi" }, "allocatedResourceStatuses": { "storage": state } });
        assert_eq!(size(pending("NodeResizePending")), Some(1 << 30));
        assert_eq!(size(pending("NodeResizeInProgress")), Some(1 << 30));
        assert_eq!(size(pending("NodeResizeInfeasible")), None);
        assert_eq!(size(pending("ControllerResizeInProgress")), None);
        assert_eq!(size(json!({ "conditions": [{ "type": "FileSystemResizePending" }] })), Some(2 << 30));
        assert_eq!(size(json!({ "capacity": { "storage": "2Gi" } })), None);
        assert_eq!(size(json!({ "allocatedResources": { "storage": [] }, "conditions": 3 })), None);
    }

    #[test]
    fn a_claim_has_grown_when_its_volume_has_the_size_here() {
        let status = json!({
            "allocatedResources": { "storage": "100" }, "allocatedResourceStatuses": { "storage": "NodeResizePending" },
        });
        let claim = ClaimGrowth::of(&claim(status)).unwrap();
        let sizes = |has, refused| outcome(&claim, Sizes { has, refused });
        assert_eq!(sizes(None, None), None);
        assert_eq!(sizes(Some(99), Some(120)), None);
        assert_eq!(sizes(Some(100), Some(100)), Some(Outcome::Grown));
        assert_eq!(sizes(Some(99), Some(100)), Some(Outcome::Refused));
    }
}
