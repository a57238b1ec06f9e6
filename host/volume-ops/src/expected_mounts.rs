//! The mounts that should exist according to operations and recovery: published volumes and staging
//! mounts. The kernel's mount table is checked against them.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use volhost_core::Operation;
use volhost_kernel::KernelError;
use volhost_model::csi_layout;
use volhost_model::names::{PluginName, PodUid, SpecName, UniqueVolumeName};

use super::layout;
use super::node_folders::NodeFolders;

/// Where one volume is published for a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumePlace {
    /// The pod.
    pub pod: PodUid,
    /// The plugin.
    pub plugin: PluginName,
    /// The folder's name.
    pub spec_name: SpecName,
}

impl VolumePlace {
    /// Returns the paths below the root folder at one of which it is mounted: the second one is
    /// that of an earlier version.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let folder = layout::plugin_folder(&self.pod, &self.plugin).join(self.spec_name.as_str());
        match csi_layout::mount_in_folder(&self.plugin) {
            Some(inner) => vec![folder.join(inner), folder],
            None => vec![folder],
        }
    }

    pub(super) fn of(operation: &Operation, pod: &PodUid) -> Self {
        Self { pod: pod.clone(), plugin: operation.plugin.clone(), spec_name: operation.spec_name.clone() }
    }
}

/// Where one volume is staged.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodePlace {
    /// The plugin.
    pub plugin: PluginName,
    /// The volume.
    pub volume: UniqueVolumeName,
}

impl NodePlace {
    /// Returns the paths below the root folder at one of which it is mounted: the second one is
    /// that of an earlier version.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let folders = [
            Some(layout::mount_folder(&self.plugin, &self.volume)),
            layout::earlier_mount_folder(&self.plugin, &self.volume),
        ];
        folders.into_iter().flatten().map(|folder| folder.join(layout::GLOBAL_MOUNT)).collect()
    }

    pub(super) fn of(operation: &Operation) -> Self {
        Self { plugin: operation.plugin.clone(), volume: operation.volume.clone() }
    }
}

/// Mounts that should exist and do not.
#[derive(Debug, Default)]
pub struct VanishedMounts {
    /// Published volumes.
    pub of_pods: Vec<VolumePlace>,
    /// Staging mounts.
    pub of_node: Vec<NodePlace>,
}

impl VanishedMounts {
    /// Returns whether every mount exists.
    pub fn is_empty(&self) -> bool {
        self.of_pods.is_empty() && self.of_node.is_empty()
    }
}

/// The mounts that should exist. Worker threads change it, many at once.
#[derive(Debug, Default)]
pub(super) struct ExpectedMounts {
    published: Mutex<BTreeSet<VolumePlace>>,
    staged: Mutex<BTreeSet<NodePlace>>,
}

impl ExpectedMounts {
    pub(super) fn add_published(&self, place: VolumePlace) {
        lock(&self.published).insert(place);
    }

    /// The volume is about to be unpublished.
    pub(super) fn remove_published(&self, place: &VolumePlace) {
        lock(&self.published).remove(place);
    }

    pub(super) fn has_published(&self, place: &VolumePlace) -> bool {
        lock(&self.published).contains(place)
    }

    pub(super) fn published(&self) -> Vec<VolumePlace> {
        lock(&self.published).iter().cloned().collect()
    }

    pub(super) fn add_staged(&self, place: NodePlace) {
        lock(&self.staged).insert(place);
    }

    /// The volume is about to be unstaged.
    pub(super) fn remove_staged(&self, place: &NodePlace) {
        lock(&self.staged).remove(place);
    }

    /// Returns the expected mounts that do not exist. Enters no mount.
    ///
    /// # Errors
    /// The kernel's error when the mount table cannot be read.
    pub(super) fn vanished(&self, folders: &NodeFolders) -> Result<VanishedMounts, KernelError> {
        let (of_pods, of_node) = (self.published(), lock(&self.staged).clone());
        if of_pods.is_empty() && of_node.is_empty() {
            return Ok(VanishedMounts::default());
        }
        let mounted: HashSet<PathBuf> = folders.mount_points()?.into_iter().collect();
        // An operation may have mounted or unmounted it since the table was read.
        let is_gone = |paths: Vec<PathBuf>| {
            !paths.iter().any(|path| mounted.contains(path)) && !paths.iter().any(|path| folders.is_mounted(path))
        };
        let of_pods = of_pods.into_iter().filter(|place| is_gone(place.paths()) && self.has_published(place)).collect();
        let is_expected = |place: &NodePlace| lock(&self.staged).contains(place);
        let of_node = of_node.into_iter().filter(|place| is_gone(place.paths()) && is_expected(place)).collect();
        Ok(VanishedMounts { of_pods, of_node })
    }
}

/// Every change of a set is complete at any moment, so a thread that panicked with the lock has
/// broken nothing.
fn lock<T>(set: &Mutex<T>) -> MutexGuard<'_, T> {
    set.lock().unwrap_or_else(PoisonError::into_inner)
}
