//! What the plugins of the node ask the host for: tools and devices matter where one needs them.

use std::fs;
use std::path::Path;

use volhost_model::view::PluginView;

use crate::plugin::{read_plugin, surface};

/// A plugin, and the interfaces that it imports.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PluginNeeds {
    name: String,
    imports: Vec<String>,
}

/// The imports of all plugins.
#[derive(Debug, Default)]
pub(super) struct Needs(Vec<PluginNeeds>);

impl Needs {
    /// Those of the plugins that the daemon has loaded.
    pub(super) fn of_loaded(plugins: &[PluginView]) -> Self {
        let needs = plugins.iter().map(|plugin| PluginNeeds {
            name: plugin.name.clone(),
            imports: plugin.imports.iter().map(|import| short(import)).collect(),
        });
        Self(needs.collect())
    }

    /// Those of the files in a plugin folder, read without running them. What is no plugin needs
    /// nothing: the daemon refuses it.
    pub(super) fn of_folder(folder: &Path) -> Self {
        let Ok(entries) = fs::read_dir(folder) else { return Self::default() };
        let mut files: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
        files.sort();
        let is_plugin = |file: &std::path::PathBuf| file.extension().is_some_and(|extension| extension == "wasm");
        let needs = files.iter().filter(|file| is_plugin(file)).filter_map(|file| {
            let imports = surface::read(&read_plugin(file).ok()?).ok()?.imports;
            let name = file.file_name()?.to_string_lossy().into_owned();
            Some(PluginNeeds { name, imports: imports.iter().map(|import| short(import)).collect() })
        });
        Self(needs.collect())
    }

    /// Whether the daemon has loaded a plugin of this name.
    pub(super) fn is_loaded(&self, name: &str) -> bool {
        self.0.iter().any(|one| one.name == name)
    }

    /// The names of the plugins that import an interface of the contract.
    pub(super) fn of_interface(&self, interface: &str) -> Vec<String> {
        let imports = |one: &&PluginNeeds| one.imports.iter().any(|import| import == interface);
        self.0.iter().filter(imports).map(|one| one.name.clone()).collect()
    }
}

/// The interface's name without its package and version.
fn short(import: &str) -> String {
    let name = import.rsplit_once('/').map_or(import, |(_, name)| name);
    name.split_once('@').map_or(name, |(name, _)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_known_by_its_short_name() {
        assert_eq!(short("volhost:plugin/loop-devices@0.1.0"), "loop-devices");
        assert_eq!(short("loop-devices"), "loop-devices");
    }

    #[test]
    fn a_folder_without_plugins_needs_nothing() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("broken.wasm"), "no component").unwrap();
        assert_eq!(Needs::of_folder(folder.path()).of_interface("mounts"), Vec::<String>::new());
        assert_eq!(Needs::of_folder(Path::new("/no/such/folder")).of_interface("mounts"), Vec::<String>::new());
    }
}
