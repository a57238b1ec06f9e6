//! All objects of all sources, and who depends on whom.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thiserror::Error;
use volhost_model::PodUid;

use super::binding::{Bindings, Unbound};
use super::claim::ClaimObject;
use super::key::{Kind, ObjectKey};
use super::migrated;
use super::object::{Object, ObjectContent};
use super::persistent_volume::PersistentVolumeObject;
use super::pod::PodObject;
use super::pod_volume::PodVolume;
use super::references;
use super::retained_bindings::RetainedBindings;
use super::storage_class::StorageClassObject;
use super::volume_attachment::VolumeAttachmentObject;

/// Where objects come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectSource {
    /// The manifest folder; the object's [`Origin`](super::Origin) says which file.
    Manifest,
    /// A request on the socket.
    Api,
    /// The host itself: volumes that it had made for claims.
    Host,
}

/// Why an object was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Conflict {
    /// The other source has an object of this name.
    #[error("{origin}: {key} is known from {holder} already; that one counts. Remove one of them")]
    Key {
        /// Where the refused one was read.
        origin: String,
        /// The object.
        key: String,
        /// Where the one that counts was read.
        holder: String,
    },
    /// Another pod has its uid.
    #[error("{origin}: {key} has the uid of {other} at {holder}; give each pod a uid of its own, or none")]
    Uid {
        /// Where the refused one was read.
        origin: String,
        /// The object.
        key: String,
        /// The pod that has the uid.
        other: String,
        /// Where that was read.
        holder: String,
    },
}

/// The effects of a change of objects on pods.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct StoreEffects {
    /// Pods that are gone: deleted, or made again under another uid.
    pub gone: Vec<PodUid>,
    /// Pods to resolve again: new, changed, or with a claim or PersistentVolume that changed.
    pub resolve: BTreeSet<ObjectKey>,
    /// Pods whose volumes' content may have changed: their config maps, secrets or own fields did.
    pub source_changed: BTreeSet<ObjectKey>,
    /// Controllers' reports of attachments are to be resolved again.
    pub attachments_changed: bool,
    /// Objects that were not taken. Those of the manifest folder wait until the name or uid is
    /// free.
    pub conflicts: Vec<Conflict>,
}

#[derive(Debug, Clone)]
struct StoreEntry {
    source: ObjectSource,
    object: Arc<Object>,
}

/// All objects, by key. Of several objects with one key, one counts.
#[derive(Debug, Clone, Default)]
pub struct ObjectStore {
    entries: BTreeMap<ObjectKey, StoreEntry>,
    /// Objects of the manifest folder whose key or uid another object has.
    waiting: BTreeMap<ObjectKey, Arc<Object>>,
    uids: BTreeMap<String, ObjectKey>,
    /// Which pods refer to an object.
    users: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// Which PersistentVolumes refer to a secret.
    secret_users: BTreeMap<ObjectKey, BTreeSet<String>>,
    bindings: Bindings,
    /// Why no volume is made for a claim, or has not been yet.
    notes: BTreeMap<ObjectKey, String>,
}

