//! Compares specs: the same volume, the same source, the same mount, or an edit of a
//! PersistentVolume.

use std::collections::BTreeSet;
use std::sync::Arc;

use volhost_model::VolumeSpec;

/// Makes `one` the same value as `other` if they are equal, so that memory has it once: a node may
/// have tens of thousands of volumes.
pub(crate) fn share<T: PartialEq + ?Sized>(one: &mut Arc<T>, other: &Arc<T>) {
    if !Arc::ptr_eq(one, other) && **one == **other {
        *one = Arc::clone(other);
    }
}

/// Whether two specs mean the same mount: the same folder, source, options, label and mode. A
/// larger capacity is not another mount: it is an expansion; a changed claim or access mode changes
/// nothing that is mounted.
pub(crate) fn same_mount(a: &Arc<VolumeSpec>, b: &Arc<VolumeSpec>) -> bool {
    if Arc::ptr_eq(a, b) {
        return true;
    }
    let options =
        |spec: &VolumeSpec| spec.persistent_volume.as_ref().map(|pv| pv.mount_options.clone()).unwrap_or_default();
    a.name == b.name
        && a.source == b.source
        && a.fields == b.fields
        && a.read_only == b.read_only
        && a.selinux_label == b.selinux_label
        && a.is_block() == b.is_block()
        && options(a) == options(b)
}

/// Whether the PersistentVolume that was mounted as `made` has been edited since in what applies
/// only at a mount.
pub(crate) fn is_edit(made: &Arc<VolumeSpec>, now: &Arc<VolumeSpec>) -> bool {
    !edited_fields(made, now).is_empty()
}

/// The fields in which a PersistentVolume differs from what was mounted; none for what is no edit
/// of one PersistentVolume.
pub(crate) fn edited_fields(made: &Arc<VolumeSpec>, now: &Arc<VolumeSpec>) -> Vec<String> {
    let (Some(old), Some(new)) = (&made.persistent_volume, &now.persistent_volume) else { return Vec::new() };
    let same_volume = old.name == new.name && made.name == now.name && made.is_block() == now.is_block();
    if Arc::ptr_eq(made, now) || !same_volume || made.selinux_label != now.selinux_label {
        return Vec::new();
    }
    let mut fields = Vec::new();
    if old.mount_options != new.mount_options {
        fields.push("mountOptions".to_owned());
    }
    if made.source == now.source {
        let keys: BTreeSet<&String> = made.fields.keys().chain(now.fields.keys()).collect();
        let differing = keys.into_iter().filter(|key| made.fields.get(key) != now.fields.get(key));
        fields.extend(differing.map(|key| format!("{}.{key}", now.source)));
    } else {
        fields.push(format!("{} (was {})", now.source, made.source));
    }
    fields
}

/// The pod's mount was made of the volume that it wants now, however that has been edited since.
pub(crate) fn is_same_volume(made: &Arc<VolumeSpec>, now: &Arc<VolumeSpec>) -> bool {
    made.is_block() == now.is_block()
        && match (&made.persistent_volume, &now.persistent_volume) {
            (Some(made), Some(now)) => made.name == now.name,
            (None, None) => same_mount(made, now) || (made.name == now.name && is_same_inline(made, now)),
            _ => false,
        }
}

/// Two inline volumes have the same source, or two PersistentVolumes of one name the same driver.
pub(crate) fn is_same_source(one: &Arc<VolumeSpec>, other: &Arc<VolumeSpec>) -> bool {
    match (&one.persistent_volume, &other.persistent_volume) {
        (Some(a), Some(b)) => {
            a.name == b.name && one.source == other.source && one.parameter("driver") == other.parameter("driver")
        }
        (None, None) => is_same_inline(one, other),
        _ => false,
    }
}

fn is_same_inline(one: &VolumeSpec, other: &VolumeSpec) -> bool {
    one.source == other.source && one.fields == other.fields
}
