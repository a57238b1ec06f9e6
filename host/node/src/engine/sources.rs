//! The objects of all sources, and what their changes mean for the world.
//!
//! Objects that were added by request are kept in files (`kept.rs`), so that a restart does not take their pods for gone.
#![deny(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use volhost_core::{Attaching, DesiredPod};
use volhost_model::names::{PluginName, PodUid};
use volhost_model::view::EventKind;

use super::kept::{DamagedPod, FileChange, Kept, KeptFiles};
use super::manifest_text::{Objects, REQUEST};
use super::requests::{AddedPod, RequestError};
use volhost_objects::payload::SharedObjects;
use volhost_objects::populate::attachments::{AttachmentReport, attachments_of};
use volhost_objects::populate::{
    NodeIdentity, PodStanding, SelinuxCensus, asks_for_labels, resolve, selinux_census, standing,
};
use volhost_objects::{Applied, Changes, HeldBindings, Kind, Object, ObjectKey, ObjectStore, Source};
use volhost_plugin_folder::{PluginRegistry, QuestionKey};
use volhost_volume_ops::volume_ops::VolumeOps;

/// The event that tells what volhost does not use of a manifest.
pub(super) const IGNORED: &str = "IgnoredInManifest";

/// What a change of objects means for the world.
#[derive(Debug, Default)]
pub struct Effects {
    /// Pods that are known to be gone.
    pub gone: Vec<PodUid>,
    /// Pods that exist and are not to run here, or not any more: they have finished, or are another
    /// node's.
    pub not_here: Vec<PodUid>,
    /// Pods as they are wanted now.
    pub desired: Vec<DesiredPod>,
    /// Pods whose volumes' content may have changed.
    pub source_changed: Vec<PodUid>,
    /// What VolumeAttachments say now, if that may have changed.
    pub attachments: Option<AttachmentReport>,
    /// Pods that exist and of which no more is known, and why. Nothing of them is unmounted.
    pub unreadable: Vec<(PodUid, String)>,
    /// What users are told: kind, reason, object, message.
    pub notices: Vec<(EventKind, &'static str, String, String)>,
}

impl Effects {
    /// Takes the pods of which nothing is wanted any more: those that are gone, and of those that are
    /// not to run here the ones that the world `knows`. Every resolution names the latter, and of one
    /// that the world does not know there is nothing to undo.
    pub(super) fn take_unwanted(&mut self, knows: impl Fn(&PodUid) -> bool) -> Vec<PodUid> {
        let mut unwanted = std::mem::take(&mut self.gone);
        unwanted.extend(std::mem::take(&mut self.not_here).into_iter().filter(knows));
        unwanted
    }
}

/// The objects of all sources.
#[derive(Debug)]
pub struct Sources {
    store: ObjectStore,
    /// What operations read of it.
    shared: Arc<SharedObjects>,
    node: NodeIdentity,
    catalog: Arc<PluginRegistry>,
    files: KeptFiles,
    /// Every manifest was read once.
    complete: bool,
    /// Who attaches volumes.
    attaching: Attaching,
    /// It was told that labels are asked for, and that this node has none.
    told_of_labels: bool,
    /// Pods that were told to be another node's, so that it is said once.
    elsewhere: BTreeSet<ObjectKey>,
    /// Pods that were added by request and whose objects cannot be read.
    damaged: BTreeMap<PodUid, DamagedPod>,
    /// What was added by request cannot be read, and may hold pods of which not even the uid is known.
    may_miss_pods: bool,
    /// What was added by request cannot be read, and may hold claims of which nothing is known.
    may_miss_claims: bool,
    /// Pods were added by request before the machine restarted, and their client has not said yet which it still has.
    awaits_clients: bool,
    /// The mark is on disk that pods were added by request.
    is_marked: bool,
    /// The bindings that are on disk, or are being written.
    kept_bindings: HeldBindings,
    /// A manifest was there, since the start.
    has_seen_manifests: bool,
    /// A manifest that nobody could read yet may hold anything.
    has_unread_manifests: bool,
    /// The files that have never been read without error.
    unread_manifests: Vec<String>,
    /// Who is to be resolved again when a plugin has answered what a volume is.
    waiting: HashMap<QuestionKey, BTreeSet<Waiting>>,
}

/// What waits for the answer of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Waiting {
    /// A pod's volumes.
    Pod(ObjectKey),
    /// What VolumeAttachments say.
    Attachments,
}

