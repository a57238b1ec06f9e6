//! Under which names CSI drivers' devices are in the kubelet's folders.
//!
//! The kubelet names these folders after the PersistentVolume. Two of them may name one volume, and
//! one that was made again may name another volume than before: the first that was staged has the
//! name until it is unstaged. On disk `vol_data.json` says so; recovery reads it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use volhost_model::csi_layout;
use volhost_model::names::{SpecName, UniqueVolumeName};

use super::kept_open::lock;

/// The names of the devices that are in the kubelet's folders.
#[derive(Debug, Default)]
pub(super) struct DeviceNames(Mutex<BTreeMap<UniqueVolumeName, SpecName>>);

impl DeviceNames {
    /// Returns the name of the volume's device; none if it is not in the kubelet's folders.
    pub(super) fn of(&self, volume: &UniqueVolumeName) -> Option<SpecName> {
        lock(&self.0).get(volume).cloned()
    }

    /// Gives the name to the volume. Returns false if another volume has it, the volume has another
    /// name, or no device can have it.
    pub(super) fn take(&self, volume: &UniqueVolumeName, name: &SpecName) -> bool {
        let mut names = lock(&self.0);
        let is_free = csi_layout::can_name_device(name)
            && !names.contains_key(volume)
            && !names.values().any(|taken| taken == name);
        if is_free {
            names.insert(volume.clone(), name.clone());
        }
        is_free
    }

    /// Gives the volume's name back.
    pub(super) fn give_back(&self, volume: &UniqueVolumeName) {
        lock(&self.0).remove(volume);
    }
}

#[cfg(test)]
mod tests {
    use volhost_model::names::PluginName;

    use super::*;

    #[test]
    fn a_name_is_one_volumes_until_it_is_given_back() {
        let plugin = PluginName::new(csi_layout::PLUGIN).unwrap();
        let volume = |handle| UniqueVolumeName::shared(&plugin, &csi_layout::volume_name("a.test", handle)).unwrap();
        let name = |text| SpecName::new(text).unwrap();
        let names = DeviceNames::default();
        assert!(names.take(&volume("one"), &name("pv")));
        assert!(!names.take(&volume("two"), &name("pv")), "a PersistentVolume that was made again");
        assert!(!names.take(&volume("two"), &name("staging")), "a folder of the kubelet's");
        assert_eq!((names.of(&volume("one")), names.of(&volume("two"))), (Some(name("pv")), None));
        assert!(!names.take(&volume("one"), &name("other")), "two PersistentVolumes of one volume");
        names.give_back(&volume("one"));
        assert!(names.take(&volume("two"), &name("pv")));
    }
}
