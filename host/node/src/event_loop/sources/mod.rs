//! The objects of all sources, and what their changes mean for the state machine.
//!
//! ```text
//!  manifests, requests, made volumes --> ObjectStore --StoreEffects--> Resolver --Effects--> queue --> loop
//! ```
//!
//! | module | its job |
//! |---|---|
//! | [`effects`] | what a change means for the state machine |
//! | [`resolver`] | pods and VolumeAttachments to what the state machine needs |
//! | [`added`] | objects that requests add and remove |
//! | [`requested`] | objects that were added by request: their files, and what could not be read |
//! | [`manifest_folder`] | how much of the manifest folder has been read |
#![deny(clippy::disallowed_methods)]

mod added;
mod effects;
mod manifest_folder;
mod requested;
mod resolver;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use volhost_core::AttachPolicy;
use volhost_model::names::PodUid;
use volhost_model::view::EventKind;
use volhost_objects::payload::SharedObjects;
use volhost_objects::populate::{NodeIdentity, SelinuxCounts};
use volhost_objects::{
    Changes, Kind, Object, ObjectKey, ObjectSource, ObjectStore, Problem, ProblemKind, StoreEffects,
};
use volhost_plugin_folder::{PluginRegistry, QuestionKey};

use super::object_files::{FileChange, ObjectFiles, StoredObjects};
pub(super) use added::added_pods;
pub(super) use effects::Effects;
use manifest_folder::ManifestFolderState;
use requested::{RequestedObjects, RestoredObjects};
use resolver::Resolver;

/// The event for parts of a manifest that volhost does not use.
const IGNORED: &str = "IgnoredInManifest";

/// The objects of all sources. Each change appends [`Effects`] for the loop.
#[derive(Debug)]
pub(crate) struct Sources {
    store: ObjectStore,
    /// The objects that operations read.
    shared: Arc<SharedObjects>,
    resolver: Resolver,
    requested: RequestedObjects,
    manifests: ManifestFolderState,
    /// Effects that the loop has not applied yet, oldest first.
    effects: VecDeque<Effects>,
}

impl Sources {
    /// Creates sources that have reported nothing yet.
    pub(crate) fn new(
        files: ObjectFiles,
        catalog: Arc<PluginRegistry>,
        node: NodeIdentity,
        shared: Arc<SharedObjects>,
        attaching: AttachPolicy,
    ) -> Self {
        Self {
            store: ObjectStore::new(),
            shared,
            resolver: Resolver::new(node, catalog, attaching),
            requested: RequestedObjects::new(files),
            manifests: ManifestFolderState::default(),
            effects: VecDeque::new(),
        }
    }

    /// Returns the oldest effects that the loop has not applied yet.
    pub(super) fn next_effects(&mut self) -> Option<Effects> {
        self.effects.pop_front()
    }

    /// Returns all objects.
    pub(super) const fn store(&self) -> &ObjectStore {
        &self.store
    }

    /// Returns this node.
    pub(super) const fn node(&self) -> &NodeIdentity {
        self.resolver.node()
    }

    /// Returns the files of objects that were added by request.
    pub(super) fn files(&self) -> ObjectFiles {
        self.requested.files().clone()
    }

    /// Whether every manifest has been read once.
    pub(super) const fn is_complete(&self) -> bool {
        self.manifests.is_complete()
    }

    /// Whether this unknown claim may be in a file that cannot be read: a manifest, or an object
    /// that was added by request (rule R2).
    pub(super) fn may_miss_claim(&self, claim: &ObjectKey) -> bool {
        self.requested.may_miss_claims() || self.manifests.has_unread_manifests() || self.shared.is_lost(claim)
    }

    /// Returns the manifest files that have never been read without error, or the folder; empty
    /// before the first reading.
    pub(super) fn unread_manifests(&self) -> &[String] {
        self.manifests.unread()
    }

    /// Whether a manifest was read since the start. Otherwise no object of a manifest is known to
    /// be gone: the folder may not be mounted (rule R2).
    pub(super) const fn has_seen_manifests(&self) -> bool {
        self.manifests.has_seen_manifests()
    }

