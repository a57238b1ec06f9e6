//! A volume that another volume of the same pod is made of.

use serde::{Deserialize, Serialize};

use crate::names::{OuterName, PluginName, SpecName, UniqueVolumeName};

/// Another volume of the pod, which is mounted before the volume that needs it, and as long as that
/// may be mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeededVolume {
    /// Its name in the pod.
    pub name: OuterName,
    /// Its name in the world.
    pub unique_name: UniqueVolumeName,
    /// The plugin that serves it.
    pub plugin: PluginName,
    /// Its name in the pod's folder.
    pub spec_name: SpecName,
}
