//! Edits of PersistentVolumes that pods have mounted: they are shown and reported, and apply at the
//! next mount, staging included.

use super::{Core, Turn};
use crate::actual::ActualVolume;
use crate::compare::{edited_fields, is_edit};
use crate::desired::VolumeEntry;
use crate::identity::{PodId, VolumeId};

impl Core {
    /// Reports each edit of a volume that the pod has mounted, once.
    pub(super) fn note_edits(&mut self, uid: &PodId, turn: &mut Turn) {
        let Some(entry) = self.desired.pod(uid) else { return };
        let persistent = entry.volumes.iter().filter(|(_, wanted)| wanted.volume.spec.persistent_volume.is_some());
        let names: Vec<VolumeId> = persistent.map(|(name, _)| name.clone()).collect();
        for name in names {
            self.note_edit(uid, &name, turn);
        }
    }

    /// Notes which edit the pod's mount does not have, and reports it if it is new.
    pub(super) fn note_edit(&mut self, uid: &PodId, name: &VolumeId, turn: &mut Turn) {
        let Some(wanted) = self.desired.wanted(uid, name) else { return };
        let pending = self.pending_edit(uid, name, wanted);
        if wanted.pending_edit == pending {
            return;
        }
        if let Some(fields) = &pending {
            self.publish_edit(uid, name, wanted, fields, turn);
        }
        if let Some(wanted) = self.desired.wanted_mut(uid, name) {
            wanted.pending_edit = pending;
        }
        turn.changed_pods.insert(uid.clone());
    }

    /// The fields that were edited since the pod's volume was mounted, or staged.
    fn pending_edit(&self, uid: &PodId, name: &VolumeId, wanted: &VolumeEntry) -> Option<String> {
        let volume = self.actual.get(name)?;
        let mount = volume.mounts.get(uid).filter(|mount| mount.state.is_present())?;
        let declared = wanted.volume.declared.as_ref().unwrap_or(&wanted.volume.spec);
        let kept = mount.keeps_edit(wanted) || wanted.volume.declared.is_some();
        let of_mount = mount.spec.as_ref().filter(|_| kept).map(|made| edited_fields(made, declared));
        let staged = volume.label_spec.as_ref().filter(|_| is_staged_before_edit(volume, wanted));
        let fields = of_mount.filter(|fields| !fields.is_empty());
        let fields = fields.or_else(|| staged.map(|staged| edited_fields(staged, declared)))?;
        Some(fields.join(", ")).filter(|fields| !fields.is_empty())
    }

    /// The node's mount has to go though pods want the volume: no pod has it, and its
    /// PersistentVolume was edited since.
    pub(super) fn must_be_staged_again(&self, name: &VolumeId, volume: &ActualVolume) -> bool {
        let mut users = self.desired.users(name).filter_map(|pod| self.desired.wanted(pod, name)).peekable();
        users.peek().is_some()
            && volume.mounts.is_empty()
            && users.all(|wanted| wanted.volume.blocked.is_none() && is_staged_before_edit(volume, wanted))
    }
}

/// The node has the volume staged, or may, as its PersistentVolume was before an edit.
pub(super) fn is_staged_before_edit(volume: &ActualVolume, wanted: &VolumeEntry) -> bool {
    volume.stageable
        && volume.device.may_exist()
        && volume.label_spec.as_ref().is_some_and(|staged| is_edit(staged, &wanted.volume.spec))
}
