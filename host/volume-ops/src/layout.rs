//! The paths below the root folder. They follow the kubelet, so that tools which know it find them.
//!
//! ```text
//! ROOT/pods/UID/volumes/vendor~plugin/NAME           a pod's volume
//! ROOT/pods/UID/volumeDevices/vendor~plugin/NAME     a pod's volume that is a device: a link to it
//! ROOT/pods/UID/volume-subpaths/NAME/CONTAINER/INDEX a part of a volume for a container, by its place in `volumeMounts`
//! ROOT/pods/UID/plugins/vendor~plugin/NAME           what a volume keeps besides what the pod sees: an overlay's upper folder
//! ROOT/plugins/vendor/plugin/mounts/VOLUME/globalmount   the staging mount of a volume; of a CSI driver's volume, see [`volhost_model::csi_layout`]
//! ROOT/plugins/vendor/plugin/volumeDevices/VOLUME/UID    a volume's device, bound for a pod, and pinned
//! ROOT/plugins/vendor/plugin/driverDevices/VOLUME/NAME   where an external driver stages a volume's device; of both for a CSI driver's volume, see there
//! ROOT/provisioned/                                  what is known of volumes that were made for claims; outlives the machine
//! ROOT/pods-by-request                               exists while pods are kept that were added by request
//! ROOT/bindings.json                                 which claims keep volumes that they have outgrown; outlives the machine
//! ROOT/images/                                       the store of OCI images; outlives the machine
//! ROOT/sizes/                                        the sizes that volumes were expanded to; outlives the machine
//! ROOT/approvals/plugins.json                        which plugin has which name, source and grant; outlives the machine
//! ROOT/state/                                        a tmpfs: records, objects added by request; goes with the machine
//! ROOT/state/pods/UID                                the records of a pod's published volumes
//! ROOT/state/version                                 the number of the layout of all this: see [`super::layout_version`]
//! ROOT/adopted.json                                  exists if the folder was a kubelet's, and was adopted; outlives the machine
//! ROOT/lock                                          locked by the running volhost
//! ```
//!
//! `VOLUME` is the plugin's name for the volume as one path component: see [`volume_folder`].

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use volhost_model::csi_layout;
use volhost_model::names::{PluginName, PodUid, SpecName, UniqueVolumeName};
use volhost_model::text::lower_hex;

/// The pods' folder.
pub const PODS: &str = "pods";
/// The volumes' folder of a pod.
pub const VOLUMES: &str = "volumes";
/// The devices' folder of a pod, or of a plugin.
pub const VOLUME_DEVICES: &str = "volumeDevices";
/// The folder of a pod's sub-paths.
pub const SUB_PATHS: &str = "volume-subpaths";
/// The private folders of a pod's volumes.
pub const PRIVATE: &str = "plugins";
/// The folder of a plugin's places for the devices of external drivers.
pub const DRIVER_DEVICES: &str = "driverDevices";
/// The folder of what plugins stage on the node.
pub const PLUGINS: &str = "plugins";
/// The folder of a plugin's staging mounts.
pub const MOUNTS: &str = "mounts";
/// The staging mount of a volume.
pub const GLOBAL_MOUNT: &str = "globalmount";
/// The store of OCI images.
pub const IMAGES: &str = "images";
/// The records of the sizes of volumes.
pub const SIZES: &str = "sizes";
/// The tmpfs with the host's own records.
pub const STATE: &str = "state";
/// The records of FUSE servers, in it.
pub const FUSE_SERVERS: &str = "fuse-servers";
/// The objects that were added by request, in it.
pub const KEPT_OBJECTS: &str = "objects";
/// The notes that plugins keep about staged volumes, in it: they go with the machine, as the mounts
/// do.
pub const NODE_NOTES: &str = "notes";
/// The lock file.
pub const LOCK: &str = "lock";
/// The file by which volhost has adopted a kubelet's root folder. It outlives the machine.
pub const ADOPTED: &str = "adopted.json";
/// The mode of the folders between the root and a volume, as the kubelet's.
pub const FOLDER_MODE: u32 = 0o750;
/// The longest folder name made of the volume's name, in bytes; a longer one is replaced by a
/// digest.
const LONGEST_OWN_NAME: usize = 200;
/// Begins an escaped character, followed by its code in hexadecimal. Not `%`: scripts of drivers
/// get these names as arguments, and print them with `printf`.
const ESCAPE: char = '~';
/// The beginning of a digest. No escaped name begins so.
const DIGEST_MARK: &str = "~sha256~";

