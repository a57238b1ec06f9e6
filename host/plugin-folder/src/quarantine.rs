//! Which plugins have misbehaved too often (rule R8).
//!
//! A plugin that crashes, loops, lies or breaks a limit hurts the volume it was called for. One
//! volume whose fields it cannot handle is no reason to refuse the others; so only faults with
//! several volumes, and no success among them, quarantine a plugin.

use std::collections::{BTreeMap, BTreeSet};

use volhost_model::names::PluginName;

/// Faults in a row that quarantine a plugin: with back-off, some seconds of nothing but faults.
const FAULTS: u32 = 8;
/// Volumes that these faults concern, at the least.
const VOLUMES: usize = 3;

/// The health of each plugin.
#[derive(Debug, Default)]
pub(super) struct Quarantine {
    health: BTreeMap<PluginName, PluginHealth>,
}

#[derive(Debug, Default)]
struct PluginHealth {
    faults: u32,
    volumes: BTreeSet<String>,
    /// The last fault, once the plugin is quarantined.
    quarantined_for: Option<String>,
}

impl Quarantine {
    /// Whether the plugin has faults.
    pub(super) fn has(&self, plugin: &PluginName) -> bool {
        self.health.contains_key(plugin)
    }

    /// Records that a call succeeded, or returned an error of its own.
    pub(super) fn behaved(&mut self, plugin: &PluginName) {
        if self.health.get(plugin).is_some_and(|health| health.quarantined_for.is_none()) {
            self.health.remove(plugin);
        }
    }

    /// Records a fault. Returns whether it is the one that quarantines the plugin.
    pub(super) fn misbehaved(&mut self, plugin: &PluginName, volume: &str, fault: &str) -> bool {
        let health = self.health.entry(plugin.clone()).or_default();
        health.faults = health.faults.saturating_add(1);
        if health.volumes.len() < VOLUMES {
            health.volumes.insert(volume.to_owned());
        }
        let now = health.quarantined_for.is_none() && health.faults >= FAULTS && health.volumes.len() >= VOLUMES;
        if now {
            health.quarantined_for = Some(fault.to_owned());
        }
        now
    }

    /// The last fault of a plugin that is quarantined.
    pub(super) fn reason(&self, plugin: &PluginName) -> Option<&str> {
        self.health.get(plugin)?.quarantined_for.as_deref()
    }

    /// Gives the plugin another chance.
    pub(super) fn release(&mut self, plugin: &PluginName) {
        self.health.remove(plugin);
    }

    /// Gives every plugin another chance. Returns those that were quarantined.
    pub(super) fn release_all(&mut self) -> Vec<PluginName> {
        let health = std::mem::take(&mut self.health);
        health.into_iter().filter(|(_, health)| health.quarantined_for.is_some()).map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> (PluginName, [&'static str; 3]) {
        (PluginName::new("a/b").unwrap(), ["v0", "v1", "v2"])
    }

    #[test]
    fn faults_with_one_volume_set_nothing_aside() {
        let (plugin, volumes) = names();
        let mut quarantine = Quarantine::default();
        assert!((0..100).all(|_| !quarantine.misbehaved(&plugin, volumes[0], "crash")));
        assert_eq!(quarantine.reason(&plugin), None);
    }

    #[test]
    fn faults_with_many_volumes_and_no_success_set_a_plugin_aside_once() {
        let (plugin, volumes) = names();
        let mut quarantine = Quarantine::default();
        let quarantined = (0..30).filter(|n| quarantine.misbehaved(&plugin, volumes[n % 3], "crash")).count();
        assert_eq!(quarantined, 1);
        assert_eq!(quarantine.reason(&plugin), Some("crash"));
        quarantine.behaved(&plugin);
        assert_eq!(quarantine.reason(&plugin), Some("crash"), "an unpublish that works releases no plugin");
        assert_eq!(quarantine.release_all(), std::slice::from_ref(&plugin));
        assert_eq!(quarantine.reason(&plugin), None);
    }

    #[test]
    fn a_success_wipes_the_slate() {
        let (plugin, volumes) = names();
        let mut quarantine = Quarantine::default();
        for n in 0..100 {
            assert!(!quarantine.misbehaved(&plugin, volumes[n % 3], "crash"));
            if n % 5 == 0 {
                quarantine.behaved(&plugin);
            }
        }
    }
}
