//! The groups of snapshots of the cluster, and their contents and classes.

use std::sync::Arc;

use kube::Client;
use kube::runtime::reflector::ObjectRef;

use super::caches::OnChange;
use super::group_objects::{
    GROUP_DEFINITIONS, VolumeGroupSnapshot, VolumeGroupSnapshotClass, VolumeGroupSnapshotContent,
};
use super::known::ResourceSet;
use crate::cache::Cache;

/// What is called with changes.
#[derive(Clone)]
pub(crate) struct GroupHandlers {
    /// Of groups.
    pub(crate) groups: OnChange<VolumeGroupSnapshot>,
    /// Of contents.
    pub(crate) contents: OnChange<VolumeGroupSnapshotContent>,
    /// Of classes.
    pub(crate) classes: OnChange<VolumeGroupSnapshotClass>,
}

/// The objects.
#[derive(Debug, Clone)]
pub(crate) struct GroupCaches {
    groups: Cache<VolumeGroupSnapshot>,
    contents: Cache<VolumeGroupSnapshotContent>,
    classes: Cache<VolumeGroupSnapshotClass>,
}

impl ResourceSet for GroupCaches {
    type Handlers = GroupHandlers;

    const TITLE: &'static str = "groups of snapshots";
    const DEFINITIONS: [&'static str; 3] = GROUP_DEFINITIONS;

    fn start(client: &Client, handlers: &GroupHandlers) -> Self {
        let GroupHandlers { groups, contents, classes } = handlers.clone();
        Self {
            groups: Cache::start(client, Box::new(move |object, is_gone| groups(object, is_gone))),
            contents: Cache::start(client, Box::new(move |object, is_gone| contents(object, is_gone))),
            classes: Cache::start(client, Box::new(move |object, is_gone| classes(object, is_gone))),
        }
    }

    async fn wait_ready(&self) -> bool {
        tokio::try_join!(self.groups.wait_ready(), self.contents.wait_ready(), self.classes.wait_ready()).is_ok()
    }

    fn report(&self, handlers: &GroupHandlers) {
        self.classes.all().iter().for_each(|class| (handlers.classes)(class, false));
        self.contents.all().iter().for_each(|content| (handlers.contents)(content, false));
        self.groups.all().iter().for_each(|group| (handlers.groups)(group, false));
    }
}

impl GroupCaches {
    /// The group of this name.
    pub(crate) fn group(&self, namespace: &str, name: &str) -> Option<Arc<VolumeGroupSnapshot>> {
        self.groups.get(&ObjectRef::new(name).within(namespace))
    }

    /// The content of this name.
    pub(crate) fn content(&self, name: &str) -> Option<Arc<VolumeGroupSnapshotContent>> {
        self.contents.get(&ObjectRef::new(name))
    }

    /// Whether a content has the driver's snapshot of this handle.
    pub(crate) fn has(&self, driver: &str, handle: &str) -> bool {
        self.contents.find(|content| content.has(driver, handle)).is_some()
    }

    /// The class of this name.
    pub(crate) fn class(&self, name: &str) -> Option<Arc<VolumeGroupSnapshotClass>> {
        self.classes.get(&ObjectRef::new(name))
    }

    /// All classes.
    pub(crate) fn classes(&self) -> Vec<Arc<VolumeGroupSnapshotClass>> {
        self.classes.all()
    }

    /// A group is now this: the API server's answer to a write.
    pub(crate) fn wrote_group(&self, group: VolumeGroupSnapshot) {
        self.groups.wrote(group);
    }

    /// A content is now this: the API server's answer to a write.
    pub(crate) fn wrote_content(&self, content: VolumeGroupSnapshotContent) {
        self.contents.wrote(content);
    }

    /// A content was made, and is this.
    pub(crate) fn created_content(&self, content: VolumeGroupSnapshotContent) {
        self.contents.created(content);
    }
}