impl Sources {
    /// Sources that have said nothing yet.
    pub fn new(
        volume_ops: &VolumeOps,
        catalog: Arc<PluginRegistry>,
        node: NodeIdentity,
        shared: Arc<SharedObjects>,
        attaching: Attaching,
    ) -> Self {
        let (store, elsewhere) = (ObjectStore::new(), BTreeSet::new());
        let files = KeptFiles::new(volume_ops, false);
        Self {
            store,
            shared,
            node,
            catalog,
            files,
            complete: false,
            attaching,
            told_of_labels: false,
            elsewhere,
            damaged: BTreeMap::new(),
            may_miss_pods: false,
            may_miss_claims: false,
            awaits_clients: false,
            is_marked: false,
            kept_bindings: HeldBindings::default(),
            has_seen_manifests: false,
            waiting: HashMap::new(),
            has_unread_manifests: false,
            unread_manifests: Vec::new(),
        }
    }

    /// Whether this claim, which is not known, may be in what cannot be read: a manifest, or an object that was added by request
    /// (rule R2).
    pub fn may_miss_claim(&self, claim: &ObjectKey) -> bool {
        self.may_miss_claims || self.has_unread_manifests || self.shared.is_lost(claim)
    }

    /// The manifest files that have never been read without error, or the folder; empty before the first
    /// reading.
    pub fn unread_manifests(&self) -> &[String] {
        &self.unread_manifests
    }

    /// Whether any manifest was there since the start. Without one, nothing tells that what stood in one is gone: the folder's mount may be
    /// missing (rule R2).
    pub fn has_seen_manifests(&self) -> bool {
        self.has_seen_manifests
    }

    /// Keeps claims, and what belongs to them, for as long as the volumes that are made for them here.
    #[must_use]
    pub fn provisioning(self, volume_ops: &VolumeOps) -> Self {
        Self { files: KeptFiles::new(volume_ops, true), ..self }
    }

    /// The files of objects that were added by request.
    pub(super) fn files(&self) -> KeptFiles {
        self.files.clone()
    }

    /// Whether pods may exist that no source has named: their client has not spoken, or what it said cannot be read (rule R2).
    pub fn may_miss_pods(&self) -> bool {
        self.awaits_clients || self.may_miss_pods
    }

    /// Whether clients still have to say which pods they have.
    pub fn awaits_clients(&self) -> bool {
        self.awaits_clients
    }

    /// Takes note that clients have added every pod that they want. What they do not name is gone.
    pub fn clients_are_ready(&mut self) -> Effects {
        let attachments_changed = std::mem::take(&mut self.awaits_clients);
        self.effects(Applied { attachments_changed, ..Applied::default() })
    }

    /// Takes note that no source will say more than it has: what is not known does not exist.
    pub fn set_complete(&mut self) {
        self.complete = true;
        self.shared.set_complete(true);
    }

    /// Takes note of where drivers say that this node is. What a driver has said that is not there now holds still: the node has not moved.
    pub fn node_is_in(&mut self, topology: BTreeMap<String, String>) {
        for (key, value) in topology {
            self.node.topology.insert(key, value);
        }
    }

    /// Whether an object names this pod.
    pub fn knows(&self, uid: &PodUid) -> bool {
        self.store.pod_with_uid(uid.as_str()).is_some() || self.damaged.contains_key(uid)
    }

    /// How the SELinux labels that pods ask for fit together.
    pub fn selinux_census(&self) -> SelinuxCensus {
        selinux_census(&self.store, self.catalog.as_ref(), &self.node)
    }

    /// The uid of the pod of this name.
    pub fn uid_of(&self, namespace: &str, name: &str) -> Option<PodUid> {
        let pod = self.store.pod(&ObjectKey::new(Kind::Pod, namespace, name))?;
        Some(pod.pod.uid.clone())
    }

