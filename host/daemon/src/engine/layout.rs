//! Where things stand below the root folder, as the kubelet lays them out, so that tools which know it find them.
//!
//! ```text
//! ROOT/pods/UID/volumes/vendor~plugin/NAME    a pod's volume
//! ROOT/state/                                 a tmpfs: records, objects added by request; goes with the machine
//! ROOT/lock                                   held by the running volhost
//! ```

use std::path::PathBuf;

use volhost_model::names::{PluginName, PodUid};

/// The pods' folder.
pub const PODS: &str = "pods";
/// The volumes' folder of a pod.
pub const VOLUMES: &str = "volumes";
/// The tmpfs with the host's own records.
pub const STATE: &str = "state";
/// The lock file.
pub const LOCK: &str = "lock";
/// The mode of the folders between the root and a volume, as the kubelet's.
pub const FOLDER_MODE: u32 = 0o750;

/// The folder of one plugin's volumes in a pod, below the root.
pub fn plugin_folder(pod: &PodUid, plugin: &PluginName) -> PathBuf {
    [PODS, pod.as_str(), VOLUMES, &plugin.escaped()].iter().collect()
}
