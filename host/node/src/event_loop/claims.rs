//! Lists of the claims and PersistentVolumes.
#![deny(clippy::disallowed_methods)]

use std::collections::BTreeMap;

use volhost_model::view::{ClaimView, PersistentVolumeView};
use volhost_provisioner::{ClaimName, Provisioner};

use super::requests::Claims;
use super::sources::Sources;
use volhost_objects::binding::Unbound;
use volhost_objects::{ClaimObject, ObjectKey, ObjectStore, PersistentVolumeObject};

/// Lists the claims and PersistentVolumes. `sizes` are the sizes of PersistentVolumes on this node.
pub(super) fn claims(sources: &Sources, machine: Option<&Provisioner>, sizes: BTreeMap<String, u64>) -> Claims {
    let store = sources.store();
    let views = ClaimViews { store, machine, sizes };
    Claims {
        claims: store.claims().map(|(key, claim)| views.claim(key, claim)).collect(),
        volumes: store.persistent_volumes().map(|(volume, claim)| views.persistent_volume(volume, claim)).collect(),
    }
}

struct ClaimViews<'a> {
    store: &'a ObjectStore,
    machine: Option<&'a Provisioner>,
    sizes: BTreeMap<String, u64>,
}

impl ClaimViews<'_> {
    fn claim(&self, key: &ObjectKey, claim: &ClaimObject) -> ClaimView {
        let store = self.store;
        let view = ClaimView {
            namespace: claim.namespace.clone(),
            name: claim.name.clone(),
            requested: claim.request,
            access_modes: claim.access_modes.clone(),
            storage_class: claim.storage_class.clone(),
            labels: claim.labels.clone(),
            ..ClaimView::default()
        };
        match store.volume_of_claim(key) {
            Some(Ok(volume)) => {
                let name =
                    ClaimName { namespace: claim.namespace.clone(), name: claim.name.clone(), uid: claim.uid.clone() };
                let progress = self.machine.and_then(|machine| machine.progress(&name));
                let mut problem = progress.and_then(|(_, problem)| problem).unwrap_or_default().to_owned();
                // As in Kubernetes, a claim has the larger size once its file system has grown on
                // the node.
                let capacity = volume.capacity.unwrap_or_default();
                let on_node = self.sizes.get(volume.name.as_str()).copied().or(claim.capacity);
                let on_node = on_node.filter(|bytes| *bytes < capacity);
                if on_node.is_some() && problem.is_empty() {
                    problem = format!(
                        "FileSystemResizePending: the volume has not grown to {capacity} bytes on this node yet"
                    );
                }
                ClaimView {
                    phase: "Bound".to_owned(),
                    volume: volume.name.to_string(),
                    capacity: on_node.unwrap_or(capacity),
                    storage_class: volume.storage_class.clone(),
                    reason: problem,
                    ..view
                }
            }
            Some(Err(unbound @ Unbound::MissingVolume(_))) => {
                ClaimView { phase: "Lost".to_owned(), reason: unbound.to_string(), ..view }
            }
            Some(Err(unbound)) => {
                let reason = store.note_of(key).map_or_else(|| unbound.to_string(), str::to_owned);
                ClaimView { phase: "Pending".to_owned(), reason, ..view }
            }
            None => ClaimView { phase: "Pending".to_owned(), ..view },
        }
    }

    fn persistent_volume(&self, volume: &PersistentVolumeObject, claim: Option<&ObjectKey>) -> PersistentVolumeView {
        let machine = self.machine;
        let record = machine.and_then(|machine| machine.records().find(|one| one.name == volume.name.as_str()));
        let kept_for = || volume.claim.as_ref().map(|claim| format!("{}/{}", claim.namespace, claim.name));
        let phase = match claim {
            Some(_) => "Bound",
            // It is retained for a claim that is missing.
            None if record.is_some() && volume.available => "Bound",
            None if !volume.available || volume.provisioned => "Released",
            None => "Available",
        };
        PersistentVolumeView {
            name: volume.name.to_string(),
            phase: phase.to_owned(),
            claim: claim.map(ObjectKey::full_name).or_else(kept_for).unwrap_or_default(),
            capacity: volume.capacity.unwrap_or_default(),
            access_modes: volume.access_modes.clone(),
            storage_class: volume.storage_class.clone(),
            reclaim_policy: volume.reclaim_policy.to_owned(),
            provisioner: record.map(|record| record.terms.provisioner.clone()).unwrap_or_default(),
            reason: machine.and_then(|machine| machine.problem(volume.name.as_str())).unwrap_or_default().to_owned(),
            labels: volume.labels.clone(),
        }
    }
}