    /// Whether pods may exist that no source has named (rule R2).
    pub(super) const fn may_miss_pods(&self) -> bool {
        self.requested.may_miss_pods()
    }

    /// Whether clients have not said yet that they have added all their pods.
    pub(super) const fn awaits_clients(&self) -> bool {
        self.requested.awaits_clients()
    }

    /// Whether an object names this pod.
    pub(super) fn knows(&self, uid: &PodUid) -> bool {
        self.store.pod_with_uid(uid.as_str()).is_some() || self.requested.is_damaged(uid)
    }

    /// Returns the uid of the pod of this name.
    pub(super) fn uid_of(&self, namespace: &str, name: &str) -> Option<PodUid> {
        let pod = self.store.pod(&ObjectKey::new(Kind::Pod, namespace, name))?;
        Some(pod.pod.uid.clone())
    }

    /// Counts the volumes by the SELinux labels that pods ask for.
    pub(super) fn selinux_counts(&self) -> SelinuxCounts {
        self.resolver.selinux_counts(&self.store)
    }

    /// Notes that there is no manifest folder.
    pub(super) fn set_complete(&mut self) {
        self.manifests.set_complete();
        self.shared.set_complete(true);
    }

    /// Notes that clients have added all their pods: pods that they did not name are gone.
    pub(super) fn clients_are_ready(&mut self) {
        let attachments_changed = self.requested.clients_are_ready();
        self.applied(StoreEffects { attachments_changed, ..StoreEffects::default() });
    }

    /// Adds the topology that drivers report of this node.
    pub(super) fn add_topology(&mut self, topology: BTreeMap<String, String>) {
        self.resolver.add_topology(topology);
    }

    /// Sets the labels that the cluster gives this node.
    pub(super) fn set_node_labels(&mut self, labels: BTreeMap<String, String>) {
        if self.resolver.set_node_labels(labels) {
            self.resolve_all();
        }
    }

    /// Resolves every pod again: another plugin may serve a volume now.
    pub(super) fn resolve_all(&mut self) {
        let pods = self.store.pods().map(|(key, _)| key.clone()).collect();
        self.applied(StoreEffects { resolve: pods, attachments_changed: true, ..StoreEffects::default() });
    }

    /// Resolves again what waits for the answers to these questions.
    pub(super) fn resolve_waiting(&mut self, questions: impl IntoIterator<Item = QuestionKey>) {
        let applied = self.resolver.answered(questions);
        self.applied(applied);
    }

    /// Notes that the answer to a question changes nothing for what waited for it.
    pub(super) fn forget_question(&mut self, question: &QuestionKey) {
        self.resolver.forget_question(question);
    }

    /// Applies a reading of the manifest folder.
    pub(super) fn apply_manifests(&mut self, mut changes: Changes) {
        let mut refused = Effects::default();
        self.refuse_changes_of_immutable(&mut changes, &mut refused);
        let removed: Vec<ObjectKey> = changes.removed.iter().map(|object| object.key.clone()).collect();
        let mut changed = removed.clone();
        changed.extend(changes.upserted.iter().map(|object| object.key.clone()));
        let has_manifests = !changes.upserted.is_empty();
        let mut applied = self.store.apply(ObjectSource::Manifest, changes.upserted, removed);
        self.share(&changed);
        let unread = std::mem::take(&mut changes.unread);
        applied.attachments_changed |= self.manifests.read(has_manifests, changes.complete, unread);
        if self.shared.set_complete(changes.complete) {
            // An object that was missing until now could have been in an unread file. Now it is
            // known to be missing.
            applied.source_changed.extend(self.store.pods().map(|(key, _)| key.clone()));
        }
        self.manifests.note_problems(&changes.problems, &changes.cleared);
        let mut effects = self.resolve(applied);
        for problem in changes.problems {
            for message in problem.messages {
                effects.emit(EventKind::Warning, "InvalidManifest", format!("file {}", problem.file), message);
            }
        }
        effects.events.append(&mut refused.events);
        for notice in changes.notices {
            for message in notice.messages {
                effects.emit(EventKind::Warning, IGNORED, format!("file {}", notice.file), message);
            }
        }
        for file in changes.cleared {
            let message = "it is read without error again";
            effects.emit(EventKind::Normal, "ManifestMended", format!("file {file}"), message);
        }
        self.effects.push_back(effects);
    }

