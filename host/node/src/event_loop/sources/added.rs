//! Objects that requests add and remove: what is checked and written first, and what changes then.
#![deny(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::sync::Arc;

use volhost_model::names::PodUid;
use volhost_model::view::EventKind;
use volhost_objects::{Object, ObjectKey, ObjectSource, StoreEffects};

use super::{Effects, IGNORED, Sources};
use crate::event_loop::manifest_text::{ManifestObjects, REQUEST};
use crate::event_loop::object_files::FileChange;
use crate::event_loop::requests::{AddedObject, AddedPod, RequestError};

/// Lists the pods among the objects of a request.
pub(in crate::event_loop) fn added_pods(objects: &[Arc<Object>]) -> Vec<AddedPod> {
    let pods = objects.iter().filter_map(|object| object.pod());
    pods.map(|pod| AddedPod { uid: pod.pod.uid.clone(), full_name: pod.pod.full_name() }).collect()
}

impl Sources {
    /// Checks whether the objects of a request can be added now.
    ///
    /// # Errors
    /// [`RequestError::Invalid`], [`RequestError::Conflict`].
    pub(in crate::event_loop) fn check(&self, objects: &[Arc<Object>]) -> Result<(), RequestError> {
        let mut uids: BTreeMap<&str, &Object> = BTreeMap::new();
        for object in objects {
            self.store
                .check(ObjectSource::Api, object)
                .map_err(|conflict| RequestError::Conflict(conflict.to_string()))?;
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

    /// Returns what adding these objects, which were [checked](Sources::check), would mean for the
    /// state machine. Plugins are asked what new volumes are.
    pub(in crate::event_loop) fn foresee(&self, objects: &[Arc<Object>]) -> Effects {
        let mut store = self.store.clone();
        let applied = store.apply(ObjectSource::Api, objects.to_vec(), []);
        self.resolver.foresee(applied, &store)
    }

    /// Lists the objects that requests have added, by key.
    pub(in crate::event_loop) fn added_objects(&self) -> Vec<AddedObject> {
        let objects = self.store.keys_of(ObjectSource::Api).filter_map(|key| self.store.get(key));
        let objects = objects.map(|object| AddedObject {
            key: object.key.clone(),
            uid: object.uid.clone(),
            resource_version: object.resource_version.clone(),
        });
        objects.collect()
    }

    /// Returns the files to write before these objects are added.
    pub(in crate::event_loop) fn files_to_add(&self, objects: &ManifestObjects) -> Vec<FileChange> {
        self.requested.files_to_add(&self.store, objects)
    }

    /// Adds or replaces objects that were [checked](Sources::check) and are on disk. `warnings`
    /// says which parts of them volhost does not use.
    pub(in crate::event_loop) fn add(&mut self, objects: Vec<Arc<Object>>, warnings: &[String]) -> Vec<AddedPod> {
        let added = added_pods(&objects);
        for pod in &added {
            self.requested.pod_added(&pod.uid);
        }
        let keys: Vec<ObjectKey> = objects.iter().map(|object| object.key.clone()).collect();
        let applied = self.store.apply(ObjectSource::Api, objects, []);
        self.share(&keys);
        let mut effects = self.resolve(applied);
        for warning in warnings {
            effects.emit(EventKind::Warning, IGNORED, REQUEST.to_owned(), warning.clone());
        }
        self.effects.push_back(effects);
        added
    }

    /// Returns the files to remove before an object is forgotten that was added by request.
    ///
    /// # Errors
    /// [`RequestError::Conflict`] when a manifest file has it, [`RequestError::UnknownObject`] when no source has.
    pub(in crate::event_loop) fn files_to_remove(&self, key: &ObjectKey) -> Result<Vec<FileChange>, RequestError> {
        let files = self.requested.files();
        match (self.store.source(key), self.store.get(key)) {
            (Some(ObjectSource::Api), Some(object)) => Ok(files.forget(key, &object.uid)),
            (Some(ObjectSource::Host), _) => Err(RequestError::Conflict(format!("{key} was made for a claim"))),
            (Some(_), Some(object)) => {
                let origin = &object.origin;
                Err(RequestError::Conflict(format!("{key} comes from the manifest {origin}; remove it there")))
            }
            // A secret of an earlier run, or an object that cannot be read.
            _ if self.shared.is_lost(key) => Ok(files.forget(key, "")),
            _ => Err(RequestError::UnknownObject(key.to_string())),
        }
    }

    /// Forgets an object that was added by request, and whose file is gone.
    pub(in crate::event_loop) fn remove_object(&mut self, key: &ObjectKey) {
        let applied = self.store.apply(ObjectSource::Api, Vec::new(), [key.clone()]);
        self.share(std::slice::from_ref(key));
        self.applied(applied);
    }

    /// Returns the files to remove before a pod is forgotten that was added by request.
    ///
    /// # Errors
    /// [`RequestError::Conflict`] when the pod comes from a manifest file, [`RequestError::UnknownPod`] when it is gone already.
    pub(in crate::event_loop) fn files_of_pod(&self, uid: &PodUid) -> Result<Vec<FileChange>, RequestError> {
        let mut changes = match self.requested.files_of_damaged(uid) {
            Some(changes) => changes,
            None => {
                let unknown = || RequestError::UnknownPod(uid.to_string());
                let key = self.store.pod_with_uid(uid.as_str()).ok_or_else(unknown)?;
                self.files_to_remove(key)?
            }
        };
        if !self.requested.has_other_pods(&self.store, uid) {
            changes.extend(self.requested.unmark());
        }
        Ok(changes)
    }

    /// Forgets a pod that was added by request, and whose file is gone.
    pub(in crate::event_loop) fn remove_pod(&mut self, uid: &PodUid) {
        let applied = if self.requested.forget_damaged(uid) {
            StoreEffects { gone: vec![uid.clone()], ..StoreEffects::default() }
        } else {
            let key = self.store.pod_with_uid(uid.as_str()).cloned();
            self.store.apply(ObjectSource::Api, Vec::new(), key)
        };
        self.applied(applied);
        // The marker file went with the files of the last pod.
        if !self.requested.may_miss_pods() {
            self.unmarked();
        }
    }

    /// Returns the removal of the marker file, if it exists and no pod needs it.
    pub(in crate::event_loop) fn unmark(&self) -> Option<FileChange> {
        self.requested.unmark().filter(|_| !self.requested.has_pods(&self.store))
    }

    /// Notes that the marker file was removed, unless a pod was added in the meantime.
    pub(in crate::event_loop) fn unmarked(&mut self) {
        if !self.requested.has_pods(&self.store) {
            self.requested.set_marked(false);
        }
    }
}
