//! The actual state of the world: what is mounted, staged or attached, or may be. Only the outcomes
//! of operations and recovery change it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use volhost_model::names::{OuterName, PluginName, PodUid, SpecName, UniqueVolumeName};
use volhost_model::{ContainerMount, NeededVolume, Pod, VolumeSpec};

use crate::compare::is_same_source;
use crate::event::Time;
use crate::identity::{ById, PodId, VolumeId};
use crate::small_map::SmallMap;
use crate::transitions::MountState;

/// A volume that is attached, staged or mounted, or may be, or is being.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ActualVolume {
    /// Its plugin.
    pub(crate) plugin: PluginName,
    /// Its name in pods' folders.
    pub(crate) spec_name: SpecName,
    /// Its spec, as far as known.
    #[serde(with = "crate::shared::option")]
    pub(crate) spec: Option<Arc<VolumeSpec>>,
    /// The spec with which it was staged, or may have been; none while it was not, or when the spec
    /// is unknown.
    #[serde(with = "crate::shared::option")]
    pub(crate) label_spec: Option<Arc<VolumeSpec>>,
    /// It must be attached to be used.
    pub(crate) attachable: bool,
    /// It is staged: mounted once on the node, then once for each pod.
    pub(crate) stageable: bool,
    /// Its attachment; stays absent for volumes that need none.
    pub(crate) attach: MountState,
    /// The other node that has it attached, or may, as the last attempt to attach it found out.
    /// That node's own host detaches it there.
    pub(crate) other_node: Option<String>,
    /// Its device mount.
    pub(crate) device: MountState,
    /// Its device mount vanished while an operation on it ran. Unless the operation brings it back,
    /// it is gone.
    pub(crate) device_vanished: bool,
    /// Where the device is.
    pub(crate) device_path: Option<String>,
    /// Its size in bytes, as far as known.
    pub(crate) size: Option<u64>,
    /// The size in bytes that its plugin refuses to give it.
    pub(crate) refused_size: Option<u64>,
    /// Its pods' mounts, those included that are being made for the first time. An image lists them
    /// separately.
    #[serde(skip)]
    pub(crate) mounts: SmallMap<PodId, Box<Mount>>,
}

/// One pod's mount of a volume.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Mount {
    /// Absent only while its first operation runs.
    pub(crate) state: MountState,
    /// Recovery found it complete: it may be adopted without an operation.
    pub(crate) intact: bool,
    /// An operation is unmounting it: it no longer counts as mounted.
    pub(crate) leaving: bool,
    /// It vanished while an operation on it ran. Unless the operation brings it back, it is gone.
    pub(crate) vanished: bool,
    /// Its content may be stale.
    pub(crate) remount_required: bool,
    /// The spec with which it was mounted.
    #[serde(with = "crate::shared::option")]
    pub(crate) spec: Option<Arc<VolumeSpec>>,
    /// The uses by containers that it was made ready for.
    #[serde(with = "crate::shared::list")]
    pub(crate) container_mounts: Arc<[ContainerMount]>,
    /// An attempt to make it ready for other uses has failed on the way: which parts are mounted is
    /// not known.
    pub(crate) parts_unsure: bool,
    /// The volumes of the pod that it is made of, as far as known. Changed by
    /// [`ActualState::set_needs`].
    #[serde(with = "crate::shared::list")]
    pub(crate) needs: Arc<[NeededVolume]>,
    /// The name of its folder. Changed by [`ActualState::set_folder`].
    pub(crate) spec_name: SpecName,
    /// It is a device, not a file system.
    pub(crate) block: bool,
    /// It is mounted at the volume's folder itself, as an earlier version did whose plugin's
    /// volumes are mounted in a folder now.
    #[serde(default)]
    pub(crate) at_folder: bool,
    /// The pod's object, as far as known.
    #[serde(with = "crate::shared::option")]
    pub(crate) pod: Option<Arc<Pod>>,
    /// The names it had in the pod when it was last wanted; empty when recovery found it.
    pub(crate) outer_names: Vec<OuterName>,
    /// When it was begun, or found.
    pub(crate) since: Time,
    /// When it became ready.
    pub(crate) ready_at: Option<Time>,
}

impl Mount {
    /// It is mounted for certain, and stays.
    pub(crate) const fn is_usable(&self) -> bool {
        self.state.is_present() && !self.leaving
    }
}

/// The volumes that a pod has mounts of.
#[derive(Debug, Clone, Default)]
struct MountsOfPod {
    volumes: BTreeSet<VolumeId>,
    /// The same by the name of their folder, sorted. A vector: most pods have few volumes.
    folders: Vec<(SpecName, VolumeId)>,
    /// Those that are made of other volumes of the pod.
    made_of_others: BTreeSet<VolumeId>,
}