    /// Takes what the manifest folder has brought.
    pub fn apply_manifests(&mut self, mut changes: Changes) -> Effects {
        let refused = self.refuse_changes_of_immutable(&mut changes);
        let removed: Vec<ObjectKey> = changes.removed.iter().map(|object| object.key.clone()).collect();
        let mut touched = removed.clone();
        touched.extend(changes.upserted.iter().map(|object| object.key.clone()));
        self.has_seen_manifests |= !changes.upserted.is_empty();
        let mut applied = self.store.apply(Source::Manifest, changes.upserted, removed);
        for key in &touched {
            self.shared.keep(key, self.store.get(key).map(Arc::as_ref));
        }
        self.has_unread_manifests = !changes.complete;
        self.unread_manifests = std::mem::take(&mut changes.unread);
        if changes.complete && !self.complete {
            self.complete = true;
            applied.attachments_changed = true;
        }
        if self.shared.set_complete(changes.complete) {
            // What was missing until now, and could have been in a file that nobody could read, is known to be missing.
            applied.source_changed.extend(self.store.pods().map(|(key, _)| key.clone()));
        }
        let mut effects = self.effects(applied);
        for problem in changes.problems {
            for message in problem.messages {
                effects.notices.push((
                    EventKind::Warning,
                    "InvalidManifest",
                    format!("file {}", problem.file),
                    message,
                ));
            }
        }
        effects.notices.extend(refused);
        for notice in changes.notices {
            for message in notice.messages {
                effects.notices.push((EventKind::Warning, IGNORED, format!("file {}", notice.file), message));
            }
        }
        for file in changes.cleared {
            effects.notices.push((
                EventKind::Normal,
                "ManifestMended",
                format!("file {file}"),
                "it is read without error again".to_owned(),
            ));
        }
        effects
    }

    /// Leaves out what would change an object that cannot change, and says so. One that was removed before can be made anew.
    fn refuse_changes_of_immutable(&self, changes: &mut Changes) -> Vec<(EventKind, &'static str, String, String)> {
        let mut refused = Vec::new();
        changes.upserted.retain(|new| {
            let old = self.store.get(&new.key);
            let why = old.and_then(|old| volhost_objects::immutable::refused(old, new));
            let kept = why.is_none();
            let file = format!("file {}", new.origin.file);
            refused.extend(why.map(|why| (EventKind::Warning, "InvalidManifest", file, why)));
            kept
        });
        refused
    }

    /// Whether the objects of a request can be added now.
    ///
    /// # Errors
    /// [`RequestError::Invalid`], [`RequestError::Conflict`].
    pub(super) fn check(&self, objects: &[Arc<Object>]) -> Result<(), RequestError> {
        let mut uids: BTreeMap<&str, &Object> = BTreeMap::new();
        for object in objects {
            self.store.check(Source::Api, object).map_err(|conflict| RequestError::Conflict(conflict.to_string()))?;
            let old = self.store.get(&object.key);
            if let Some(why) = old.and_then(|old| volhost_objects::immutable::refused(old, object)) {
                return Err(RequestError::Invalid(why));
            }
            let twin = object.pod().and_then(|_| uids.insert(&object.uid, object));
            if let Some(twin) = twin {
                return Err(RequestError::Invalid(format!(
                    "{}: {} has the uid of {} at {}; give each pod a uid of its own, or none",
                    object.origin, object.key, twin.key, twin.origin
                )));
            }
        }
        match objects.is_empty() {
            true => Err(RequestError::Invalid(format!("{REQUEST}: there is no object in it"))),
            false => Ok(()),
        }
    }

    /// The files to be written before these objects are added.
    pub(super) fn files_to_add(&self, Objects { objects, documents, .. }: &Objects) -> Vec<FileChange> {
        let mut changes = Vec::with_capacity(objects.len());
        if !self.is_marked && objects.iter().any(|object| object.pod().is_some()) {
            // While clients are awaited the mark is there already, so every pod is known here.
            changes.extend([self.files.complete(), self.files.mark(true)]);
        }
        let documents: BTreeMap<&ObjectKey, &String> = documents.iter().map(|(key, text)| (key, text)).collect();
        for object in objects {
            if let Some(document) = documents.get(&object.key) {
                changes.extend(self.files.keep(object, document));
            }
        }
        for object in objects.iter().filter(|object| object.pod().is_some()) {
            let old = self.store.get(&object.key).filter(|old| old.uid != object.uid);
            changes.extend(old.into_iter().flat_map(|old| self.files.forget(&old.key, &old.uid)));
            let uid = PodUid::new(object.uid.clone()).ok();
            let damaged = uid.and_then(|uid| self.damaged.get(&uid));
            let stale = damaged.map(|pod| self.files.forget_damaged(pod, &changes)).unwrap_or_default();
            changes.extend(stale);
        }
        changes
    }

