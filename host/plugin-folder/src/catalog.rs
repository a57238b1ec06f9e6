//! Which plugin serves a volume, for the populator.
#![deny(clippy::disallowed_methods)]

use std::sync::Arc;

use volhost_core::NamedLimit;
use volhost_model::VolumeSpec;

use volhost_runtime::{Capability, Plugin};

use super::registry::PluginRegistry;
use volhost_objects::populate::{NoChoice, PluginCatalog, PluginChoice};

/// Sources that name a driver: several plugins can share the field, one a driver.
const DRIVER_SOURCES: [&str; 2] = ["csi", "flexVolume"];
/// The interface by which a volume is composed of other volumes of its pod.
const POD_VOLUMES: &str = "pod-volumes";

impl PluginCatalog for PluginRegistry {
    fn choose(&self, spec: &Arc<VolumeSpec>) -> Result<PluginChoice, NoChoice> {
        let source = spec.source.as_str();
        let driver = spec.parameter("driver").filter(|_| DRIVER_SOURCES.contains(&source));
        let own = driver.as_ref().map(|driver| format!("{source}:{driver}"));
        let plugin = own.as_ref().and_then(|own| self.serving(own));
        if let (None, Some(own), true) = (&plugin, &own, self.is_starting()) {
            // The plugin that has this driver to itself may be in a file that has not been read: no
            // other may take its volumes.
            return Err(NoChoice::not_yet(format!(
                "it is not known yet which plugin serves {own}: {}",
                self.still_loading()
            )));
        }
        let Some(plugin) = plugin.or_else(|| self.serving(source)) else {
            return Err(self.nobody_serves(source, driver.as_deref()));
        };
        let info = plugin.info();
        if spec.is_block() && !plugin.exports(Capability::BlockMapper) {
            return Err(format!(
                "volume {} has volumeMode Block, and plugin {} cannot map volumes as devices; use volumeMode Filesystem, or another plugin",
                spec.name, info.name
            )
            .into());
        }
        let on_node = self.on_node(&plugin, spec)?;
        Ok(PluginChoice {
            plugin: info.name.clone(),
            unique_shared_name: on_node.name,
            attachable: on_node.attachable,
            stageable: on_node.stageable,
            follows_source: info.follows_its_source,
            read_only: info.read_only,
            expandable: plugin.exports(Capability::Expander),
            selinux_mount: on_node.selinux_mount,
            attach_limit: self.attach_limits.get(&info.name).copied().into_iter().chain(on_node.attach_limit).min(),
            attach_limit_of: on_node.attach_limit_of,
            refreshed: on_node.refreshed,
            accepts_mount_options: info.accepts_mount_options,
            needs: on_node.needs,
        })
    }
}

/// What the node does with a volume before a pod can use it.
#[derive(Debug, Default)]
struct NodeBehaviour {
    /// The plugin's name for it; none for a volume that is its pod's alone.
    name: Option<String>,
    attachable: bool,
    stageable: bool,
    selinux_mount: bool,
    attach_limit: Option<u32>,
    attach_limit_of: Option<NamedLimit>,
    refreshed: bool,
    /// The pod's other volumes that it is composed of.
    needs: Vec<String>,
}

impl PluginRegistry {
    /// A plugin that neither attaches nor stages nor uses the pod's other volumes is not asked: its
    /// answer would change nothing here.
    fn on_node(&self, plugin: &Arc<Plugin>, spec: &Arc<VolumeSpec>) -> Result<NodeBehaviour, NoChoice> {
        let stages = if spec.is_block() { Capability::BlockMapper } else { Capability::Stager };
        let (attaches, stages) = (plugin.exports(Capability::Attacher), plugin.exports(stages));
        let uses_others = plugin.info().imports.iter().any(|import| import == POD_VOLUMES);
        if !attaches && !stages && !uses_others {
            return Ok(NodeBehaviour::default());
        }
        let answer = self.identified(plugin, spec)?;
        let (needs, refreshed) = (answer.needs, answer.refreshed);
        if !needs.is_empty() && !uses_others {
            let name = &plugin.info().name;
            return Err(format!(
                "plugin {name} needs other volumes of the pod ({}) and does not import {POD_VOLUMES}; it is the plugin's fault",
                needs.join(", ")
            )
            .into());
        }
        let attachable = attaches && answer.attachable.unwrap_or(true);
        // A device is always staged first.
        let stageable = stages && (spec.is_block() || answer.stageable.unwrap_or(true));
        if !attachable && !stageable {
            return Ok(NodeBehaviour { needs, refreshed, ..NodeBehaviour::default() });
        }
        let plugin = &plugin.info().name;
        let name = answer.name.ok_or_else(|| {
            format!("plugin {plugin} attaches or stages volumes and gives this one no name; it is the plugin's fault")
        })?;
        let (selinux_mount, attach_limit) = (answer.selinux_mount, answer.attach_limit);
        let attach_limit_of = answer.attach_limit_of.map(|(names, limit)| NamedLimit { names, limit });
        let name = Some(name);
        Ok(NodeBehaviour {
            name,
            attachable,
            stageable,
            selinux_mount,
            attach_limit,
            attach_limit_of,
            refreshed,
            needs,
        })
    }
}

impl PluginRegistry {
    /// Which files are still to be loaded, for a message about a volume that waits for one of them.
    fn still_loading(&self) -> String {
        match self.compiling() {
            files if files.is_empty() => "the plugins are being loaded".to_owned(),
            files => format!("being compiled: {}", files.join(", ")),
        }
    }

    fn nobody_serves(&self, source: &str, driver: Option<&str>) -> NoChoice {
        let wanted =
            driver.map_or_else(|| format!("{source:?}"), |driver| format!("{source:?} with driver {driver:?}"));
        let own = driver.map(|driver| format!("{source}:{driver}"));
        let sources: Vec<&str> = own.as_deref().into_iter().chain([source]).collect();
        if let Some(why) = self.why_waiting(&sources) {
            return NoChoice::not_yet(format!("no plugin serves the volume source {wanted} yet: {why}"));
        }
        if self.is_starting() || !self.compiling().is_empty() {
            let loading = self.still_loading();
            return NoChoice::not_yet(format!("no loaded plugin serves the volume source {wanted} yet; {loading}"));
        }
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
        let removed = volhost_csi_translation::removed(source).map(|words| format!("; {words}")).unwrap_or_default();
        format!("no loaded plugin serves the volume source {wanted}: {known}{hint}{removed}").into()
    }
}
