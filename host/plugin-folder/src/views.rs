//! The plugins as users see them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use volhost_model::PluginName;
use volhost_model::view::{PluginState, PluginView};
use volhost_runtime::Plugin;

use super::registry::{PluginRegistry, RegistryState};

impl PluginRegistry {
    /// Every plugin, ready, retired, waiting or failed, for users. `volumes` counts the volumes of
    /// a plugin.
    pub fn views(&self, volumes: impl Fn(&PluginName) -> u32) -> Vec<PluginView> {
        let state = self.read();
        let state = &*state;
        let of = |plugin: &Arc<Plugin>, state_of: PluginState| {
            let view = state.view(plugin, state_of);
            PluginView { volumes: volumes(&plugin.info().name), ..view }
        };
        let ready = |plugin: &Arc<Plugin>| match state.quarantined(&plugin.info().name) {
            Some(fault) => PluginView { error: fault.to_owned(), ..of(plugin, PluginState::Quarantined) },
            None if state.waiting.contains_key(&plugin.info().file) => of(plugin, PluginState::PendingApproval),
            None => of(plugin, PluginState::Ready),
        };
        let mut views: Vec<PluginView> = state.ready.values().map(ready).collect();
        views.extend(state.retired.values().map(|plugin| of(plugin, PluginState::Retired)));
        let is_ready = |file: &Path| is_of_file(&state.ready, file);
        for file in state.compiling.iter().filter(|file| !is_ready(file)) {
            let message = "it is being compiled; its volumes wait, and what is mounted of them stays".to_owned();
            views.push(PluginView { error: message, ..view_of_file(file, PluginState::Compiling) });
        }
        let waiting = state.candidates.iter().filter(|(file, _)| !is_ready(file) && !state.compiling.contains(*file));
        views.extend(waiting.map(|(_, plugin)| of(plugin, PluginState::Waiting)));
        for (file, error) in &state.failed {
            if is_ready(file) || (state.waiting.contains_key(file) && is_of_file(&state.retired, file)) {
                continue;
            }
            let waits_for = state.waiting.get(file).cloned().unwrap_or_default();
            let view = match state.unapproved.get(file) {
                Some(unapproved) => PluginView {
                    name: unapproved.name.to_string(),
                    version: unapproved.version.clone(),
                    digest: unapproved.digest.clone(),
                    pending_digest: unapproved.digest.clone(),
                    ..view_of_file(file, PluginState::PendingApproval)
                },
                None => view_of_file(file, PluginState::Failed),
            };
            views.push(PluginView { error: error.clone(), waits_for, ..view });
        }
        views
    }

    /// Counts the plugins by state; a state without plugins counts 0.
    pub fn counts(&self) -> BTreeMap<PluginState, u64> {
        let views = self.views(|_| 0);
        let count = |state: PluginState| views.iter().filter(|view| view.state == state.as_str()).count();
        PluginState::ALL.into_iter().map(|state| (state, u64::try_from(count(state)).unwrap_or(u64::MAX))).collect()
    }

    /// Says how the first scan of the folder ended: which files are still being compiled, and how
    /// many could not be loaded.
    pub fn describe_first_look(&self) -> String {
        let state = self.read();
        let loaded = match state.compiling_names() {
            files if files.is_empty() => "every plugin file is loaded".to_owned(),
            files => {
                format!("every plugin file is loaded but those that are still being compiled: {}", files.join(", "))
            }
        };
        match state.failed.len() {
            0 => loaded,
            failed if state.compiling.is_empty() => format!("{loaded} but {failed}; see `volhost get plugins -o wide`"),
            failed => format!("{loaded}; {failed} could not be loaded, see `volhost get plugins -o wide`"),
        }
    }

    /// Why volumes of these sources wait: a plugin that describes one of them waits for other
    /// files.
    pub(super) fn why_waiting(&self, sources: &[&str]) -> Option<String> {
        let state = self.read();
        let describes =
            |plugin: &&Arc<Plugin>| plugin.info().sources.iter().any(|source| sources.contains(&source.as_str()));
        let plugin = state.candidates.values().find(describes)?.info();
        Some(format!(
            "plugin {} of file {} waits: {}",
            plugin.name,
            file_name(&plugin.file),
            state.why_candidates_wait()
        ))
    }
}

impl RegistryState {
    /// The names of the files that are being compiled.
    pub(super) fn compiling_names(&self) -> Vec<String> {
        self.compiling.iter().map(|file| file_name(file)).collect()
    }

    /// Why plugins that are loaded are not in service.
    fn why_candidates_wait(&self) -> String {
        let why = "its name or one of its sources is new to this node, so volhost first loads every other file";
        match self.compiling_names() {
            files if files.is_empty() => why.to_owned(),
            files => format!("{why}; being compiled: {}", files.join(", ")),
        }
    }

    /// A loaded plugin.
    fn view(&self, plugin: &Plugin, state: PluginState) -> PluginView {
        let info = plugin.info();
        let file = &info.file;
        let error = if self.compiling.contains(file) {
            "a new version of it is being compiled; this one serves until then".to_owned()
        } else if let Some(candidate) = self.candidates.get(file) {
            format!("version {} of it waits: {}", candidate.info().version, self.why_candidates_wait())
        } else {
            self.failed.get(file).cloned().unwrap_or_default()
        };
        let unapproved = self.unapproved.get(file).map(|unapproved| unapproved.digest.clone());
        PluginView {
            name: info.name.to_string(),
            version: info.version.clone(),
            state: state.as_str().to_owned(),
            file: file.display().to_string(),
            digest: info.digest.clone(),
            abi: info.abi.clone(),
            sources: info.sources.clone(),
            exports: info.exports.clone(),
            imports: info.imports.clone(),
            volumes: 0,
            error,
            waits_for: self.waiting.get(file).cloned().unwrap_or_default(),
            pending_digest: unapproved.unwrap_or_default(),
        }
    }
}

fn is_of_file(plugins: &BTreeMap<PluginName, Arc<Plugin>>, file: &Path) -> bool {
    plugins.values().any(|plugin| plugin.info().file == file)
}

fn file_name(file: &Path) -> String {
    file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A file whose plugin is not known.
fn view_of_file(file: &Path, state: PluginState) -> PluginView {
    PluginView {
        name: file_name(file),
        version: String::new(),
        state: state.as_str().to_owned(),
        file: file.display().to_string(),
        digest: String::new(),
        abi: String::new(),
        sources: Vec::new(),
        exports: Vec::new(),
        imports: Vec::new(),
        volumes: 0,
        error: String::new(),
        waits_for: Vec::new(),
        pending_digest: String::new(),
    }
}
