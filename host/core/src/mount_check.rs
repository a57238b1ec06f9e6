//! Checks a pod's mount against what the pod wants.

use volhost_model::ContainerMount;

use crate::actual::Mount;
use crate::compare::{is_edit, same_mount};
use crate::desired::VolumeEntry;

impl Mount {
    /// The mount was made with another spec than is wanted now, and not just before an edit of its
    /// PersistentVolume. A spec that was not recorded differs from nothing.
    pub(crate) fn is_outdated(&self, wanted: &VolumeEntry) -> bool {
        self.spec.as_ref().is_some_and(|spec| !same_mount(spec, &wanted.volume.spec)) && !self.keeps_edit(wanted)
    }

    /// The mount keeps what its PersistentVolume was before an edit, until the next mount.
    pub(crate) fn keeps_edit(&self, wanted: &VolumeEntry) -> bool {
        !wanted.volume.follows_source
            && self.spec_name == wanted.volume.spec.name
            && self.spec.as_ref().is_some_and(|made| is_edit(made, &wanted.volume.spec))
    }

    /// The mount was not made ready for the parts of the volume that the pod's containers now name,
    /// or for how they use them.
    pub(crate) fn lacks_parts(&self, wanted: &VolumeEntry) -> bool {
        self.parts_unsure || !same_parts(&self.container_mounts, &wanted.volume.container_mounts)
    }

    /// The mount has to be unmounted before the wanted one can be made: it has another spec, and
    /// its plugin does not refresh in place.
    pub(crate) fn must_be_replaced(&self, wanted: &VolumeEntry) -> bool {
        let spec = &wanted.volume.spec;
        self.spec_name != spec.name
            || (self.spec.is_some() && self.block != spec.is_block())
            || (!wanted.volume.follows_source && self.is_outdated(wanted))
            || (self.spec.is_some() && self.needs != wanted.volume.needs)
    }
}

/// The uses name the same parts, to be used in the same way.
pub(crate) fn same_parts(one: &[ContainerMount], other: &[ContainerMount]) -> bool {
    fn parts(mounts: &[ContainerMount]) -> impl Iterator<Item = &ContainerMount> {
        mounts.iter().filter(|mount| mount.sub_path.is_some())
    }
    parts(one).eq(parts(other))
}
