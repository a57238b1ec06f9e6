//! Volumes that are made of other volumes of their pod: what is needed comes first and goes last.

use volhost_model::names::UniqueVolumeName;

use super::{Core, Turn};
use crate::actual::Mount;
use crate::blocked::BlockedReason;
use crate::desired::VolumeEntry;
use crate::identity::{PodId, VolumeId};

impl Core {
    /// Another volume of the pod that is mounted, may be, or is being mounted, is made of this one.
    pub(super) fn is_needed(&self, volume: &VolumeId, pod: &PodId) -> bool {
        let others = self.actual.made_of_others(pod).filter(|other| *other != volume);
        others.filter_map(|other| self.actual.mount(other, pod)).any(|mount| needs(mount, volume.name()))
    }

    /// What the mount is made of has to be unmounted: the mount goes first, and both are mounted
    /// again.
    pub(super) fn loses_needed(&self, pod: &PodId, mount: &Mount) -> bool {
        mount.needs.iter().any(|needed| {
            let Some(needed) = self.volume_names.get(&needed.unique_name) else { return false };
            let below = self.actual.mount(needed, pod).filter(|below| below.state.may_exist());
            let wanted = self.wanted(pod, needed);
            below.zip(wanted).is_some_and(|(below, wanted)| below.must_be_replaced(wanted))
        })
    }

    /// Returns the volume of the pod that this one is made of and that is not mounted yet, or not
    /// as it is wanted.
    pub(super) fn missing_need(&self, pod: &PodId, wanted: &VolumeEntry) -> Option<BlockedReason> {
        let missing = wanted.volume.needs.iter().find(|needed| {
            let Some(needed) = self.volume_names.get(&needed.unique_name) else { return true };
            let below = self.wanted(pod, needed);
            !below.is_some_and(|below| self.is_mounted_as_wanted(pod, needed, below))
        })?;
        Some(BlockedReason::NeedsVolume(missing.name.clone()))
    }

    /// Marks the volumes that are made of this one, which was or may have been mounted or
    /// unmounted.
    pub(super) fn needed_changed(&self, volume: &VolumeId, pod: &PodId, turn: &mut Turn) {
        let Some(entry) = self.desired.pod(pod).filter(|entry| entry.has_needs) else { return };
        let above = entry
            .volumes
            .iter()
            .filter(|(_, wanted)| wanted.volume.needs.iter().any(|needed| needed.unique_name == *volume.name()));
        turn.dirty.extend(above.map(|(name, _)| name.clone()));
    }
}

fn needs(mount: &Mount, volume: &UniqueVolumeName) -> bool {
    mount.needs.iter().any(|needed| needed.unique_name == *volume)
}
