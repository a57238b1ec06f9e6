//! The settings of a plugin file, for people and scripts.

use serde::Serialize;
use volhost_runtime::{DeclaredSetting, SettingValue};

use volhost_table::{Cell, Table};

/// A setting of a plugin, and the value that the configuration gives it.
#[derive(Debug, Serialize)]
pub(super) struct SettingView {
    /// Its name in the configuration file.
    name: String,
    /// Its type.
    r#type: String,
    /// The plugin is not loaded without it.
    required: bool,
    /// What it is for.
    help: String,
    /// The value, as in the configuration file; of a secret the name of its file.
    value: Option<String>,
}

impl SettingView {
    pub(super) fn new(setting: &DeclaredSetting, value: Option<&SettingValue>) -> Self {
        Self {
            name: setting.name.clone(),
            r#type: setting.kind.to_string(),
            required: setting.is_required,
            help: setting.help.clone(),
            value: value.map(ToString::to_string),
        }
    }
}

/// The lines of a table of them.
pub(super) fn table(settings: &[SettingView]) -> Vec<String> {
    let rows: Vec<Vec<Cell>> = settings
        .iter()
        .map(|setting| {
            vec![
                Cell::new(&setting.name),
                Cell::new(&setting.r#type),
                Cell::new(if setting.required { "yes" } else { "no" }),
                Cell::new(setting.value.as_deref().unwrap_or_default()),
                Cell::new(&setting.help),
            ]
        })
        .collect();
    let text = Table::new(&["NAME", "TYPE", "REQUIRED", "VALUE", "HELP"], false).rows(&rows);
    text.lines().map(str::to_owned).collect()
}
