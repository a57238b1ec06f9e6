//! The objects that were added by request: which files keep them, and what could not be read of
//! them.
#![deny(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use volhost_model::names::PodUid;
use volhost_objects::{Object, ObjectKey, ObjectSource, ObjectStore, RetainedBindings};

use crate::event_loop::manifest_text::ManifestObjects;
use crate::event_loop::object_files::{DamagedPod, FileChange, ObjectFiles, StoredObjects};

/// The objects that were added by request.
#[derive(Debug)]
pub(super) struct RequestedObjects {
    files: ObjectFiles,
    /// Pods whose objects cannot be read.
    damaged: BTreeMap<PodUid, DamagedPod>,
    /// A file that cannot be read may contain a pod whose uid is unknown.
    may_miss_pods: bool,
    /// A file that cannot be read may contain a claim whose name is unknown.
    may_miss_claims: bool,
    /// Pods were added by request before the machine restarted, and clients have not added all of
    /// them again.
    awaits_clients: bool,
    /// The marker file exists that says that pods were added by request.
    is_marked: bool,
    /// The bindings that are on disk, or are being written.
    bindings: RetainedBindings,
}

/// The result of [`RequestedObjects::restore`].
#[derive(Debug)]
pub(super) struct RestoredObjects {
    /// The objects.
    pub(super) objects: BTreeMap<ObjectKey, Arc<Object>>,
    /// The file stems of objects that existed and are unknown: damaged ones, and secrets.
    pub(super) lost: BTreeSet<String>,
    /// Paths that cannot be read, and why.
    pub(super) problems: Vec<(String, String)>,
    /// The bindings that the objects do not determine.
    pub(super) bindings: RetainedBindings,
}

impl RequestedObjects {
    /// Creates the state of a node to which no object was added.
    pub(super) fn new(files: ObjectFiles) -> Self {
        Self {
            files,
            damaged: BTreeMap::new(),
            may_miss_pods: false,
            may_miss_claims: false,
            awaits_clients: false,
            is_marked: false,
            bindings: RetainedBindings::default(),
        }
    }

    /// Takes the objects that an earlier run was given by request.
    pub(super) fn restore(&mut self, stored: StoredObjects) -> RestoredObjects {
        let StoredObjects { objects, damaged, lost, problems, .. } = stored;
        let StoredObjects { may_miss_pods, may_miss_claims, pods_are_unknown, has_marker, bindings, .. } = stored;
        (self.may_miss_pods, self.may_miss_claims) = (may_miss_pods, may_miss_claims);
        (self.awaits_clients, self.is_marked) = (pods_are_unknown, has_marker);
        self.damaged = damaged;
        self.bindings = bindings.clone();
        RestoredObjects { objects, lost, problems, bindings }
    }

    /// Returns the files.
    pub(super) const fn files(&self) -> &ObjectFiles {
        &self.files
    }

    /// Returns the pods whose objects cannot be read, and why.
    pub(super) fn unreadable(&self) -> Vec<(PodUid, String)> {
        self.damaged.iter().map(|(uid, pod)| (uid.clone(), pod.why.clone())).collect()
    }

    /// Whether the object of this pod cannot be read.
    pub(super) fn is_damaged(&self, uid: &PodUid) -> bool {
        self.damaged.contains_key(uid)
    }

    /// Forgets a pod whose object cannot be read. Returns whether it was one.
    pub(super) fn forget_damaged(&mut self, uid: &PodUid) -> bool {
        self.damaged.remove(uid).is_some()
    }

    /// Whether pods may exist that no source has named: clients have not spoken yet, or a file
    /// cannot be read (rule R2).
    pub(super) const fn may_miss_pods(&self) -> bool {
        self.awaits_clients || self.may_miss_pods
    }

    /// Whether a file that cannot be read may contain a claim whose name is unknown.
    pub(super) const fn may_miss_claims(&self) -> bool {
        self.may_miss_claims
    }

