//! Which volumes stand as mounts, in pods' folders and for the node, as far as operations and recovery say: what the kernel's table is held against.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use volhost_model::names::{PluginName, PodUid, SpecName, UniqueVolumeName};

use super::layout;

/// The place of one volume in a pod's folder.
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
    /// Its path below the root folder.
    pub fn path(&self) -> PathBuf {
        layout::plugin_folder(&self.pod, &self.plugin).join(self.spec_name.as_str())
    }
}

/// The node's own mount of a volume.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodePlace {
    /// The plugin.
    pub plugin: PluginName,
    /// The volume.
    pub volume: UniqueVolumeName,
}

impl NodePlace {
    /// Its path below the root folder.
    pub fn path(&self) -> PathBuf {
        layout::mount_folder(&self.plugin, &self.volume).join(layout::GLOBAL_MOUNT)
    }
}

/// The places where mounts stand. Operations write it from their threads.
#[derive(Debug, Default)]
pub struct StandingMounts {
    of_pods: Mutex<BTreeSet<VolumePlace>>,
    of_node: Mutex<BTreeSet<NodePlace>>,
}

impl StandingMounts {
    /// Every change is whole at any moment, so a thread that unwound while it held the lock has broken nothing.
    fn lock(&self) -> MutexGuard<'_, BTreeSet<VolumePlace>> {
        self.of_pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_node(&self) -> MutexGuard<'_, BTreeSet<NodePlace>> {
        self.of_node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node's own mount stands, and is to stay.
    pub fn stands_on_node(&self, place: NodePlace) {
        self.lock_node().insert(place);
    }

    /// The node's own mount is about to be taken away.
    pub fn leaves_node(&self, place: &NodePlace) {
        self.lock_node().remove(place);
    }

    /// Whether the node's own mount is to stand.
    pub fn has_on_node(&self, place: &NodePlace) -> bool {
        self.lock_node().contains(place)
    }

    /// All mounts of the node's own.
    pub fn all_on_node(&self) -> Vec<NodePlace> {
        self.lock_node().iter().cloned().collect()
    }

    /// A mount stands there, and is to stay.
    pub fn stands(&self, place: VolumePlace) {
        self.lock().insert(place);
    }

    /// What stands there is about to be taken away.
    pub fn leaves(&self, place: &VolumePlace) {
        self.lock().remove(place);
    }

    /// Whether a mount is to stand there.
    pub fn has(&self, place: &VolumePlace) -> bool {
        self.lock().contains(place)
    }

    /// All places.
    pub fn all(&self) -> Vec<VolumePlace> {
        self.lock().iter().cloned().collect()
    }
}
