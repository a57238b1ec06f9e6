//! Which volumes the host attaches to the node, and which a controller attaches.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use volhost_model::names::PluginName;

/// Whether the host or a controller attaches the volumes of each plugin.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AttachPolicy {
    /// The host attaches volumes unless a controller does.
    host: bool,
    /// A controller attaches the volumes of these plugins in any case.
    controlled: BTreeSet<PluginName>,
}

impl AttachPolicy {
    /// Creates a configuration in which the host attaches every volume, or a controller does.
    pub const fn all_by_host(host: bool) -> Self {
        Self { host, controlled: BTreeSet::new() }
    }

    /// Leaves the volumes of these plugins to a controller.
    #[must_use]
    pub fn except(mut self, plugins: impl IntoIterator<Item = PluginName>) -> Self {
        self.controlled.extend(plugins);
        self
    }

    /// Whether the host attaches the volumes of this plugin.
    pub fn by_host(&self, plugin: &PluginName) -> bool {
        self.host && !self.controlled.contains(plugin)
    }

    /// Whether no volume waits for a controller.
    pub fn has_no_controller(&self) -> bool {
        self.host && self.controlled.is_empty()
    }
}