    /// Whether clients have not said yet that they have added all their pods.
    pub(super) const fn awaits_clients(&self) -> bool {
        self.awaits_clients
    }

    /// Notes that clients have added all their pods. Returns whether they were awaited.
    pub(super) fn clients_are_ready(&mut self) -> bool {
        std::mem::take(&mut self.awaits_clients)
    }

    /// Returns the files to write before these objects are added.
    pub(super) fn files_to_add(&self, store: &ObjectStore, new: &ManifestObjects) -> Vec<FileChange> {
        let ManifestObjects { objects, documents, .. } = new;
        let mut changes = Vec::with_capacity(objects.len());
        if !self.is_marked && objects.iter().any(|object| object.pod().is_some()) {
            // While clients are awaited the marker exists already, so every pod is known here.
            changes.extend([self.files.complete(), self.files.mark(true)]);
        }
        let documents: BTreeMap<&ObjectKey, &String> = documents.iter().map(|(key, text)| (key, text)).collect();
        for object in objects {
            if let Some(document) = documents.get(&object.key) {
                changes.extend(self.files.keep(object, document));
            }
        }
        for object in objects.iter().filter(|object| object.pod().is_some()) {
            let old = store.get(&object.key).filter(|old| old.uid != object.uid);
            changes.extend(old.into_iter().flat_map(|old| self.files.forget(&old.key, &old.uid)));
            let uid = PodUid::new(object.uid.clone()).ok();
            let damaged = uid.and_then(|uid| self.damaged.get(&uid));
            let stale = damaged.map(|pod| self.files.forget_damaged(&pod.files, &changes)).unwrap_or_default();
            changes.extend(stale);
        }
        changes
    }

    /// Returns the removal of the files of a pod whose object cannot be read; none if it is no such
    /// pod.
    pub(super) fn files_of_damaged(&self, uid: &PodUid) -> Option<Vec<FileChange>> {
        self.damaged.get(uid).map(|damaged| self.files.forget_damaged(&damaged.files, &[]))
    }

    /// Whether pods other than this one were added by request.
    pub(super) fn has_other_pods(&self, store: &ObjectStore, uid: &PodUid) -> bool {
        let is_other = |key: &ObjectKey| store.pod_with_uid(uid.as_str()) != Some(key);
        pods_by_request(store).any(is_other) || self.damaged.keys().any(|other| other != uid)
    }

    /// Whether pods are known that were added by request.
    pub(super) fn has_pods(&self, store: &ObjectStore) -> bool {
        !self.damaged.is_empty() || pods_by_request(store).next().is_some()
    }

    /// Whether a restart needs objects that are on the mount of the records.
    pub(super) fn needs_state(&self, store: &ObjectStore) -> bool {
        let mut by_request = store.keys_of(ObjectSource::Api);
        self.has_pods(store) || by_request.any(|key| self.files.goes_with_the_machine(key.kind))
    }

    /// Returns the removal of the marker file, if it exists and no pod needs it.
    pub(super) fn unmark(&self) -> Option<FileChange> {
        (self.is_marked && !self.may_miss_pods()).then(|| self.files.mark(false))
    }

    /// Notes whether the marker file exists.
    pub(super) const fn set_marked(&mut self, is_marked: bool) {
        self.is_marked = is_marked;
    }

    /// Notes that a pod was added by request.
    pub(super) fn pod_added(&mut self, uid: &PodUid) {
        self.is_marked = true;
        self.damaged.remove(uid);
    }

    /// Returns the file of the bindings that the objects do not determine, if they have changed
    /// since the last call.
    pub(super) fn bindings_to_write(&mut self, held: &RetainedBindings) -> Option<FileChange> {
        if *held == self.bindings {
            return None;
        }
        self.bindings = held.clone();
        Some(self.files.bindings(held))
    }
}

fn pods_by_request(store: &ObjectStore) -> impl Iterator<Item = &ObjectKey> {
    store.pods().map(|(key, _)| key).filter(|key| store.source(key) == Some(ObjectSource::Api))
}
