//! All that was read from the API server, and what is not known.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use volhost_objects::{Kind, ObjectKey};

use crate::cluster_object::{ClusterObject, CsiVolume};

/// The kinds of which all objects are read: the pods of this node, and kinds of which a cluster has
/// few. Of other kinds, only those are read that a pod here uses.
pub(crate) const WHOLE_KINDS: [Kind; 3] = [Kind::Pod, Kind::CsiDriver, Kind::ClusterTrustBundle];

/// What a watch has read. The key without a name stands for all objects of the kind.
#[derive(Debug)]
pub(crate) enum News {
    /// All objects of this kind.
    Listed(Kind, Vec<ClusterObject>),
    /// One object as it is now; none: it does not exist.
    Object(ObjectKey, Option<ClusterObject>),
    /// It cannot be read now, and why. What was read before counts.
    Failed(ObjectKey, String),
}

impl News {
    /// The kind of what was read.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Listed(kind, _) => *kind,
            Self::Object(key, _) | Self::Failed(key, _) => key.kind,
        }
    }
}

/// What the API server has.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// None: it does not exist. Keys that are absent have not been read.
    objects: BTreeMap<ObjectKey, Option<Arc<ClusterObject>>>,
    /// Versions that cannot be used. What `objects` has is then the last one before that can, if
    /// there was one.
    unusable: BTreeMap<ObjectKey, Arc<ClusterObject>>,
    listed: BTreeSet<Kind>,
    /// Why something cannot be read now.
    failures: BTreeMap<ObjectKey, String>,
}

/// The key that stands for all objects of a kind.
pub(crate) fn all_of(kind: Kind) -> ObjectKey {
    ObjectKey::new(kind, "", "")
}

impl Known {
    /// Takes note of what was read.
    pub(crate) fn take(&mut self, news: News) {
        match news {
            News::Listed(kind, objects) => {
                self.failures.remove(&all_of(kind));
                self.listed.insert(kind);
                let is_listed = |key: &ObjectKey| key.kind != kind || objects.iter().any(|object| object.key == *key);
                self.objects.retain(|key, _| is_listed(key));
                self.unusable.retain(|key, _| is_listed(key));
                for object in objects {
                    self.set(object);
                }
            }
            News::Object(key, object) => {
                self.failures.remove(&key);
                match object {
                    Some(object) => self.set(object),
                    None => {
                        self.unusable.remove(&key);
                        if WHOLE_KINDS.contains(&key.kind) {
                            self.objects.remove(&key);
                        } else {
                            self.objects.insert(key, None);
                        }
                    }
                }
            }
            News::Failed(key, why) => drop(self.failures.insert(key, why)),
        }
    }

    fn set(&mut self, object: ClusterObject) {
        let (key, object) = (object.key.clone(), Arc::new(object));
        if object.object.is_ok() {
            self.unusable.remove(&key);
        } else {
            self.unusable.insert(key.clone(), Arc::clone(&object));
            if self.get(&key).is_some_and(|before| before.uid == object.uid && before.object.is_ok()) {
                return;
            }
        }
        self.objects.insert(key, Some(object));
    }

    /// The objects that cannot be used as they are now, and why.
    pub(crate) fn unusable(&self) -> impl Iterator<Item = (&Arc<ClusterObject>, &str)> {
        self.unusable.values().filter_map(|object| Some((object, object.object.as_ref().err()?.as_str())))
    }

    /// Forgets what is not watched any more.
    pub(crate) fn retain_named(&mut self, watched: &BTreeSet<ObjectKey>) {
        let is_kept = |key: &ObjectKey| WHOLE_KINDS.contains(&key.kind) || watched.contains(key);
        self.objects.retain(|key, _| is_kept(key));
        self.unusable.retain(|key, _| is_kept(key));
        self.failures.retain(|key, _| is_kept(key));
    }

    /// Whether all pods of this node have been read.
    pub(crate) fn has_pods(&self) -> bool {
        self.listed.contains(&Kind::Pod)
    }

    /// The object; none if it does not exist, or is not known.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Arc<ClusterObject>> {
        self.objects.get(key)?.as_ref()
    }

    /// Every object of this kind.
    pub(crate) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Arc<ClusterObject>> {
        let of_kind = self.objects.range(all_of(kind)..).take_while(move |(key, _)| key.kind == kind);
        of_kind.filter_map(|(_, object)| object.as_ref())
    }

    /// Whether it is known that the object exists, or that it does not.
    pub(crate) fn is_read(&self, key: &ObjectKey) -> bool {
        match WHOLE_KINDS.contains(&key.kind) {
            true => self.listed.contains(&key.kind),
            false => self.objects.contains_key(key),
        }
    }

    /// Why something has not been read, for users: `Secret default/login: forbidden`.
    pub(crate) fn unread(&self, key: &ObjectKey) -> String {
        let what = if key.name.is_empty() { format!("{} objects", key.kind) } else { key.to_string() };
        match self.failures.get(key) {
            Some(why) => format!("{what}: {why}"),
            None => format!("{what}: the API server has not answered yet"),
        }
    }

    /// The objects that this one names, the VolumeAttachments of its volumes included.
    pub(crate) fn references<'a>(&'a self, object: &'a ClusterObject) -> impl Iterator<Item = &'a ObjectKey> {
        let is_attached = move |volume: &&CsiVolume| {
            let driver = self.get(&ObjectKey::new(Kind::CsiDriver, "", volume.driver.as_str()));
            driver.is_none_or(|driver| driver.requires_attach())
        };
        let attached = object.csi_volumes.iter().filter(is_attached);
        object.references.iter().chain(attached.map(|volume| &volume.attachment))
    }
}
