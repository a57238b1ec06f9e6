//! Which objects are to be worked on after a change of one.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::VolumeAttachment;

use crate::caches::{Caches, Handlers};
use crate::capacity::{Place, reachable_from};
use crate::data_source;
use crate::group::{GROUP_BEING_CREATED, group_of};
use crate::key::ObjectKey;
use crate::metrics::QueueCounts;
use crate::queue::WorkQueue;
use crate::snapshot::{BEING_CREATED, content_name, snapshot_of};
use crate::snapshots::{
    GroupHandlers, SnapshotHandlers, VolumeGroupSnapshot, VolumeGroupSnapshotContent, VolumeSnapshot,
    VolumeSnapshotContent,
};

/// What is still to be done, by kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queues {
    /// Claims that may need a volume.
    pub(crate) claims: Arc<WorkQueue<ObjectKey>>,
    /// Volumes that may end.
    pub(crate) volumes: Arc<WorkQueue<String>>,
    /// Attachments.
    pub(crate) attachments: Arc<WorkQueue<String>>,
    /// Claims whose volumes may have to change.
    pub(crate) changes: Arc<WorkQueue<ObjectKey>>,
    /// Snapshots.
    pub(crate) snapshots: Arc<WorkQueue<ObjectKey>>,
    /// The contents of snapshots.
    pub(crate) contents: Arc<WorkQueue<String>>,
    /// Groups of snapshots.
    pub(crate) groups: Arc<WorkQueue<ObjectKey>>,
    /// The contents of groups.
    pub(crate) group_contents: Arc<WorkQueue<String>>,
    /// The CSIDriver object, by its name.
    pub(crate) driver_object: Arc<WorkQueue<String>>,
    /// Where capacity may have changed.
    pub(crate) capacities: Arc<WorkQueue<Place>>,
    /// Notified when there may be other places.
    pub(crate) places: Arc<Notify>,
}

