//! Volumes that are made of other volumes of their pod: what is needed comes first and goes last.

use volhost_model::names::{PodUid, UniqueVolumeName};

use crate::actual::Mount;
use crate::blocked::BlockedReason;
use crate::core::{Core, Turn};
use crate::desired::Wanted;

impl Core {
    /// Another volume of the pod that stands, or may, or is being made, is made of this one.
    pub(crate) fn is_needed(&self, volume: &UniqueVolumeName, pod: &PodUid) -> bool {
        let others = self.actual.volumes_of(pod).filter(|other| *other != volume);
        others.filter_map(|other| self.actual.mount(other, pod)).any(|mount| needs(mount, volume))
    }

    /// What the mount is made of has to be taken away: the mount goes before, and both are made again.
    pub(crate) fn loses_what_it_needs(&self, pod: &PodUid, mount: &Mount) -> bool {
        mount.needs.iter().any(|needed| {
            let below = self.actual.mount(&needed.unique_name, pod).filter(|below| below.stage.may_be());
            let wanted = self.wanted(pod, &needed.unique_name);
            below.zip(wanted).is_some_and(|(below, wanted)| below.must_be_replaced(wanted))
        })
    }

    /// What the pod's volume waits for before it can be made: another volume of the pod that does not stand yet, or not as it is wanted.
    pub(crate) fn missing_need(&self, pod: &PodUid, wanted: &Wanted) -> Option<BlockedReason> {
        let missing = wanted.volume.needs.iter().find(|needed| {
            let below = self.wanted(pod, &needed.unique_name);
            !below.is_some_and(|below| self.is_mounted_as_wanted(pod, &needed.unique_name, below))
        })?;
        Some(BlockedReason::NeedsVolume(missing.name.clone()))
    }

    /// Whether the pod's volume stands has changed, or may have: those that are made of it are looked at.
    pub(crate) fn needed_changed(&self, volume: &UniqueVolumeName, pod: &PodUid, turn: &mut Turn) {
        let Some(entry) = self.desired.pod(pod) else { return };
        let above = entry
            .volumes
            .iter()
            .filter(|(_, wanted)| wanted.volume.needs.iter().any(|needed| needed.unique_name == *volume));
        turn.dirty.extend(above.map(|(name, _)| name.clone()));
    }
}

fn needs(mount: &Mount, volume: &UniqueVolumeName) -> bool {
    mount.needs.iter().any(|needed| needed.unique_name == *volume)
}
