//! SELinux labels of volumes that the node mounts once: all its pods see the one label.

use volhost_model::VolumeSpec;

use super::Core;
use crate::actual::{ActualVolume, Mount};
use crate::blocked::{BlockedReason, MountedLabel};
use crate::desired::VolumeEntry;
use crate::identity::{PodId, VolumeId};

impl Core {
    /// Returns why the pod cannot have the volume with its label now: other pods have it mounted
    /// with another one, or the node still does.
    pub(super) fn label_conflict(
        &self,
        pod: &PodId,
        wanted: &VolumeEntry,
        volume: Option<&ActualVolume>,
    ) -> Option<BlockedReason> {
        let volume = volume.filter(|volume| self.has_other_label(volume, pod, &wanted.volume.spec))?;
        let other = volume.mounts.keys().find(|other| *other != pod);
        let mounted = volume.label_spec.as_ref();
        Some(BlockedReason::OtherLabel {
            pod: other.map(|other| self.pod_name(other)),
            mounted: mounted.map_or(MountedLabel::Unknown, |spec| MountedLabel::Known(spec.selinux_label.clone())),
            needed: wanted.volume.spec.selinux_label.clone(),
        })
    }

    /// The pod's mount has no record, and another label than the pod wants: it is unmounted before
    /// the volume is mounted again.
    pub(super) fn shows_other_label(
        &self,
        volume: &ActualVolume,
        pod: &PodId,
        mount: &Mount,
        wanted: &VolumeEntry,
    ) -> bool {
        mount.spec.is_none() && self.has_other_label(volume, pod, &wanted.volume.spec)
    }

    /// The node's mount has to go, though pods want the volume: it has a label that none of them
    /// wants, and no pod has it any more.
    pub(super) fn must_be_relabelled(&self, name: &VolumeId, volume: &ActualVolume) -> bool {
        let wanted = |pod| self.desired.wanted(pod, name).map(|wanted| (pod, wanted));
        let mut users = self.desired.users(name).filter_map(wanted).peekable();
        users.peek().is_some()
            && volume.mounts.is_empty()
            && users.all(|(pod, wanted)| self.has_other_label(volume, pod, &wanted.volume.spec))
    }

    /// The node has the volume mounted, or may, with another label than this one. Without a record,
    /// the label counts as the one that is wanted by the pod that may have it: nothing is unmounted
    /// under a pod because a record was lost.
    fn has_other_label(&self, volume: &ActualVolume, pod: &PodId, wanted: &VolumeSpec) -> bool {
        if !(volume.stageable && volume.device.may_exist()) {
            return false;
        }
        match &volume.label_spec {
            Some(spec) => spec.selinux_label != wanted.selinux_label,
            None => wanted.selinux_label.is_some() && !volume.mounts.contains_key(pod),
        }
    }
}
