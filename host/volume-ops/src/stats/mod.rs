//! Measures how full volumes are. It blocks no operation, and asks only for volumes that a user
//! looks at.
//!
//! | module | its job |
//! |---|---|
//! | `meter` | which volumes are measured when, and the last figures |
//! | `measure` | measures one volume: its file system, its files, its plugin |

mod measure;
mod meter;

pub use measure::{file_system_at, prefer};
pub use meter::VolumeMeter;

use volhost_core::ClaimedVolume;
use volhost_model::names::{PluginName, PodUid, SpecName, UniqueVolumeName};
use volhost_model::view::{VolumeState, VolumeView};

/// A volume that is published for a pod, or may be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MeteredVolume {
    /// The pod.
    pub pod: PodUid,
    /// Its unique name.
    pub volume: UniqueVolumeName,
    /// Its plugin.
    pub plugin: PluginName,
    /// The name of its folder, or its link, in the pod's folder.
    pub spec_name: SpecName,
}

impl MeteredVolume {
    /// Returns the volume of a view; none when it is not published.
    pub fn of(view: &VolumeView) -> Option<Self> {
        let published = matches!(view.state, VolumeState::Mounted | VolumeState::Uncertain | VolumeState::Unmounting);
        if !published || view.pod_uid.is_empty() {
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

impl From<&ClaimedVolume> for MeteredVolume {
    fn from(claimed: &ClaimedVolume) -> Self {
        Self {
            pod: claimed.pod.clone(),
            volume: claimed.volume.clone(),
            plugin: claimed.plugin.clone(),
            spec_name: claimed.spec_name.clone(),
        }
    }
}
