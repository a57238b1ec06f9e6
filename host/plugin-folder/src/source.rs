//! The registry as the plugins of volume operations.

use std::sync::Arc;
use std::time::Duration;

use volhost_model::names::{PluginName, UniqueVolumeName};
use volhost_runtime::{Call, CallError, Plugin};
use volhost_volume_ops::plugins::PluginSource;

use crate::PluginRegistry;

impl PluginSource for PluginRegistry {
    fn ready(&self, name: &PluginName) -> Option<Arc<Plugin>> {
        Self::ready(self, name)
    }

    fn for_unmount(&self, name: &PluginName, digest: Option<&str>) -> Option<Arc<Plugin>> {
        Self::for_unmount(self, name, digest)
    }

    fn quarantined(&self, plugin: &PluginName) -> Option<String> {
        Self::quarantined(self, plugin)
    }

    fn note(&self, plugin: &PluginName, volume: &UniqueVolumeName, error: Option<&CallError>) -> bool {
        Self::note(self, plugin, volume, error)
    }

    fn call(&self, plugin_time: Duration) -> Call {
        Self::call(self, plugin_time)
    }
}
