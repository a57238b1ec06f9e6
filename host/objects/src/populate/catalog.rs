//! The populator's view of the plugins.

use std::sync::Arc;

use volhost_core::NamedLimit;
use volhost_model::{PluginName, VolumeSpec};

/// The loaded plugins, as far as choosing one goes.
pub trait PluginCatalog: Send + Sync {
    /// The plugin that serves this volume. Called for each volume at each resolving, so it answers
    /// from memory: it runs no plugin code.
    ///
    /// # Errors
    /// For the user: no loaded plugin serves the source, or the plugin refuses the volume,
    /// and what to do; or that it is not known yet.
    fn choose(&self, spec: &Arc<VolumeSpec>) -> Result<PluginChoice, NoChoice>;
}

/// The reason why a volume is not resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoChoice {
    /// The text, for a person to act on.
    pub reason: String,
    /// A plugin is being loaded or asked: the volume is resolved again when it has answered.
    pub is_pending: bool,
}

impl NoChoice {
    /// Creates the reason for a volume whose plugin has not answered yet.
    pub fn not_yet(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_pending: true }
    }
}

impl From<String> for NoChoice {
    fn from(reason: String) -> Self {
        Self { reason, is_pending: false }
    }
}

/// A plugin, and its answers about one volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginChoice {
    /// The plugin.
    pub plugin: PluginName,
    /// The plugin's name for a volume that it attaches or stages; none for one that belongs to one
    /// pod.
    pub unique_shared_name: Option<String>,
    /// The volume must be attached to the node first.
    pub attachable: bool,
    /// The volume is staged: mounted once on the node, then once for each pod.
    pub stageable: bool,
    /// The volume is remounted when its source may have changed.
    pub follows_source: bool,
    /// Pods can only read the volume.
    pub read_only: bool,
    /// Its file system may be expanded on this node.
    pub expandable: bool,
    /// How many volumes of the plugin may be attached to the node at once; none for no limit.
    pub attach_limit: Option<u32>,
    /// The limit of those volumes whose names begin like its own.
    pub attach_limit_of: Option<NamedLimit>,
    /// The mounted volume is remounted at intervals.
    pub refreshed: bool,
    /// It can be mounted with an SELinux label.
    pub selinux_mount: bool,
    /// It takes the PersistentVolume's mount options.
    pub accepts_mount_options: bool,
    /// The pod's other volumes that it is made of, by their names in the pod.
    pub needs: Vec<String>,
}