/// Returns the folder of one plugin's volumes in a pod, below the root.
pub fn plugin_folder(pod: &PodUid, plugin: &PluginName) -> PathBuf {
    [PODS, pod.as_str(), VOLUMES, &plugin.escaped()].iter().collect()
}

/// Returns the folder of one plugin's devices in a pod, below the root.
pub fn pod_device_folder(pod: &PodUid, plugin: &PluginName) -> PathBuf {
    [PODS, pod.as_str(), VOLUME_DEVICES, &plugin.escaped()].iter().collect()
}

/// Returns the folder of one plugin's private folders in a pod, below the root.
pub fn private_folder(pod: &PodUid, plugin: &PluginName) -> PathBuf {
    [PODS, pod.as_str(), PRIVATE, &plugin.escaped()].iter().collect()
}

/// Returns the folder of a pod's sub-paths, below the root.
pub fn sub_paths_folder(pod: &PodUid) -> PathBuf {
    [PODS, pod.as_str(), SUB_PATHS].iter().collect()
}

/// Returns the folder of a volume's sub-paths for one container of a pod, below the root.
pub fn container_folder(pod: &PodUid, volume: &SpecName, container: &str) -> PathBuf {
    [PODS, pod.as_str(), SUB_PATHS, volume.as_str(), container].iter().collect()
}

/// Returns the folder of a volume's staging mount, below the root.
pub fn mount_folder(plugin: &PluginName, volume: &UniqueVolumeName) -> PathBuf {
    match csi_layout::driver_and_handle(plugin, volume_name(plugin, volume)) {
        Some((driver, handle)) => {
            Path::new(PLUGINS).join(plugin.as_str()).join(driver).join(lower_hex(&Sha256::digest(handle)))
        }
        None => own_mount_folder(plugin, volume),
    }
}

/// Returns where earlier versions had the staging mount of a CSI driver's volume, below the root;
/// none for another volume.
pub fn earlier_mount_folder(plugin: &PluginName, volume: &UniqueVolumeName) -> Option<PathBuf> {
    csi_layout::driver_and_handle(plugin, volume_name(plugin, volume)).map(|_| own_mount_folder(plugin, volume))
}

fn own_mount_folder(plugin: &PluginName, volume: &UniqueVolumeName) -> PathBuf {
    Path::new(PLUGINS).join(plugin.as_str()).join(MOUNTS).join(volume_folder(plugin, volume))
}

/// Where the device of one volume is. All paths are below the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevicePaths {
    /// The folder in which the device is bound for pods, under their uids.
    pub maps: PathBuf,
    /// The folder of the places of an external driver.
    pub driver: PathBuf,
    /// The further paths of a device that is where the kubelet has it.
    pub kubelet: Option<KubeletPaths>,
}

/// The paths that a device has where the kubelet has it: see [`csi_layout`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeletPaths {
    /// Where the driver stages the device.
    pub staging: PathBuf,
    /// The folder of the file that names the volume.
    pub data: PathBuf,
}

impl DevicePaths {
    /// Returns the paths of a volume's device.
    pub fn new(plugin: &PluginName, volume: &UniqueVolumeName) -> Self {
        let (of_plugin, folder) = (Path::new(PLUGINS).join(plugin.as_str()), volume_folder(plugin, volume));
        Self {
            maps: of_plugin.join(VOLUME_DEVICES).join(&folder),
            driver: of_plugin.join(DRIVER_DEVICES).join(folder),
            kubelet: None,
        }
    }