impl ObjectStore {
    /// A store without objects.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The object of this key.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.entries.get(key).map(|entry| &entry.object)
    }

    /// Where the object of this key comes from.
    pub fn source(&self, key: &ObjectKey) -> Option<ObjectSource> {
        self.entries.get(key).map(|entry| entry.source)
    }

    /// The objects that come from this source.
    pub fn keys_of(&self, source: ObjectSource) -> impl Iterator<Item = &ObjectKey> {
        self.entries.iter().filter(move |(_, entry)| entry.source == source).map(|(key, _)| key)
    }

    /// The pod of this key.
    pub fn pod(&self, key: &ObjectKey) -> Option<&Arc<PodObject>> {
        self.get(key).and_then(|object| object.pod())
    }

    /// The key of the pod with this uid.
    pub fn pod_with_uid(&self, uid: &str) -> Option<&ObjectKey> {
        self.uids.get(uid)
    }

    /// Every pod, by namespace and name.
    pub fn pods(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<PodObject>)> {
        self.entries.iter().filter_map(|(key, entry)| entry.object.pod().map(|pod| (key, pod)))
    }

    /// Every VolumeAttachment, by name.
    pub fn volume_attachments(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<VolumeAttachmentObject>)> {
        let first = ObjectKey::new(Kind::VolumeAttachment, "", "");
        let of_kind = self.entries.range(first..).take_while(|(key, _)| key.kind == Kind::VolumeAttachment);
        of_kind.filter_map(|(key, entry)| match &entry.object.content {
            ObjectContent::VolumeAttachment(attachment) => Some((key, attachment)),
            _ => None,
        })
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (&ObjectKey, &Arc<Object>)> {
        let first = ObjectKey { kind, namespace: String::new(), name: String::new() };
        let of_kind = self.entries.range(first..).take_while(move |(key, _)| key.kind == kind);
        of_kind.map(|(key, entry)| (key, &entry.object))
    }

    /// Every claim, by namespace and name.
    pub fn claims(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<ClaimObject>)> {
        self.of_kind(Kind::PersistentVolumeClaim).filter_map(|(key, object)| match &object.content {
            ObjectContent::Claim(claim) => Some((key, claim)),
            _ => None,
        })
    }

    /// Every PersistentVolume, by name, and the claim that is bound to it.
    pub fn persistent_volumes(&self) -> impl Iterator<Item = (&Arc<PersistentVolumeObject>, Option<&ObjectKey>)> {
        self.of_kind(Kind::PersistentVolume).filter_map(|(key, object)| match &object.content {
            ObjectContent::PersistentVolume(volume) => Some((volume, self.bindings.of_volume(&key.name))),
            _ => None,
        })
    }

    /// Every StorageClass, by name.
    pub fn storage_classes(&self) -> impl Iterator<Item = &StorageClassObject> {
        self.of_kind(Kind::StorageClass).filter_map(|(_, object)| match &object.content {
            ObjectContent::StorageClass(class) => Some(class.as_ref()),
            _ => None,
        })
    }

    /// The pods that refer to this object.
    pub fn users_of(&self, key: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        self.users.get(key).into_iter().flatten()
    }

    /// Returns why no volume is made for this claim, or has not been made yet.
    pub fn note_of(&self, claim: &ObjectKey) -> Option<&str> {
        self.notes.get(claim).map(String::as_str)
    }

    /// Notes why claims have no volume made. Returns the claims whose note has changed.
    pub fn set_notes(&mut self, notes: BTreeMap<ObjectKey, String>) -> Vec<ObjectKey> {
        let before = std::mem::replace(&mut self.notes, notes);
        let keys: BTreeSet<&ObjectKey> = before.keys().chain(self.notes.keys()).collect();
        keys.into_iter().filter(|key| before.get(*key) != self.notes.get(*key)).cloned().collect()
    }

    /// The PersistentVolume of this name, and the claim that is bound to it.
    pub fn persistent_volume(&self, name: &str) -> Option<(&Arc<PersistentVolumeObject>, Option<ObjectKey>)> {
        match &self.get(&ObjectKey::persistent_volume(name))?.content {
            ObjectContent::PersistentVolume(volume) => Some((volume, self.bindings.of_volume(name).cloned())),
            _ => None,
        }
    }

    /// The claim's PersistentVolume.
    ///
    /// # Errors
    /// Why it has none. A claim that is not known at all gives `None` for the whole.
    pub fn volume_of_claim(&self, claim: &ObjectKey) -> Option<Result<&Arc<PersistentVolumeObject>, &Unbound>> {
        match self.bindings.of_claim(claim)? {
            Ok(name) => match &self.get(&ObjectKey::persistent_volume(name.as_str()))?.content {
                ObjectContent::PersistentVolume(volume) => Some(Ok(volume)),
                _ => None,
            },
            Err(unbound) => Some(Err(unbound)),
        }
    }

    /// The bindings that could not be decided again from the objects alone.
    pub fn retained_bindings(&self) -> &RetainedBindings {
        self.bindings.retained()
    }

    /// Restores the bindings of an earlier run. Called before objects are applied.
    pub fn restore_bindings(&mut self, retained: RetainedBindings) {
        self.bindings.restore(retained);
    }

    /// Whether the object could be taken from this source now; for requests that are all or
    /// nothing.
    ///
    /// # Errors
    /// The [`Conflict`] that [`ObjectStore::apply`] would report.
    pub fn check(&self, source: ObjectSource, object: &Object) -> Result<(), Conflict> {
        let (origin, key) = (object.origin.to_string(), object.key.to_string());
        if let Some(entry) = self.entries.get(&object.key).filter(|entry| entry.source != source) {
            return Err(Conflict::Key { origin, key, holder: entry.object.origin.to_string() });
        }
        match self.uids.get(&object.uid).filter(|other| **other != object.key) {
            Some(other) if object.pod().is_some() => {
                let holder = self.get(other).map(|other| other.origin.to_string()).unwrap_or_default();
                Err(Conflict::Uid { origin, key, other: other.to_string(), holder })
            }
            _ => Ok(()),
        }
    }

    /// Takes in what a source says has changed, and says what that means for pods. An object is
    /// only removed by the source that has it.
    pub fn apply(
        &mut self,
        source: ObjectSource,
        upserted: Vec<Arc<Object>>,
        removed: impl IntoIterator<Item = ObjectKey>,
    ) -> StoreEffects {
        let mut applied = StoreEffects::default();
        let mut touched = BTreeSet::new();
        for key in removed {
            if source == ObjectSource::Manifest {
                self.waiting.remove(&key);
            }
            if self.source(&key) == Some(source) {
                self.take_out(&key, &mut applied);
                touched.insert(key);
            }
        }
        for object in upserted {
            if source == ObjectSource::Manifest {
                self.waiting.remove(&object.key);
            }
            match self.check(source, &object) {
                Ok(()) => {
                    touched.insert(object.key.clone());
                    self.put_in(source, object, &mut applied);
                }
                Err(conflict) => {
                    applied.conflicts.push(conflict);
                    if source == ObjectSource::Manifest {
                        // The file no longer has the object that it replaces, but its deletion was
                        // not stated: it stays (rule R2).
                        self.waiting.insert(object.key.clone(), object);
                    }
                }
            }
        }
        let free: Vec<_> = self
            .waiting
            .values()
            .filter(|object| self.check(ObjectSource::Manifest, object).is_ok())
            .cloned()
            .collect();
        for object in free {
            if self.check(ObjectSource::Manifest, &object).is_ok() {
                self.waiting.remove(&object.key);
                touched.insert(object.key.clone());
                self.put_in(ObjectSource::Manifest, object, &mut applied);
            }
        }
        self.follow(&touched, &mut applied);
        // A pod whose uid is back under another key is not gone.
        applied.gone.retain(|uid| !self.uids.contains_key(uid.as_str()));
        applied.gone.sort();
        applied.gone.dedup();
        applied
    }

    fn take_out(&mut self, key: &ObjectKey, applied: &mut StoreEffects) {
        let Some(entry) = self.entries.remove(key) else { return };
        self.forget_references(&entry.object);
        if let Some(pod) = entry.object.pod() {
            applied.gone.push(pod.pod.uid.clone());
        }
    }

    fn put_in(&mut self, source: ObjectSource, object: Arc<Object>, applied: &mut StoreEffects) {
        let key = object.key.clone();
        let before = self.entries.remove(&key);
        if let Some(before) = &before {
            self.forget_references(&before.object);
        }
        match &object.content {
            ObjectContent::Pod(pod) => {
                match before.as_ref().and_then(|before| before.object.pod()) {
                    Some(old) if old.pod.uid != pod.pod.uid => applied.gone.push(old.pod.uid.clone()),
                    Some(_) => {
                        applied.source_changed.insert(key.clone());
                    }
                    None => {}
                }
                self.uids.insert(object.uid.clone(), key.clone());
                for referred in references::of_pod(pod) {
                    self.users.entry(referred).or_default().insert(key.clone());
                }
            }
            ObjectContent::PersistentVolume(volume) => {
                for secret in references::of_persistent_volume(volume) {
                    self.secret_users.entry(secret).or_default().insert(key.name.clone());
                }
            }
            _ => {}
        }
        self.entries.insert(key, StoreEntry { source, object });
    }

    fn forget_references(&mut self, object: &Object) {
        match &object.content {
            ObjectContent::Pod(pod) => {
                if self.uids.get(&object.uid) == Some(&object.key) {
                    self.uids.remove(&object.uid);
                }
                for referred in references::of_pod(pod) {
                    drop_user(&mut self.users, &referred, &object.key);
                }
            }
            ObjectContent::PersistentVolume(volume) => {
                for secret in references::of_persistent_volume(volume) {
                    drop_user(&mut self.secret_users, &secret, &object.key.name);
                }
            }
            _ => {}
        }
    }

    /// Decides bindings anew if that may matter, and finds the pods that depend on what was
    /// touched.
    fn follow(&mut self, touched: &BTreeSet<ObjectKey>, applied: &mut StoreEffects) {
        let mut claims = BTreeSet::new();
        if touched.iter().any(|key| matches!(key.kind, Kind::PersistentVolume | Kind::PersistentVolumeClaim)) {
            let next = self.decide_bindings();
            let before = std::mem::replace(&mut self.bindings, next);
            for (claim, decided) in self.bindings.claims().chain(before.claims()) {
                if before.of_claim(claim) != self.bindings.of_claim(claim)
                    || decided
                        .as_ref()
                        .is_ok_and(|volume| touched.contains(&ObjectKey::persistent_volume(volume.as_str())))
                {
                    claims.insert(claim.clone());
                }
            }
        }
        applied.attachments_changed = touched.iter().any(|key| {
            matches!(key.kind, Kind::VolumeAttachment | Kind::PersistentVolume | Kind::PersistentVolumeClaim)
        });
        let users = |key: &ObjectKey| self.users.get(key).into_iter().flatten().cloned();
        for key in touched {
            match key.kind {
                Kind::Pod if self.entries.contains_key(key) => {
                    applied.resolve.insert(key.clone());
                }
                Kind::Pod
                | Kind::PersistentVolume
                | Kind::ServiceAccount
                | Kind::VolumeAttachment
                | Kind::StorageClass
                | Kind::VolumeSnapshot
                | Kind::VolumeSnapshotContent => {}
                Kind::PersistentVolumeClaim => applied.resolve.extend(users(key)),
                // Its volumes may be attached where they were not, or mounted differently.
                Kind::CsiDriver => {
                    let pods = self.pods().filter(|(_, pod)| pod.volumes.iter().any(may_be_csi));
                    let pods: Vec<ObjectKey> = pods.map(|(key, _)| key.clone()).collect();
                    applied.resolve.extend(pods.iter().cloned());
                    applied.source_changed.extend(pods);
                }
                Kind::ConfigMap => applied.source_changed.extend(users(key)),
                // A pod can take bundles by signer and labels: all that take any may be concerned.
                Kind::ClusterTrustBundle => applied.source_changed.extend(users(&references::any_trust_bundle())),
                Kind::Secret => {
                    applied.source_changed.extend(users(key));
                    let volumes = self.secret_users.get(key).into_iter().flatten();
                    applied
                        .source_changed
                        .extend(volumes.filter_map(|volume| self.bindings.of_volume(volume)).flat_map(users));
                }
            }
        }
        applied.resolve.extend(claims.iter().flat_map(users));
    }

    fn decide_bindings(&self) -> Bindings {
        let of_kind = |kind| self.entries.values().filter(move |entry| entry.object.key.kind == kind);
        let claims: Vec<_> = of_kind(Kind::PersistentVolumeClaim)
            .filter_map(
                |entry| if let ObjectContent::Claim(claim) = &entry.object.content { Some(claim) } else { None },
            )
            .collect();
        let volumes = of_kind(Kind::PersistentVolume)
            .filter_map(|entry| {
                if let ObjectContent::PersistentVolume(volume) = &entry.object.content {
                    Some((volume.name.as_str(), volume))
                } else {
                    None
                }
            })
            .collect();
        self.bindings.decide(&claims, &volumes)
    }
}

/// Whether a CSI driver may be behind the volume: it names one itself, or has a claim.
fn may_be_csi(volume: &PodVolume) -> bool {
    let named = ["csi", references::CLAIM_SOURCE, references::EPHEMERAL_SOURCE];
    volume.source.all().iter().any(|(field, _)| named.contains(field) || migrated::is_migrated(field))
}

fn drop_user<U: Ord>(users: &mut BTreeMap<ObjectKey, BTreeSet<U>>, referred: &ObjectKey, user: &U) {
    if let Some(all) = users.get_mut(referred) {
        all.remove(user);
        if all.is_empty() {
            users.remove(referred);
        }
    }
}
