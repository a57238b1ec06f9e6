//! Where the kubelet has the volumes of CSI drivers below its root folder. Drivers parse these
//! paths, so volhost has the same.
//!
//! ```text
//! pods/UID/volumes/kubernetes.io~csi/NAME/mount          a pod's mount
//! pods/UID/volumes/kubernetes.io~csi/NAME/vol_data.json  which volume that is
//! plugins/kubernetes.io/csi/DRIVER/SHA256/globalmount    the staging mount
//! plugins/kubernetes.io/csi/DRIVER/SHA256/vol_data.json  which volume that is
//!
//! pods/UID/volumeDevices/kubernetes.io~csi/NAME               a pod's link to the device
//! plugins/kubernetes.io/csi/volumeDevices/staging/NAME        where the driver stages the device
//! plugins/kubernetes.io/csi/volumeDevices/publish/NAME/UID    where it publishes the device for a pod
//! plugins/kubernetes.io/csi/volumeDevices/NAME/dev/UID        the device, bound for a pod
//! plugins/kubernetes.io/csi/volumeDevices/NAME/data/vol_data.json   which volume that is
//! ```
//!
//! The layout belongs to the plugin's name, as it does for the kubelet, and the plugin declares
//! nothing: recovery reads these folders before any plugin is loaded, and a volume is unmounted
//! although its plugin is gone.

use crate::names::{PluginName, SpecName};

/// The plugin whose volumes have this layout.
pub const PLUGIN: &str = "kubernetes.io/csi";
/// The mount in the folder of a pod's volume.
pub const MOUNT: &str = "mount";
/// The file that names the volume, beside its mount.
pub const VOLUME_DATA: &str = "vol_data.json";
/// The folder of the places where drivers stage devices, beside the volumes' own folders.
pub const STAGED_DEVICES: &str = "staging";
/// The folder of the places where drivers publish devices for pods.
pub const PUBLISHED_DEVICES: &str = "publish";
/// The folder, in a volume's own, of its device as it is bound for pods.
pub const BOUND_DEVICES: &str = "dev";
/// The folder, in a volume's own, of [`VOLUME_DATA`].
pub const DEVICE_DATA: &str = "data";
/// The plugin's name for the device place where the driver stages.
pub const STAGING_PLACE: &str = "staging";
/// What begins the plugin's names for the device places of pods; a pod's uid follows.
pub const POD_PLACE: &str = "pod-";
/// The separator of driver and handle in a volume's name.
const BETWEEN: char = '^';

/// Returns the name of the mount in the folder of a pod's volume; none for a plugin whose volumes
/// are mounted at the folder itself.
pub fn mount_in_folder(plugin: &PluginName) -> Option<&'static str> {
    (plugin.as_str() == PLUGIN).then_some(MOUNT)
}

/// Returns the driver and its handle of a volume that the plugin names so; none for another
/// plugin, and for a volume of one pod alone.
pub fn driver_and_handle<'a>(plugin: &PluginName, volume_name: &'a str) -> Option<(&'a str, &'a str)> {
    let (driver, handle) = (plugin.as_str() == PLUGIN).then(|| volume_name.split_once(BETWEEN))??;
    // The driver's name is a folder's.
    let is_component = !driver.is_empty() && !driver.starts_with('.') && !driver.contains('/');
    (is_component && !handle.is_empty()).then_some((driver, handle))
}

/// Returns the plugin's name for a driver's volume, the inverse of [`driver_and_handle`].
pub fn volume_name(driver: &str, handle: &str) -> String {
    format!("{driver}{BETWEEN}{handle}")
}

/// Returns whether a device can be in a folder of this name. The kubelet uses the
/// PersistentVolume's name for any; two of these are its own folders. Those that volhost makes of a
/// volume's name have a `~`, which is in no PersistentVolume's.
pub fn can_name_device(name: &SpecName) -> bool {
    ![STAGED_DEVICES, PUBLISHED_DEVICES].contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drivers_volume_has_the_layout_and_no_other() {
        let (csi, other) = (PluginName::new(PLUGIN).unwrap(), PluginName::new("volhost.io/loop").unwrap());
        assert_eq!((mount_in_folder(&csi), mount_in_folder(&other)), (Some("mount"), None));
        assert_eq!(driver_and_handle(&csi, "a.b^c^d"), Some(("a.b", "c^d")));
        assert_eq!(volume_name("a.b", "c^d"), "a.b^c^d");
        for name in ["uid/data", "^x", "a^", "..^x", "a/b^x"] {
            assert_eq!(driver_and_handle(&csi, name), None, "{name}");
        }
        assert_eq!(driver_and_handle(&other, "a^b"), None);
    }

    #[test]
    fn a_device_has_a_folder_of_its_own() {
        for (name, can) in [("pv-1", true), ("dev", true), ("staging", false), ("publish", false)] {
            assert_eq!(can_name_device(&SpecName::new(name).unwrap()), can, "{name}");
        }
    }
}