impl Queues {
    /// Counts the objects, by the names of the queues.
    pub(crate) fn counts(&self) -> [(&'static str, QueueCounts); 10] {
        [
            ("claims", self.claims.counts()),
            ("volumes", self.volumes.counts()),
            ("attachments", self.attachments.counts()),
            ("changes", self.changes.counts()),
            ("snapshots", self.snapshots.counts()),
            ("snapshot-contents", self.contents.counts()),
            ("groups", self.groups.counts()),
            ("group-contents", self.group_contents.counts()),
            ("driver-object", self.driver_object.counts()),
            ("capacities", self.capacities.counts()),
        ]
    }
}

/// Returns what is called with changes. `known`: the caches, before any work begins.
pub(crate) fn handlers(queues: &Queues, known: &Arc<OnceLock<Caches>>, driver: &str) -> Handlers {
    let (claims, volumes, attachments) = (queues.clone(), queues.clone(), queues.clone());
    let (snapshots, contents, classes) = (queues.clone(), queues.clone(), queues.clone());
    let (driver_object, driver) = (queues.clone(), driver.to_owned());
    let (of_claims, of_snapshots) = (Arc::clone(known), Arc::clone(known));
    Handlers {
        claims: Box::new(move |claim, is_gone| claim_changed(&claims, of_claims.get(), claim, is_gone)),
        volumes: Box::new(move |volume, is_gone| volume_changed(&volumes, &driver, volume, is_gone)),
        attachments: Box::new(move |attachment, is_gone| attachment_changed(&attachments, attachment, is_gone)),
        driver_object: Box::new(move |object, is_gone| {
            let name = object.metadata.name.clone().unwrap_or_default();
            driver_object.places.notify_one();
            // One that is gone is made again.
            let wanted = fingerprint(&(&object.spec, &object.metadata.labels, is_gone));
            driver_object.driver_object.changed(name, wanted);
        }),
        places: Arc::clone(&queues.places),
        groups: group_handlers(queues),
        snapshots: SnapshotHandlers {
            snapshots: Arc::new(move |snapshot, is_gone| {
                snapshot_changed(&snapshots, of_snapshots.get(), snapshot, is_gone);
            }),
            contents: Arc::new(move |content, is_gone| content_changed(&contents, content, is_gone)),
            // Objects that failed may have waited for the class.
            classes: Arc::new(move |_, _| {
                classes.snapshots.retry_failed(|_| true);
                classes.contents.retry_failed(|_| true);
            }),
        },
    }
}

fn group_handlers(queues: &Queues) -> GroupHandlers {
    let (groups, contents, classes) = (queues.clone(), queues.clone(), queues.clone());
    GroupHandlers {
        groups: Arc::new(move |group, is_gone| group_changed(&groups, group, is_gone)),
        contents: Arc::new(move |content, is_gone| group_content_changed(&contents, content, is_gone)),
        // Objects that failed may have waited for the class; a group is left alone while its class is
        // not known.
        classes: Arc::new(move |_, _| {
            classes.groups.retry_failed(|_| true);
            classes.groups.add_known(|_| true);
            classes.group_contents.retry_failed(|_| true);
        }),
    }
}

fn group_changed(queues: &Queues, group: &VolumeGroupSnapshot, is_gone: bool) {
    let key = ObjectKey::of(group);
    if is_gone {
        // Its content may have waited for its end.
        queues.group_contents.retry_failed(|_| true);
        queues.groups.gone(key);
        return;
    }
    queues.groups.changed(key, fingerprint(&(&group.spec, &group.metadata.deletion_timestamp)));
}

fn group_content_changed(queues: &Queues, content: &VolumeGroupSnapshotContent, is_gone: bool) {
    let Some(name) = content.metadata.name.clone() else { return };
    match group_of(content) {
        Some(group) if group.uid().is_empty() => queues
            .groups
            .retry_failed(|waiting| waiting.namespace() == group.namespace() && waiting.name() == group.name()),
        Some(group) => queues.groups.retry(&group),
        None => {}
    }
    if is_gone {
        queues.group_contents.gone(name);
        return;
    }
    // That of an attempt is this program's own, and changes with each.
    let annotations = content.metadata.annotations.iter().flatten().filter(|(key, _)| *key != GROUP_BEING_CREATED);
    let annotations: Vec<_> = annotations.collect();
    queues
        .group_contents
        .changed(name, fingerprint(&(&content.spec, annotations, &content.metadata.deletion_timestamp)));
}

fn claim_changed(queues: &Queues, known: Option<&Caches>, claim: &PersistentVolumeClaim, is_gone: bool) {
    let key = ObjectKey::of(claim);
    if let Some(source) = data_source::claim_name(claim) {
        // It may be free of its finalizer now.
        queues.claims.add_known(|known| known.namespace() == key.namespace() && known.name() == source);
    }
    let restored = data_source::snapshot_name(claim);
    queues.snapshots.retry_failed(|snapshot| {
        let is_of = || {
            let found = known?.snapshots()?.snapshot(snapshot.namespace(), snapshot.name())?;
            Some(found.claim() == Some(key.name()))
        };
        // It may be taken now, or may go now.
        snapshot.namespace() == key.namespace() && (restored == Some(snapshot.name()) || is_of() == Some(true))
    });
    if is_gone {
        queues.changes.gone(key.clone());
        // Its volume may have been begun.
        queues.claims.gone(key);
        return;
    }
    let wanted = fingerprint(&(&claim.spec, &claim.metadata.annotations, &claim.metadata.deletion_timestamp));
    queues.claims.changed(key.clone(), wanted);
    queues.changes.changed(key, fingerprint(&claim.spec));
}

fn volume_changed(queues: &Queues, driver: &str, volume: &PersistentVolume, is_gone: bool) {
    let Some(name) = volume.metadata.name.clone() else { return };
    let csi = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    let is_new = matches!(phase, None | Some("" | "Pending" | "Available"));
    if csi.is_some_and(|csi| csi.driver == driver) && (is_new || is_gone) {
        // It has taken room, or given it back.
        let reachable = reachable_from(volume);
        queues.capacities.add_known(|place| place.has(&reachable));
    }
    if is_gone {
        queues.volumes.gone(name);
        return;
    }
    let wanted = fingerprint(&(&volume.spec, phase, &volume.metadata.deletion_timestamp));
    queues.volumes.changed(name, wanted);
}

fn attachment_changed(queues: &Queues, attachment: &VolumeAttachment, is_gone: bool) {
    let Some(name) = attachment.metadata.name.clone() else { return };
    if is_gone {
        queues.attachments.gone(name);
        // Its volume may be deleted now.
        if let Some(volume) = attachment.spec.source.persistent_volume_name.clone() {
            queues.volumes.retry(&volume);
        }
        return;
    }
    queues.attachments.changed(name, fingerprint(&attachment.metadata.deletion_timestamp));
}

fn snapshot_changed(queues: &Queues, known: Option<&Caches>, snapshot: &VolumeSnapshot, is_gone: bool) {
    let key = ObjectKey::of(snapshot);
    let owners = snapshot.metadata.owner_references.iter().flatten();
    for group in owners.filter(|owner| owner.kind == "VolumeGroupSnapshot") {
        // It makes what is missing, and goes after its snapshots.
        queues.groups.retry(&ObjectKey::new(Some(key.namespace()), Some(&group.name), Some(&group.uid)));
    }
    if is_gone {
        // It may have waited for its snapshot's end.
        queues.contents.retry(&content_name(snapshot));
        queues.snapshots.gone(key);
        return;
    }
    if snapshot.is_ready() {
        // Claims may be restored now.
        queues.claims.retry_failed(|claim| {
            let is_of = || {
                let found = known?.claim(claim.namespace(), claim.name())?;
                Some(data_source::snapshot_name(&found) == Some(key.name()))
            };
            claim.namespace() == key.namespace() && is_of() == Some(true)
        });
    }
    let wanted = fingerprint(&(&snapshot.spec, &snapshot.metadata.deletion_timestamp));
    queues.snapshots.changed(key, wanted);
}

fn content_changed(queues: &Queues, content: &VolumeSnapshotContent, is_gone: bool) {
    let Some(name) = content.metadata.name.clone() else { return };
    match snapshot_of(content) {
        Some(snapshot) if snapshot.uid().is_empty() => queues
            .snapshots
            .retry_failed(|waiting| waiting.namespace() == snapshot.namespace() && waiting.name() == snapshot.name()),
        Some(snapshot) => queues.snapshots.retry(&snapshot),
        None => {}
    }
    if is_gone {
        queues.contents.gone(name);
        return;
    }
    // That of an attempt is this program's own, and changes with each.
    let annotations = content.metadata.annotations.iter().flatten().filter(|(key, _)| *key != BEING_CREATED);
    let annotations: Vec<_> = annotations.collect();
    let wanted = fingerprint(&(&content.spec, annotations, &content.metadata.deletion_timestamp));
    queues.contents.changed(name, wanted);
}

/// A number that differs when what it covers does.
fn fingerprint(wanted: &impl serde::Serialize) -> u64 {
    let mut hasher = DefaultHasher::new();
    serde_json::to_vec(wanted).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use serde_json::{from_value, json};
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// Watches of two kinds show their changes in no order.
    #[tokio::test]
    async fn a_group_that_is_seen_before_its_class_is_looked_at_again() {
        let queues = Queues::default();
        let handlers = handlers(&queues, &Arc::default(), "ours").groups;
        let stop = CancellationToken::new();
        let worked_on = tokio::spawn(Arc::clone(&queues.groups).run(1, stop.clone(), |_| ready(true)));
        let attempts = async |count| {
            while queues.groups.counts().attempts < count {
                tokio::task::yield_now().await;
            }
        };
        let group = json!({ "metadata": { "name": "g", "namespace": "n", "uid": "u" }, "spec": { "source": {} } });
        (handlers.groups)(&from_value(group).unwrap(), false);
        attempts(1).await;
        let class = json!({ "metadata": { "name": "c" }, "driver": "ours", "deletionPolicy": "Delete" });
        (handlers.classes)(&from_value(class).unwrap(), false);
        attempts(2).await;
        stop.cancel();
        worked_on.await.unwrap();
    }
}