    /// Returns the paths of a CSI driver's device that has this name in the kubelet's folders.
    pub fn of_kubelet(name: &SpecName) -> Self {
        let (all, name) = (kubelet_devices(), name.as_str());
        Self {
            maps: all.join(name).join(csi_layout::BOUND_DEVICES),
            driver: all.join(csi_layout::PUBLISHED_DEVICES).join(name),
            kubelet: Some(KubeletPaths {
                staging: all.join(csi_layout::STAGED_DEVICES).join(name),
                data: all.join(name).join(csi_layout::DEVICE_DATA),
            }),
        }
    }
}

/// Returns the folder in which the kubelet has the devices of CSI drivers' volumes, below the root.
pub fn kubelet_devices() -> PathBuf {
    [PLUGINS, csi_layout::PLUGIN, VOLUME_DEVICES].iter().collect()
}

/// Returns whether a folder of a plugin's devices is in the kubelet's layout, and not named by
/// [`volume_folder`]. The name of a PersistentVolume has no escape, and that of a CSI driver's
/// volume always has one.
pub fn is_kubelet_device(plugin: &PluginName, folder: &Path) -> bool {
    let has_escape = folder.file_name().is_some_and(|name| name.to_string_lossy().contains(ESCAPE));
    csi_layout::mount_in_folder(plugin).is_some() && !has_escape
}

/// Returns the folder with the note that a plugin keeps about a staged volume: its parent, below
/// the root, and its name there.
pub fn note_folder(plugin: &PluginName, volume: &UniqueVolumeName) -> (PathBuf, String) {
    ([STATE, NODE_NOTES, &plugin.escaped()].iter().collect(), volume_folder(plugin, volume))
}

/// Returns the plugin's own name for a volume.
pub fn volume_name<'a>(plugin: &PluginName, volume: &'a UniqueVolumeName) -> &'a str {
    let rest = volume.as_str().strip_prefix(plugin.as_str());
    rest.and_then(|rest| rest.strip_prefix('/')).unwrap_or(volume.as_str())
}

/// Returns the plugin's name for a volume as one path component: letters, digits, `-`, `_` and
/// inner `.` as they are, an inner `~` too unless it would be read as an escape, the rest as `~XX`.
/// A name that would be too long is a digest.
pub fn volume_folder(plugin: &PluginName, volume: &UniqueVolumeName) -> String {
    let name = volume_name(plugin, volume);
    let mut folder = String::new();
    let mut rest = name.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let inner = !folder.is_empty();
        let plain = match byte {
            b'.' => inner,
            b'~' => inner && !begins_with_code(after),
            byte => byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'),
        };
        if plain {
            folder.push(char::from(byte));
        } else {
            folder.push_str(&format!("{ESCAPE}{byte:02X}"));
        }
    }
    if folder.len() <= LONGEST_OWN_NAME {
        return folder;
    }
    let digest = Sha256::digest(name);
    format!("{DIGEST_MARK}{}", lower_hex(&digest))
}

/// Returns whether the two digits of a code follow an escape character.
fn begins_with_code(rest: &[u8]) -> bool {
    let digit = |byte: &u8| byte.is_ascii_digit() || (b'A'..=b'F').contains(byte);
    rest.len() >= 2 && rest.iter().take(2).all(digit)
}

