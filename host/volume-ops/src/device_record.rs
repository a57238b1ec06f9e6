//! The record of a volume that is attached or staged, as it is on disk.

use serde::{Deserialize, Serialize};
use volhost_model::VolumeSpec;
use volhost_model::names::{PluginName, UniqueVolumeName};

/// Bumped when a field changes its meaning; another version's record counts as missing.
pub(super) const VERSION: u32 = 1;

/// One volume that is attached or staged, or may be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct DeviceRecord {
    pub(super) version: u32,
    /// The plugin that attaches and stages it.
    pub(super) plugin: PluginName,
    /// The digest of that plugin, so that the same version can undo the steps.
    pub(super) digest: String,
    /// The volume's unique name.
    pub(super) unique_name: UniqueVolumeName,
    /// The spec.
    pub(super) spec: VolumeSpec,
    /// The volume has to be attached.
    pub(super) attachable: bool,
    /// The volume is staged, or its staging was begun.
    pub(super) stageable: bool,
    /// What it is attached as, since it was attached.
    pub(super) attached_as: Option<String>,
    /// The path of its device, since it was found.
    pub(super) device: Option<String>,
}

impl DeviceRecord {
    /// Creates the record of a volume whose first step is about to begin.
    pub(super) fn new(plugin: PluginName, digest: String, unique_name: UniqueVolumeName, spec: VolumeSpec) -> Self {
        Self {
            version: VERSION,
            plugin,
            digest,
            unique_name,
            spec,
            attachable: false,
            stageable: false,
            attached_as: None,
            device: None,
        }
    }
}
