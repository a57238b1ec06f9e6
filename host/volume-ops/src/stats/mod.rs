//! How full volumes are. Nothing here is in the way of an operation, and nobody is asked when nobody looks.
//!
//! | module | its job |
//! |---|---|
//! | `meter` | whom to ask and when, what was answered, and who owes an answer |
//! | `measure` | one question to one volume: its file system, its files, its plugin |

mod measure;
mod meter;

pub use meter::VolumeMeter;

use volhost_core::ClaimedVolume;
use volhost_model::names::{PluginName, PodUid, SpecName, UniqueVolumeName};
use volhost_model::view::{VolumeState, VolumeView};

/// A volume that stands for a pod, or may: where it is measured.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StandingVolume {
    /// The pod.
    pub pod: PodUid,
    /// Its unique name.
    pub volume: UniqueVolumeName,
    /// Its plugin.
    pub plugin: PluginName,
    /// The name of its folder, or its link, in the pod's folder.
    pub spec_name: SpecName,
}

impl StandingVolume {
    /// The volume of a view; none when it stands nowhere.
    pub fn of(view: &VolumeView) -> Option<Self> {
        let standing = matches!(view.state, VolumeState::Mounted | VolumeState::Uncertain | VolumeState::Unmounting);
        if !standing || view.pod_uid.is_empty() {
            return None;
        }
        Some(Self {
            pod: PodUid::new(view.pod_uid.as_str()).ok()?,
            volume: UniqueVolumeName::new(view.unique_name.as_str()).ok()?,
            plugin: PluginName::new(&view.plugin).ok()?,
            spec_name: SpecName::new(view.spec_name.as_str()).ok()?,
        })
    }
}

impl From<&ClaimedVolume> for StandingVolume {
    fn from(claimed: &ClaimedVolume) -> Self {
        Self {
            pod: claimed.pod.clone(),
            volume: claimed.volume.clone(),
            plugin: claimed.plugin.clone(),
            spec_name: claimed.spec_name.clone(),
        }
    }
}
