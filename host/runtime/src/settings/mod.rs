//! The values that the operator gives plugins: the table `[settings]` of the configuration file.

mod check;
mod declared;
mod secret_file;
mod value;

use std::collections::BTreeMap;

use serde::Deserialize;
use volhost_model::PluginName;

pub(crate) use check::check;
pub use check::{BadSettings, SettingProblem};
pub(crate) use declared::declare;
pub use declared::{DeclaredSetting, SettingKind};
pub(crate) use secret_file::{SecretFileError, read_secret};
pub use value::SettingValue;

/// The values of one plugin, by name.
pub(crate) type Values = BTreeMap<String, SettingValue>;

/// The values of all plugins, by the plugin's name.
///
/// ```toml
/// [settings."example.com/archive"]
/// server = "archive.example.com"
/// retries = 3
/// compress = true
/// mirrors = ["a.example.com", "b.example.com"]
/// password = { file = "/etc/volhost/archive.password" }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct PluginSettings(BTreeMap<PluginName, Values>);

impl PluginSettings {
    /// Takes the values of those plugins that `other` names from there.
    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The values of the plugin of this name.
    pub(crate) fn of(&self, plugin: &PluginName) -> Values {
        self.0.get(plugin).cloned().unwrap_or_default()
    }

    /// The plugins that have values.
    pub(crate) fn plugins(&self) -> impl Iterator<Item = &PluginName> {
        self.0.keys()
    }

    /// Whether this plugin has the same values in both.
    pub(crate) fn are_same_for(&self, plugin: &PluginName, other: &Self) -> bool {
        self.0.get(plugin) == other.0.get(plugin)
    }

    /// Whether the plugin of this name has values.
    pub(crate) fn has(&self, plugin: &PluginName) -> bool {
        self.0.contains_key(plugin)
    }
}