/// Returns the volume behind a folder's name, the inverse of [`volume_folder`]; none for a digest,
/// and for a name that the host did not make.
pub fn volume_of_folder(plugin: &PluginName, folder: &str) -> Option<UniqueVolumeName> {
    if folder.starts_with(DIGEST_MARK) {
        return None;
    }
    let mut bytes = Vec::with_capacity(folder.len());
    let mut rest = folder.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if char::from(byte) == ESCAPE && begins_with_code(after) {
            let (digits, beyond) = after.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = beyond;
        } else {
            bytes.push(byte);
        }
    }
    let volume = UniqueVolumeName::shared(plugin, &String::from_utf8(bytes).ok()?).ok()?;
    (volume_folder(plugin, &volume) == folder).then_some(volume)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volumes_folder_leads_back_to_the_volume() {
        let plugin = PluginName::new("volhost.io/loop").unwrap();
        for name in
            ["data", "/images/a b.img", "..", ".hidden", "ü%2F", "~sha256~", "~2F", "a~2Fb", "a~2", "acme~lun/pv"]
        {
            let volume = UniqueVolumeName::shared(&plugin, name).unwrap();
            let folder = volume_folder(&plugin, &volume);
            assert!(!folder.contains(['/', '%']) && !folder.starts_with('.'), "{folder}");
            assert_eq!(volume_of_folder(&plugin, &folder), Some(volume), "{folder}");
        }
        assert_eq!(
            mount_folder(&plugin, &UniqueVolumeName::shared(&plugin, "/a/b.img").unwrap()),
            Path::new("plugins/volhost.io/loop/mounts/~2Fa~2Fb.img")
        );
        let of_driver = UniqueVolumeName::shared(&plugin, "acme~lun/pv-1").unwrap();
        assert_eq!(volume_folder(&plugin, &of_driver), "acme~lun~2Fpv-1");
    }

    #[test]
    fn a_csi_drivers_volume_is_staged_where_the_kubelet_stages_it() {
        let plugin = PluginName::new(csi_layout::PLUGIN).unwrap();
        let volume = UniqueVolumeName::shared(&plugin, "hostpath.csi.k8s.io^vol-1").unwrap();
        let digest = "f2f12ecae2b6abfc1b4b9fb4f2ab0e1fbbd2d7c3b8ae8c8d2a4e7b8f0b0e5b6f";
        let folder = mount_folder(&plugin, &volume);
        assert_eq!(folder.parent(), Some(Path::new("plugins/kubernetes.io/csi/hostpath.csi.k8s.io")));
        assert_eq!(folder.file_name().unwrap().len(), digest.len());
        let earlier = "plugins/kubernetes.io/csi/mounts/hostpath.csi.k8s.io~5Evol-1";
        assert_eq!(earlier_mount_folder(&plugin, &volume), Some(PathBuf::from(earlier)));
        let inline = UniqueVolumeName::shared(&plugin, "uid/data").unwrap();
        assert_eq!(earlier_mount_folder(&plugin, &inline), None);
    }

    #[test]
    fn a_csi_drivers_device_is_where_the_kubelet_has_it() {
        let paths = DevicePaths::of_kubelet(&SpecName::new("pv-1").unwrap());
        let all = Path::new("plugins/kubernetes.io/csi/volumeDevices");
        assert!(is_kubelet_device(&PluginName::new(csi_layout::PLUGIN).unwrap(), &all.join("pv-1")));
        assert_eq!((paths.maps, paths.driver), (all.join("pv-1/dev"), all.join("publish/pv-1")));
        let kubelet = paths.kubelet.unwrap();
        assert_eq!((kubelet.staging, kubelet.data), (all.join("staging/pv-1"), all.join("pv-1/data")));

        let plugin = PluginName::new(csi_layout::PLUGIN).unwrap();
        for handle in ["vol-1".to_owned(), "v".repeat(800)] {
            let volume = UniqueVolumeName::shared(&plugin, &csi_layout::volume_name("a.test", &handle)).unwrap();
            let own = DevicePaths::new(&plugin, &volume);
            assert!(!is_kubelet_device(&plugin, &own.maps), "{own:?}");
        }
    }

    #[test]
    fn a_long_name_is_a_digest_and_leads_nowhere() {
        let plugin = PluginName::new("a/b").unwrap();
        let volume = UniqueVolumeName::shared(&plugin, &"/".repeat(1000)).unwrap();
        let folder = volume_folder(&plugin, &volume);
        assert!(folder.len() < 100, "{folder}");
        for other in [folder.as_str(), "~2f", "~", "~zz", "a%zz", "a~2E"] {
            assert_eq!(volume_of_folder(&plugin, other), None, "{other}");
        }
    }
}