    /// Adds or replaces objects that were [checked](Sources::check) and are kept.
    pub(super) fn add(&mut self, objects: Vec<Arc<Object>>) -> (Vec<AddedPod>, Effects) {
        let pods = objects.iter().filter_map(|object| object.pod());
        let added: Vec<_> =
            pods.map(|pod| AddedPod { uid: pod.pod.uid.clone(), full_name: pod.pod.full_name() }).collect();
        self.is_marked |= !added.is_empty();
        for pod in &added {
            self.damaged.remove(&pod.uid);
        }
        let keys: Vec<ObjectKey> = objects.iter().map(|object| object.key.clone()).collect();
        let applied = self.store.apply(Source::Api, objects, []);
        self.share(&keys);
        (added, self.effects(applied))
    }

    /// Lets operations read what these objects say now.
    fn share(&self, keys: &[ObjectKey]) {
        for key in keys {
            self.shared.keep(key, self.store.get(key).map(Arc::as_ref));
        }
    }

    /// Takes the PersistentVolumes of volumes that were made for claims, and forgets those that are gone.
    pub fn provide(&mut self, volumes: Vec<Arc<Object>>, gone: Vec<ObjectKey>) -> Effects {
        let applied = self.store.apply(Source::Host, volumes, gone);
        self.effects(applied)
    }

    /// Takes note of why claims have no volume made; none when nothing is new.
    pub fn set_notes(&mut self, notes: BTreeMap<ObjectKey, String>) -> Option<Effects> {
        let changed = self.store.set_notes(notes);
        if changed.is_empty() {
            return None;
        }
        let resolve = changed.iter().flat_map(|claim| self.store.users_of(claim)).cloned().collect();
        Some(self.effects(Applied { resolve, ..Applied::default() }))
    }

    /// All objects.
    pub fn store(&self) -> &ObjectStore {
        &self.store
    }

    /// This node.
    pub fn node(&self) -> &NodeIdentity {
        &self.node
    }

    /// The files to be removed before an object is forgotten that was added by request.
    ///
    /// # Errors
    /// [`RequestError::Conflict`] when a manifest file has it, [`RequestError::UnknownObject`] when nobody has.
    pub(super) fn files_to_remove(&self, key: &ObjectKey) -> Result<Vec<FileChange>, RequestError> {
        match (self.store.source(key), self.store.get(key)) {
            (Some(Source::Api), Some(object)) => Ok(self.files.forget(key, &object.uid)),
            (Some(Source::Host), _) => Err(RequestError::Conflict(format!("{key} was made for a claim"))),
            (Some(_), Some(object)) => {
                let origin = &object.origin;
                Err(RequestError::Conflict(format!("{key} comes from the manifest {origin}; remove it there")))
            }
            // A secret of an earlier run, or an object that cannot be read.
            _ if self.shared.is_lost(key) => Ok(self.files.forget(key, "")),
            _ => Err(RequestError::UnknownObject(key.to_string())),
        }
    }

    /// Forgets an object that was added by request, and whose file is gone.
    pub(super) fn remove_object(&mut self, key: &ObjectKey) -> Effects {
        let applied = self.store.apply(Source::Api, Vec::new(), [key.clone()]);
        self.share(std::slice::from_ref(key));
        self.effects(applied)
    }

    /// The files to be removed before a pod is forgotten that was added by request.
    ///
    /// # Errors
    /// [`RequestError::Conflict`] when the pod comes from a manifest file, [`RequestError::UnknownPod`] when it is gone already.
    pub(super) fn files_of_pod(&self, uid: &PodUid) -> Result<Vec<FileChange>, RequestError> {
        let mut changes = match self.damaged.get(uid) {
            Some(damaged) => self.files.forget_damaged(damaged, &[]),
            None => {
                let unknown = || RequestError::UnknownPod(uid.to_string());
                let key = self.store.pod_with_uid(uid.as_str()).ok_or_else(unknown)?;
                self.files_to_remove(key)?
            }
        };
        let is_other = |key: &ObjectKey| self.store.pod_with_uid(uid.as_str()) != Some(key);
        let others = self.pods_by_request().any(is_other) || self.damaged.keys().any(|other| other != uid);
        if !others {
            changes.extend(self.unmark());
        }
        Ok(changes)
    }

