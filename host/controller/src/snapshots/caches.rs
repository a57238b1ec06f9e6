//! The snapshots of the cluster, and their contents and classes.

use std::sync::Arc;

use kube::Client;
use kube::runtime::reflector::ObjectRef;

use super::known::ResourceSet;
use super::objects::{DEFINITIONS, VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent};
use crate::cache::Cache;

/// What is called with each object that was added, changed or deleted (then with `true`).
pub(super) type OnChange<K> = Arc<dyn Fn(&K, bool) + Send + Sync>;

/// What is called with changes.
#[derive(Clone)]
pub(crate) struct SnapshotHandlers {
    /// Of snapshots.
    pub(crate) snapshots: OnChange<VolumeSnapshot>,
    /// Of contents.
    pub(crate) contents: OnChange<VolumeSnapshotContent>,
    /// Of classes.
    pub(crate) classes: OnChange<VolumeSnapshotClass>,
}

/// The objects.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotCaches {
    snapshots: Cache<VolumeSnapshot>,
    contents: Cache<VolumeSnapshotContent>,
    classes: Cache<VolumeSnapshotClass>,
}

impl ResourceSet for SnapshotCaches {
    type Handlers = SnapshotHandlers;

    const TITLE: &'static str = "snapshots";
    const DEFINITIONS: [&'static str; 3] = DEFINITIONS;

    fn start(client: &Client, handlers: &SnapshotHandlers) -> Self {
        let SnapshotHandlers { snapshots, contents, classes } = handlers.clone();
        Self {
            snapshots: Cache::start(client, Box::new(move |object, is_gone| snapshots(object, is_gone))),
            contents: Cache::start(client, Box::new(move |object, is_gone| contents(object, is_gone))),
            classes: Cache::start(client, Box::new(move |object, is_gone| classes(object, is_gone))),
        }
    }

    async fn wait_ready(&self) -> bool {
        let ready =
            tokio::try_join!(self.snapshots.wait_ready(), self.contents.wait_ready(), self.classes.wait_ready());
        ready.is_ok()
    }

    fn report(&self, handlers: &SnapshotHandlers) {
        self.classes.all().iter().for_each(|class| (handlers.classes)(class, false));
        self.contents.all().iter().for_each(|content| (handlers.contents)(content, false));
        self.snapshots.all().iter().for_each(|snapshot| (handlers.snapshots)(snapshot, false));
    }
}

impl SnapshotCaches {
    /// The snapshot of this name.
    pub(crate) fn snapshot(&self, namespace: &str, name: &str) -> Option<Arc<VolumeSnapshot>> {
        self.snapshots.get(&ObjectRef::new(name).within(namespace))
    }

    /// Whether there is a snapshot for which this holds.
    pub(crate) fn has_snapshot(&self, predicate: impl Fn(&VolumeSnapshot) -> bool) -> bool {
        self.snapshots.find(predicate).is_some()
    }

    /// The snapshots for which this holds.
    pub(crate) fn snapshots(&self, predicate: impl Fn(&VolumeSnapshot) -> bool) -> Vec<Arc<VolumeSnapshot>> {
        self.snapshots.all().into_iter().filter(|snapshot| predicate(snapshot)).collect()
    }

    /// A snapshot was made, and is this.
    pub(crate) fn created_snapshot(&self, snapshot: VolumeSnapshot) {
        self.snapshots.created(snapshot);
    }

    /// The content of this name.
    pub(crate) fn content(&self, name: &str) -> Option<Arc<VolumeSnapshotContent>> {
        self.contents.get(&ObjectRef::new(name))
    }

    /// The class of this name.
    pub(crate) fn class(&self, name: &str) -> Option<Arc<VolumeSnapshotClass>> {
        self.classes.get(&ObjectRef::new(name))
    }

    /// All classes.
    pub(crate) fn classes(&self) -> Vec<Arc<VolumeSnapshotClass>> {
        self.classes.all()
    }

    /// A snapshot is now this: the API server's answer to a write.
    pub(crate) fn wrote_snapshot(&self, snapshot: VolumeSnapshot) {
        self.snapshots.wrote(snapshot);
    }

    /// A content is now this: the API server's answer to a write.
    pub(crate) fn wrote_content(&self, content: VolumeSnapshotContent) {
        self.contents.wrote(content);
    }

    /// A content was made, and is this.
    pub(crate) fn created_content(&self, content: VolumeSnapshotContent) {
        self.contents.created(content);
    }
}
