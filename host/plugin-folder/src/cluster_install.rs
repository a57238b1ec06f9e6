//! Installs and removes plugins for the cluster, beside those of the operator.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use volhost_model::PluginName;

use super::cluster::{ClusterFolder, ClusterInstall, ClusterPluginError, ClusterRecord};
use super::registry::{PluginRegistry, RegistryState};

/// A plugin that the cluster has installed.
#[derive(Debug, Clone)]
pub struct InstalledPlugin {
    /// Its name.
    pub plugin: PluginName,
    /// What is installed.
    pub record: ClusterRecord,
    /// The component's file.
    pub file: PathBuf,
    /// How far this content is.
    pub state: InstalledState,
    /// Why it is not ready.
    pub message: String,
}

/// How far a plugin is that the cluster has installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstalledState {
    /// It is being compiled or loaded.
    Loading,
    /// This content serves volumes.
    Ready,
    /// It is not granted these.
    GrantNeeded(Vec<String>),
    /// It cannot be loaded, or misbehaves too often.
    Failed,
}

impl PluginRegistry {
    /// What the cluster has installed; none if it may install nothing here.
    pub fn installed_by_cluster(&self) -> Option<Vec<InstalledPlugin>> {
        let folder = self.cluster.as_ref()?;
        let installed = folder.records().into_iter().map(|(plugin, record)| {
            let file = folder.file_of(&plugin);
            let (state, message) = self.read().installed_state(&file, &record.sha256);
            InstalledPlugin { plugin, record, file, state, message }
        });
        Some(installed.collect())
    }

    /// Installs a plugin for the cluster, or replaces it, as [`ClusterFolder::install`]. None: the
    /// cluster may install nothing here. Blocking.
    ///
    /// # Errors
    /// [`ClusterPluginError`]; then nothing has changed.
    pub fn install_for_cluster(
        &self,
        plugin: &PluginName,
        install: ClusterInstall,
    ) -> Option<Result<(), ClusterPluginError>> {
        let folder = self.cluster.clone()?;
        Some(self.check_owner(&folder, plugin).and_then(|()| {
            let file = folder.file_of(plugin);
            // What was known of the content before says nothing of this one.
            let is_new = self.write().installing.insert(file.clone());
            folder.install(plugin, install).inspect_err(|_| {
                if is_new {
                    self.write().installing.remove(&file);
                }
            })
        }))
    }

    /// Removes a plugin that the cluster has installed, as [`ClusterFolder::remove`]. Blocking.
    ///
    /// # Errors
    /// [`ClusterPluginError`].
    pub fn remove_for_cluster(&self, plugin: &PluginName) -> Option<Result<(), ClusterPluginError>> {
        self.cluster.as_ref().map(|folder| folder.remove(plugin))
    }

    /// A plugin of the operator's stays the operator's.
    fn check_owner(&self, folder: &Arc<ClusterFolder>, plugin: &PluginName) -> Result<(), ClusterPluginError> {
        let not_ours = |how: String| Err(ClusterPluginError::NotOurs { plugin: plugin.clone(), how });
        if self.runtime.grants().is_named(plugin) {
            return not_ours("the node's configuration file has grants or settings for it".to_owned());
        }
        let state = self.read();
        let loaded = state.ready.get(plugin).map(|loaded| loaded.info().file.clone());
        match loaded.filter(|file| *file != folder.file_of(plugin)) {
            Some(file) => not_ours(format!("it is loaded from {}", file.display())),
            None => Ok(()),
        }
    }
}

impl RegistryState {
    /// How far the file's content is, and why it is not ready.
    fn installed_state(&self, file: &Path, sha256: &str) -> (InstalledState, String) {
        let why = self.failed.get(file).cloned().unwrap_or_default();
        if self.installing.contains(file) || self.compiling.contains(file) || self.candidates.contains_key(file) {
            return (InstalledState::Loading, "it is being loaded".to_owned());
        }
        if let Some(missing) = self.waiting.get(file) {
            return (InstalledState::GrantNeeded(missing.clone()), why);
        }
        if self.failed.contains_key(file) {
            return (InstalledState::Failed, why);
        }
        let loaded = self.ready.values().find(|plugin| plugin.info().file == file && plugin.info().digest == sha256);
        match loaded.map(|plugin| self.quarantined(&plugin.info().name)) {
            None => (InstalledState::Loading, "it is being loaded".to_owned()),
            Some(None) => (InstalledState::Ready, String::new()),
            Some(Some(fault)) => (InstalledState::Failed, format!("it is quarantined, because it misbehaved: {fault}")),
        }
    }
}