    /// Forgets a pod that was added by request, and whose file is gone.
    pub(super) fn remove_pod(&mut self, uid: &PodUid) -> Effects {
        let applied = if self.damaged.remove(uid).is_some() {
            Applied { gone: vec![uid.clone()], ..Applied::default() }
        } else {
            let key = self.store.pod_with_uid(uid.as_str()).cloned();
            self.store.apply(Source::Api, Vec::new(), key)
        };
        self.effects(applied)
    }

    fn pods_by_request(&self) -> impl Iterator<Item = &ObjectKey> {
        self.store.pods().map(|(key, _)| key).filter(|key| self.store.source(key) == Some(Source::Api))
    }

    /// Takes the mark from the disk that pods were added by request, if it is there and nothing needs it.
    pub(super) fn unmark(&self) -> Option<FileChange> {
        (self.is_marked && !self.may_miss_pods()).then(|| self.files.mark(false))
    }

    /// Whether pods are known that were added by request.
    pub(super) fn has_pods_by_request(&self) -> bool {
        !self.damaged.is_empty() || self.pods_by_request().next().is_some()
    }

    /// Whether objects are kept that go with the mount of the records.
    pub(super) fn needs_state(&self) -> bool {
        let mut by_request = self.store.keys_of(Source::Api);
        self.has_pods_by_request() || by_request.any(|key| self.files.goes_with_the_machine(key.kind))
    }

    /// The file of the bindings that the objects do not say, if they have changed since this was asked last.
    pub(super) fn bindings_to_keep(&mut self) -> Option<FileChange> {
        let held = self.store.held_bindings();
        if *held == self.kept_bindings {
            return None;
        }
        self.kept_bindings = held.clone();
        Some(self.files.bindings(held))
    }

    /// Takes note that the mark is on disk, or is not.
    pub(super) fn set_marked(&mut self, is_marked: bool) {
        self.is_marked = is_marked;
    }

    /// Takes over the objects that an earlier run was given by request.
    pub fn restore(&mut self) -> Effects {
        let kept = self.files.read();
        let Kept { objects, damaged, lost, problems, .. } = kept;
        let Kept { may_miss_pods, may_miss_claims, pods_are_unknown, has_marker, bindings, .. } = kept;
        self.store.hold_bindings(bindings.clone());
        self.kept_bindings = bindings;
        (self.may_miss_pods, self.may_miss_claims) = (may_miss_pods, may_miss_claims);
        (self.awaits_clients, self.is_marked) = (pods_are_unknown, has_marker);
        self.damaged = damaged;
        self.shared.set_lost(lost);
        let keys: Vec<ObjectKey> = objects.keys().cloned().collect();
        let applied = self.store.apply(Source::Api, objects.into_values().collect(), []);
        self.share(&keys);
        let mut effects = self.effects(applied);
        effects.unreadable = self.damaged.iter().map(|(uid, pod)| (uid.clone(), pod.why.clone())).collect();
        let problem = |(path, why)| (EventKind::Warning, "RecoveryProblem", format!("path {path}"), why);
        effects.notices.extend(problems.into_iter().map(problem));
        if self.awaits_clients {
            let message = "pods were added over the API before the machine restarted, and their client has not said which of them it still has: until then nothing is removed of pods that no source names. Clients call SourcesReady after they have added all their pods; `volhost apply --complete` does so, too";
            effects.notices.push((EventKind::Warning, "SourcesNotReady", "node".to_owned(), message.to_owned()));
        }
        effects
    }

    /// Every pod as it is wanted now: which plugin serves what may have changed.
    pub fn resolve_all(&mut self) -> Effects {
        let pods = self.store.pods().map(|(key, _)| key.clone()).collect();
        self.effects(Applied { resolve: pods, attachments_changed: true, ..Applied::default() })
    }

