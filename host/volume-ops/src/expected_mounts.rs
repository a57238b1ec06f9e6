//! The mounts that should exist according to operations and recovery: published volumes and staging
//! mounts. The kernel's mount table is checked against them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use volhost_core::Operation;
use volhost_kernel::{KernelError, MountId};
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
    published: PlacesWithMounts<VolumePlace>,
    staged: PlacesWithMounts<NodePlace>,
}

/// Places where a mount is expected, with the mount that was seen there last; none where nobody has
/// looked yet.
#[derive(Debug)]
struct PlacesWithMounts<P>(Mutex<BTreeMap<P, Option<MountId>>>);

impl<P> Default for PlacesWithMounts<P> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl ExpectedMounts {
    /// The volume is published; `mount` is its mount, if it was looked at.
    pub(super) fn add_published(&self, place: VolumePlace, mount: Option<MountId>) {
        self.published.add(place, mount);
    }

    /// The volume is about to be unpublished.
    pub(super) fn remove_published(&self, place: &VolumePlace) {
        self.published.remove(place);
    }

    pub(super) fn has_published(&self, place: &VolumePlace) -> bool {
        self.published.lock().contains_key(place)
    }

    pub(super) fn published(&self) -> Vec<VolumePlace> {
        self.published.lock().keys().cloned().collect()
    }

    pub(super) fn add_staged(&self, place: NodePlace) {
        self.staged.add(place, None);
    }

    /// The volume is about to be unstaged.
    pub(super) fn remove_staged(&self, place: &NodePlace) {
        self.staged.remove(place);
    }

    /// Returns the expected mounts that do not exist. Enters no mount. Looks at the places of new
    /// mounts and of those whose mount is gone; the others cost no system call. A mount that another
    /// process has moved to another place exists.
    ///
    /// # Errors
    /// The kernel's error when the mount table cannot be read.
    pub(super) fn vanished(&self, folders: &NodeFolders) -> Result<VanishedMounts, KernelError> {
        if self.published.lock().is_empty() && self.staged.lock().is_empty() {
            return Ok(VanishedMounts::default());
        }
        let mounts = folders.mount_ids()?.unwrap_or_default();
        Ok(VanishedMounts {
            of_pods: self.published.vanished(&mounts, |place| mount_at(folders, &place.paths())),
            of_node: self.staged.vanished(&mounts, |place| mount_at(folders, &place.paths())),
        })
    }
}

impl<P: Ord + Clone> PlacesWithMounts<P> {
    fn add(&self, place: P, mount: Option<MountId>) {
        self.lock().insert(place, mount);
    }

    fn remove(&self, place: &P) {
        self.lock().remove(place);
    }

    /// Returns the places without a mount. `mounts`: the ids of all, in their order; empty if the
    /// kernel gives ids again, and then every place is looked at.
    fn vanished(&self, mounts: &[MountId], look: impl Fn(&P) -> Result<Option<MountId>, KernelError>) -> Vec<P> {
        let exists = |mount: &Option<MountId>| mount.is_some_and(|id| mounts.binary_search(&id).is_ok());
        let unknown: Vec<P> =
            self.lock().iter().filter(|(_, mount)| !exists(mount)).map(|(place, _)| place.clone()).collect();
        let mut gone = Vec::new();
        for place in unknown {
            // What cannot be looked at is looked at again the next time.
            let Ok(found) = look(&place) else { continue };
            // An operation may have begun to unmount it.
            let mut places = self.lock();
            let Some(mount) = places.get_mut(&place) else { continue };
            *mount = found;
            drop(places);
            if found.is_none() {
                gone.push(place);
            }
        }
        gone
    }

    /// Every change is complete at any moment, so a thread that panicked with the lock has broken
    /// nothing.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<P, Option<MountId>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The mount at the first of these paths that has one.
fn mount_at(folders: &NodeFolders, paths: &[PathBuf]) -> Result<Option<MountId>, KernelError> {
    for path in paths {
        if let Some(id) = folders.mount_at(path)? {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn only_new_places_and_those_whose_mount_is_gone_are_looked_at() {
        let places = PlacesWithMounts::default();
        places.add("a", None);
        places.add("b", None);
        let looked = RefCell::new(Vec::new());
        let look = |ids: &'static [(&'static str, u64)]| {
            let looked = &looked;
            move |place: &&'static str| {
                looked.borrow_mut().push((*place).to_owned());
                Ok(ids.iter().find(|(name, _)| name == place).map(|(_, id)| MountId(*id)))
            }
        };
        let mounts = [MountId(3), MountId(4), MountId(7)];
        assert!(places.vanished(&mounts, look(&[("a", 4), ("b", 7)])).is_empty());
        assert_eq!(looked.take(), ["a", "b"]);
        assert!(places.vanished(&mounts, look(&[])).is_empty(), "both are in the table");
        assert!(looked.take().is_empty());

        places.add("c", None);
        assert_eq!(places.vanished(&[MountId(4), MountId(8)], look(&[("c", 8)])), ["b"]);
        assert_eq!(looked.take(), ["b", "c"]);
        // Mounted again by another process, with another id.
        assert!(places.vanished(&[MountId(4), MountId(8), MountId(9)], look(&[("b", 9)])).is_empty());
        assert_eq!(looked.take(), ["b"]);

        // Without lasting ids every place is looked at.
        assert_eq!(places.vanished(&[], look(&[("a", 4), ("b", 9)])), ["c"]);
        assert_eq!(looked.take(), ["a", "b", "c"]);
    }

    #[test]
    fn a_place_that_cannot_be_looked_at_or_is_being_unmounted_has_not_vanished() {
        let places = PlacesWithMounts::default();
        places.add("a", None);
        let broken = |_: &&'static str| Err(KernelError::NotEmpty { path: "a".to_owned() });
        assert!(places.vanished(&[], broken).is_empty());
        let unmounting = |place: &&'static str| {
            places.remove(place);
            Ok(None)
        };
        assert!(places.vanished(&[], unmounting).is_empty());
        assert!(places.lock().is_empty());
    }
}