impl MountsOfPod {
    fn insert(&mut self, volume: &VolumeId, mount: &Mount) {
        self.volumes.insert(volume.clone());
        self.set_needs(volume, !mount.needs.is_empty());
        if let Err(place) = self.place(&mount.spec_name, volume) {
            self.folders.insert(place, (mount.spec_name.clone(), volume.clone()));
        }
    }

    fn remove(&mut self, volume: &VolumeId, mount: &Mount) {
        self.volumes.remove(volume);
        self.set_needs(volume, false);
        if let Ok(place) = self.place(&mount.spec_name, volume) {
            self.folders.remove(place);
        }
    }

    fn set_needs(&mut self, volume: &VolumeId, made_of_others: bool) {
        if made_of_others {
            self.made_of_others.insert(volume.clone());
        } else {
            self.made_of_others.remove(volume);
        }
    }

    fn place(&self, folder: &SpecName, volume: &VolumeId) -> Result<usize, usize> {
        self.folders.binary_search_by(|(name, of)| (name, of).cmp(&(folder, volume)))
    }

    fn in_folder(&self, folder: &SpecName) -> impl Iterator<Item = &VolumeId> {
        let from = self.folders.partition_point(|(name, _)| name < folder);
        self.folders.iter().skip(from).take_while(move |(name, _)| name == folder).map(|(_, volume)| volume)
    }
}

/// Volumes, and for each pod the volumes it has a mount of.
#[derive(Debug, Clone, Default)]
pub(crate) struct ActualState {
    volumes: ById<UniqueVolumeName, ActualVolume>,
    by_pod: ById<PodUid, MountsOfPod>,
    /// The volumes that pods can share, by [`VolumeSpec::source_key`].
    by_source: BTreeMap<String, BTreeSet<VolumeId>>,
}

impl ActualState {
    /// The volume.
    pub(crate) fn get(&self, name: &VolumeId) -> Option<&ActualVolume> {
        self.volumes.get(name)
    }

    /// The volume, to be changed; its mounts are added and removed with
    /// [`ActualState::insert_mount`] and [`ActualState::remove_mount`].
    pub(crate) fn get_mut(&mut self, name: &VolumeId) -> Option<&mut ActualVolume> {
        self.volumes.get_mut(name)
    }

    /// Every volume, in an order of no meaning.
    pub(crate) fn volumes(&self) -> impl Iterator<Item = (&VolumeId, &ActualVolume)> {
        self.volumes.iter()
    }

    /// Every volume, to be changed, in an order of no meaning.
    pub(crate) fn volumes_mut(&mut self) -> impl Iterator<Item = (&VolumeId, &mut ActualVolume)> {
        self.volumes.iter_mut()
    }

    /// The volume, made by `new` if it is not there.
    pub(crate) fn entry(&mut self, name: &VolumeId, new: impl FnOnce() -> ActualVolume) -> Option<&mut ActualVolume> {
        self.volumes.entry(name, new)
    }

    /// The mount of `volume` by `pod`.
    pub(crate) fn mount(&self, volume: &VolumeId, pod: &PodId) -> Option<&Mount> {
        self.volumes.get(volume)?.mounts.get(pod).map(Box::as_ref)
    }

    /// The mount of `volume` by `pod`, to be changed.
    pub(crate) fn mount_mut(&mut self, volume: &VolumeId, pod: &PodId) -> Option<&mut Mount> {
        self.volumes.get_mut(volume)?.mounts.get_mut(pod).map(Box::as_mut)
    }

    /// Puts a mount on a volume that is there, in place of an earlier one.
    pub(crate) fn insert_mount(&mut self, volume: &VolumeId, pod: &PodId, mount: Mount) {
        self.remove_mount(volume, pod);
        if let Some(entry) = self.volumes.get_mut(volume) {
            if let Some(of_pod) = self.by_pod.entry(pod, MountsOfPod::default) {
                of_pod.insert(volume, &mount);
            }
            entry.mounts.insert(pod.clone(), Box::new(mount));
        }
    }

    /// Takes a mount that is known to be gone off its volume.
    pub(crate) fn remove_mount(&mut self, volume: &VolumeId, pod: &PodId) -> Option<Mount> {
        let mount = self.volumes.get_mut(volume)?.mounts.remove(pod)?;
        if let Some(of_pod) = self.by_pod.get_mut(pod) {
            of_pod.remove(volume, &mount);
            if of_pod.volumes.is_empty() {
                self.by_pod.remove(pod);
            }
        }
        Some(*mount)
    }

