//! Which plugin serves a volume, for the populator.

use std::sync::Arc;

use volhost_model::VolumeSpec;

use super::registry::PluginRegistry;
use crate::populate::{PluginCatalog, PluginChoice};

/// Sources that name a driver: several plugins can share the field, one a driver.
const DRIVER_SOURCES: [&str; 2] = ["csi", "flexVolume"];

impl PluginCatalog for PluginRegistry {
    fn choose(&self, spec: &Arc<VolumeSpec>) -> Result<PluginChoice, String> {
        let source = spec.source.as_str();
        let driver = spec.parameter("driver").filter(|_| DRIVER_SOURCES.contains(&source));
        let plugin = driver
            .as_ref()
            .and_then(|driver| self.serving(&format!("{source}:{driver}")))
            .or_else(|| self.serving(source));
        let Some(plugin) = plugin else {
            return Err(self.nobody_serves(source, driver.as_deref()));
        };
        let info = plugin.info();
        Ok(PluginChoice {
            plugin: info.name.clone(),
            unique_shared_name: None,
            attachable: false,
            device_mountable: false,
            follows_source: info.follows_its_source,
            expandable: false,
            accepts_mount_options: info.accepts_mount_options,
        })
    }
}

impl PluginRegistry {
    fn nobody_serves(&self, source: &str, driver: Option<&str>) -> String {
        let wanted =
            driver.map_or_else(|| format!("{source:?}"), |driver| format!("{source:?} with driver {driver:?}"));
        let served = self.sources();
        let known = if served.is_empty() {
            "no plugin is loaded".to_owned()
        } else {
            format!("loaded plugins serve {}", served.join(", "))
        };
        let failed = self.failures();
        let hint = if failed.is_empty() {
            String::new()
        } else {
            format!("; {} plugin file(s) could not be loaded, see `volhost get plugins -o wide`", failed.len())
        };
        format!("no loaded plugin serves the volume source {wanted}: {known}{hint}")
    }
}