    /// Resolves again what waits for the answers to these questions.
    pub fn resolve_waiting(&mut self, questions: impl IntoIterator<Item = QuestionKey>) -> Effects {
        let waiting: BTreeSet<Waiting> =
            questions.into_iter().filter_map(|key| self.waiting.remove(&key)).flatten().collect();
        let mut applied = Applied::default();
        for one in waiting {
            match one {
                Waiting::Pod(key) => drop(applied.resolve.insert(key)),
                Waiting::Attachments => applied.attachments_changed = true,
            }
        }
        self.effects(applied)
    }

    /// Takes note that the answer to a question changes nothing for what waited for it.
    pub fn waits_no_longer(&mut self, question: &QuestionKey) {
        self.waiting.remove(question);
    }

    /// Takes note that what was resolved just now waits for the questions that came up.
    fn note_waiting(&mut self, who: &Waiting) {
        for key in self.catalog.take_awaited() {
            self.waiting.entry(key).or_default().insert(who.clone());
        }
    }

    fn effects(&mut self, applied: Applied) -> Effects {
        // What figures ask for waits for nothing.
        drop(self.catalog.take_awaited());
        let mut effects = Effects { gone: applied.gone, ..Effects::default() };
        // Another pod of the name or uid says nothing of one that cannot be read.
        effects.gone.retain(|uid| !self.damaged.contains_key(uid));
        if applied.attachments_changed {
            let host_attaches = |plugin: &PluginName| self.attaching.by_host(plugin);
            let (store, catalog) = (&self.store, self.catalog.as_ref());
            // A VolumeAttachment that no file has could be in one that nobody has read (rule R2).
            let complete = self.complete && !self.awaits_clients;
            let report = attachments_of(&self.node.name, store, catalog, host_attaches, complete);
            effects.attachments = Some(report);
            self.note_waiting(&Waiting::Attachments);
        }
        for uid in &effects.gone {
            self.shared.forget_pod(uid);
        }
        for key in applied.resolve {
            let Some(pod) = self.store.pod(&key) else { continue };
            match standing(pod, &self.node) {
                PodStanding::Runs => {
                    self.elsewhere.remove(&key);
                    if self.node.container_file_label.is_none() && !self.told_of_labels && asks_for_labels(pod) {
                        self.told_of_labels = true;
                        let message = "its containers have seLinuxOptions, and this node's kernel has no SELinux: volumes are mounted without labels; this is said once".to_owned();
                        let object = format!("pod {}", key.full_name());
                        effects.notices.push((EventKind::Normal, "NoSELinux", object, message));
                    }
                    effects.desired.push(resolve(pod, &self.store, self.catalog.as_ref(), &self.node));
                    self.note_waiting(&Waiting::Pod(key.clone()));
                }
                PodStanding::Finished => effects.not_here.push(pod.pod.uid.clone()),
                PodStanding::OtherNode { node } => {
                    // It may have been this node's before.
                    effects.not_here.push(pod.pod.uid.clone());
                    if self.elsewhere.insert(key.clone()) {
                        let message = format!(
                            "spec.nodeName is {node:?} and this node is {:?}: its volumes are not mounted here",
                            self.node.name
                        );
                        effects.notices.push((
                            EventKind::Normal,
                            "OtherNode",
                            format!("pod {}", key.full_name()),
                            message,
                        ));
                    }
                }
            }
        }
        for key in applied.source_changed {
            if let Some(pod) = self.store.pod(&key) {
                effects.source_changed.push(pod.pod.uid.clone());
            }
        }
        for conflict in applied.conflicts {
            effects.notices.push((EventKind::Warning, "ConflictingManifest", "file".to_owned(), conflict.to_string()));
        }
        effects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_is_not_to_run_here_is_forgotten_once() {
        let uid = |name: &str| PodUid::new(name).unwrap();
        let effects = || Effects {
            gone: vec![uid("deleted")],
            not_here: vec![uid("finished"), uid("of-other-node")],
            ..Effects::default()
        };
        // It ran here until now.
        assert_eq!(effects().take_unwanted(|pod| *pod == uid("finished")), [uid("deleted"), uid("finished")]);
        // Each further resolution of everything names it again.
        assert_eq!(effects().take_unwanted(|_| false), [uid("deleted")]);
    }
}