    /// Forgets a volume that has no mounts.
    pub(crate) fn remove(&mut self, name: &VolumeId) {
        if self.volumes.get(name).is_some_and(|volume| volume.mounts.is_empty()) {
            self.set_spec(name, None);
            self.volumes.remove(name);
        }
    }

    /// Sets what the volume is, as far as known.
    pub(crate) fn set_spec(&mut self, name: &VolumeId, spec: Option<Arc<VolumeSpec>>) {
        let Some(volume) = self.volumes.get_mut(name) else { return };
        let shared = volume.attachable || volume.stageable;
        let key = |spec: Option<&Arc<VolumeSpec>>| spec.map(|spec| spec.source_key()).filter(|_| shared);
        if !shared || (volume.spec.as_ref().zip(spec.as_ref())).is_some_and(|(old, new)| Arc::ptr_eq(old, new)) {
            volume.spec = spec;
            return;
        }
        let (before, after) = (key(volume.spec.as_ref()), key(spec.as_ref()));
        volume.spec = spec;
        if let Some(before) = before.filter(|before| Some(before) != after.as_ref())
            && let Some(names) = self.by_source.get_mut(&before)
        {
            names.remove(name);
            if names.is_empty() {
                self.by_source.remove(&before);
            }
        }
        if let Some(after) = after {
            self.by_source.entry(after).or_default().insert(name.clone());
        }
    }

    /// The volumes that pods can share and whose source is this one.
    pub(crate) fn with_source(&self, spec: &Arc<VolumeSpec>) -> impl Iterator<Item = (&VolumeId, &ActualVolume)> {
        // Building a key costs more than to see that there is none.
        let names = (!self.by_source.is_empty()).then(|| self.by_source.get(&spec.source_key())).flatten();
        let volumes = names.into_iter().flatten().filter_map(|name| Some((name, self.volumes.get(name)?)));
        volumes.filter(move |(_, volume)| volume.spec.as_ref().is_some_and(|known| is_same_source(known, spec)))
    }

    /// The volumes that `pod` has mounts of, in progress or uncertain included.
    pub(crate) fn volumes_of(&self, pod: &PodId) -> impl Iterator<Item = &VolumeId> {
        self.by_pod.get(pod).into_iter().flat_map(|of_pod| &of_pod.volumes)
    }

    /// Whether anything of `pod` is mounted, may be, or is being mounted.
    pub(crate) fn has_mounts_of(&self, pod: &PodId) -> bool {
        self.by_pod.contains(pod)
    }

    /// Another volume of `pod` that occupies the folder which `volume` would use.
    pub(crate) fn folder_taken_by(
        &self,
        pod: &PodId,
        plugin: &PluginName,
        spec_name: &SpecName,
        volume: &VolumeId,
    ) -> Option<&VolumeId> {
        let is_of_plugin = |other: &VolumeId| self.volumes.get(other).is_some_and(|of| of.plugin == *plugin);
        self.in_folder(pod, spec_name).find(|other| *other != volume && is_of_plugin(other))
    }

    /// The volumes that `pod` has mounts of in folders of this name.
    pub(crate) fn in_folder(&self, pod: &PodId, spec_name: &SpecName) -> impl Iterator<Item = &VolumeId> {
        self.by_pod.get(pod).into_iter().flat_map(|of_pod| of_pod.in_folder(spec_name))
    }

    /// The volumes that `pod` has mounts of and that are made of other volumes of it.
    pub(crate) fn made_of_others(&self, pod: &PodId) -> impl Iterator<Item = &VolumeId> {
        self.by_pod.get(pod).into_iter().flat_map(|of_pod| &of_pod.made_of_others)
    }

    /// Sets the name of the folder that the mount is in.
    pub(crate) fn set_folder(&mut self, volume: &VolumeId, pod: &PodId, spec_name: &SpecName) {
        let mount = self.volumes.get_mut(volume).and_then(|volume| volume.mounts.get_mut(pod));
        if let Some(mount) = mount.filter(|mount| mount.spec_name != *spec_name)
            && let Some(of_pod) = self.by_pod.get_mut(pod)
        {
            of_pod.remove(volume, mount);
            mount.spec_name = spec_name.clone();
            of_pod.insert(volume, mount);
        }
    }

    /// Sets the volumes of the pod that the mount is made of.
    pub(crate) fn set_needs(&mut self, volume: &VolumeId, pod: &PodId, needs: Arc<[NeededVolume]>) {
        let mount = self.volumes.get_mut(volume).and_then(|volume| volume.mounts.get_mut(pod));
        if let Some(mount) = mount
            && let Some(of_pod) = self.by_pod.get_mut(pod)
        {
            of_pod.set_needs(volume, !needs.is_empty());
            mount.needs = needs;
        }
    }
}
