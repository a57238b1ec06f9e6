//! The interface to the loaded plugins.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use volhost_model::names::{PluginName, UniqueVolumeName};
use volhost_runtime::{Call, CallError, Plugin};

/// The loaded plugins, and a record of how they behave. Called from worker threads, many at once.
pub trait PluginSource: Send + Sync + Debug {
    /// Returns a plugin that may set volumes up.
    fn ready(&self, name: &PluginName) -> Option<Arc<Plugin>>;

    /// Returns a plugin that may tear volumes down: the ready one, or else the one of this digest.
    fn for_unmount(&self, name: &PluginName, digest: Option<&str>) -> Option<Arc<Plugin>>;

    /// Returns the last fault of a quarantined plugin.
    fn quarantined(&self, plugin: &PluginName) -> Option<String>;

    /// Records how a call went; `error` is none when it succeeded. Returns whether the plugin has
    /// just been quarantined.
    fn note(&self, plugin: &PluginName, volume: &UniqueVolumeName, error: Option<&CallError>) -> bool;

    /// Returns a call that belongs to no operation, in which the plugin's own code may run for
    /// `plugin_time`.
    fn call(&self, plugin_time: Duration) -> Call;
}