    /// Leaves out changes of immutable objects, and emits an event for each. An object that was
    /// removed before can be made anew.
    fn refuse_changes_of_immutable(&self, changes: &mut Changes, effects: &mut Effects) {
        changes.upserted.retain(|new| {
            let why = self.store.get(&new.key).and_then(|old| volhost_objects::immutable::refused(old, new));
            let is_allowed = why.is_none();
            if let Some(why) = why {
                effects.emit(EventKind::Warning, "InvalidManifest", format!("file {}", new.origin.file), why);
            }
            is_allowed
        });
    }

    /// Adds the PersistentVolumes of volumes that were made for claims, and removes those that are
    /// gone.
    pub(super) fn provide(&mut self, volumes: Vec<Arc<Object>>, gone: Vec<ObjectKey>) {
        let applied = self.store.apply(ObjectSource::Host, volumes, gone);
        self.applied(applied);
    }

    /// Notes why claims have no volume made.
    pub(super) fn set_notes(&mut self, notes: BTreeMap<ObjectKey, String>) {
        let changed = self.store.set_notes(notes);
        if !changed.is_empty() {
            let resolve = changed.iter().flat_map(|claim| self.store.users_of(claim)).cloned().collect();
            self.applied(StoreEffects { resolve, ..StoreEffects::default() });
        }
    }

    /// Lists the manifest files that cannot be used, by name.
    pub(super) fn manifest_problems(&self) -> Vec<Problem> {
        self.manifests.problems()
    }

    /// Counts the manifest files with a problem of each kind.
    pub(super) fn manifest_problem_counts(&self) -> BTreeMap<ProblemKind, u64> {
        self.manifests.problem_counts()
    }

    /// Whether a restart needs objects that are on the mount of the records.
    pub(super) fn needs_state(&self) -> bool {
        self.requested.needs_state(&self.store)
    }

    /// Returns the file of the bindings that the objects do not determine, if they have changed
    /// since the last call.
    pub(super) fn bindings_to_write(&mut self) -> Option<FileChange> {
        self.requested.bindings_to_write(self.store.retained_bindings())
    }

    /// Restores the objects that an earlier run was given by request.
    pub(super) fn restore(&mut self, stored: StoredObjects) {
        let RestoredObjects { objects, lost, problems, bindings } = self.requested.restore(stored);
        self.store.restore_bindings(bindings);
        self.shared.set_lost(lost);
        let keys: Vec<ObjectKey> = objects.keys().cloned().collect();
        let applied = self.store.apply(ObjectSource::Api, objects.into_values().collect(), []);
        self.share(&keys);
        let mut effects = self.resolve(applied);
        effects.unreadable = self.requested.unreadable();
        for (path, why) in problems {
            effects.emit(EventKind::Warning, "RecoveryProblem", format!("path {path}"), why);
        }
        if self.requested.awaits_clients() {
            let message = "pods were added over the API before the machine restarted, and their client has not said which of them it still has: until then nothing is removed of pods that no source names. Clients call SourcesReady after they have added all their pods; `volhost apply --complete` does so, too";
            effects.emit(EventKind::Warning, "SourcesNotReady", "node".to_owned(), message);
        }
        self.effects.push_back(effects);
    }

    /// Lets operations read the current content of these objects.
    fn share(&self, keys: &[ObjectKey]) {
        for key in keys {
            self.shared.keep(key, self.store.get(key).map(Arc::as_ref));
        }
    }

    fn applied(&mut self, applied: StoreEffects) {
        let effects = self.resolve(applied);
        self.effects.push_back(effects);
    }

    fn resolve(&mut self, mut applied: StoreEffects) -> Effects {
        // Another pod of the name or uid says nothing of a pod that cannot be read.
        applied.gone.retain(|uid| !self.requested.is_damaged(uid));
        // A VolumeAttachment that is in no known file could be in an unread one (rule R2).
        let attachments_complete = self.manifests.is_complete() && !self.requested.awaits_clients();
        self.resolver.resolve(applied, &self.store, &self.shared, attachments_complete)
    }
}
