//! Which plugins are loaded, by file, by name and by the source they serve.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use thiserror::Error;
use volhost_model::names::{PluginName, UniqueVolumeName};
use volhost_model::view::PluginView;
use volhost_runtime::{
    CallContext, CallError, DriverPrograms, Drivers, GrantPolicy, LoadError, LoadProblem, NoDrivers, NoObjects,
    NoPrograms, NotGranted, Objects, Plugin, Runtime,
};

use super::identified::IdentifiedVolumes;
use super::quarantine::Quarantine;

/// Why a file's plugin was not taken into service.
#[derive(Debug, Error)]
pub enum RegistryError {
    /// The runtime refused it.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The file's new version asks for more than is granted; the one loaded before goes on.
    #[error(
        "plugin {name}: version {version} is held: it asks for {}, which is not granted; version {running} keeps running. If the new one shall \
         have it: volhost plugin grant {name}{}",
        .missing.join(", "),
        .missing.iter().map(|interface| format!(" --interface {interface}")).collect::<String>()
    )]
    Held {
        /// The plugin.
        name: PluginName,
        /// The version that is held.
        version: String,
        /// The version that runs.
        running: String,
        /// The interfaces that it asks for and is not granted.
        missing: Vec<String>,
    },
    /// Another file's plugin has the name.
    #[error("plugin {name} is loaded from {} already; remove one of the two files", loaded.display())]
    NameTaken {
        /// The name.
        name: PluginName,
        /// The file that has it.
        loaded: PathBuf,
    },
    /// Another plugin serves one of its sources.
    #[error(
        "it serves the volume source {source_name:?}, which plugin {by} serves already; remove one of the two files"
    )]
    SourceTaken {
        /// The source.
        source_name: String,
        /// Who serves it.
        by: PluginName,
    },
}

impl RegistryError {
    /// The interfaces whose grant would let the plugin in.
    fn waits_for(&self) -> Option<&[String]> {
        match self {
            Self::Held { missing, .. } => Some(missing),
            Self::Load(error) => match error.problem.as_ref() {
                LoadProblem::NotGranted(refused) => Some(&refused.missing),
                _ => None,
            },
            Self::NameTaken { .. } | Self::SourceTaken { .. } => None,
        }
    }
}

/// What a look at the folder has changed.
#[derive(Debug, Default)]
pub struct PluginChanges {
    /// Plugins that can serve now: loaded or replaced.
    pub ready: Vec<PluginName>,
    /// Plugins whose file is gone, or whose grant was taken back.
    pub retired: Vec<PluginName>,
    /// Files that could not be loaded, and why.
    pub failed: Vec<(PathBuf, String)>,
    /// Files that are being compiled: their plugins come later.
    pub compiling: Vec<PathBuf>,
    /// Every file that was in the folder at the start has been loaded or refused.
    pub is_complete: bool,
}

impl PluginChanges {
    /// Whether nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.retired.is_empty() && self.failed.is_empty() && self.compiling.is_empty()
    }
}

/// The loaded plugins. Shared between the folder's watcher, which changes it, and the engine, which looks things up.
#[derive(Debug)]
pub struct PluginRegistry {
    runtime: Arc<Runtime>,
    state: RwLock<State>,
    pub(super) identified: IdentifiedVolumes,
    /// What plugins may ask when they name volumes.
    objects: Arc<dyn Objects>,
    /// The drivers outside that plugins may ask then and when they measure.
    drivers: Arc<dyn Drivers>,
    /// How many volumes of a plugin may be attached to the node at once.
    pub(super) attach_limits: BTreeMap<PluginName, u32>,
    /// The drivers outside that plugins ask about when they name volumes.
    pub(super) programs: Arc<dyn DriverPrograms>,
}

#[derive(Debug, Default)]
struct State {
    ready: BTreeMap<PluginName, Arc<Plugin>>,
    /// The file is gone, volumes may be left.
    retired: BTreeMap<PluginName, Arc<Plugin>>,
    /// Source to plugin, for those that are ready.
    sources: BTreeMap<String, PluginName>,
    failed: BTreeMap<PathBuf, String>,
    /// The interfaces that a file's plugin waits for.
    waiting: BTreeMap<PathBuf, Vec<String>>,
    /// Files that are being compiled.
    compiling: BTreeSet<PathBuf>,
    /// The first look at the folder has not ended: a plugin that is not known may be in a file that has not been read.
    is_starting: bool,
    quarantine: Quarantine,
    /// The same for `identify` alone.
    bad_answers: Quarantine,
}

impl PluginRegistry {
    /// An empty registry.
    pub fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            state: RwLock::default(),
            identified: IdentifiedVolumes::default(),
            objects: Arc::new(NoObjects),
            drivers: Arc::new(NoDrivers),
            attach_limits: BTreeMap::new(),
            programs: Arc::new(NoPrograms),
        }
    }

    /// The same, with at most so many volumes of these plugins attached to the node at once.
    #[must_use]
    pub fn limiting(mut self, attach_limits: BTreeMap<PluginName, u32>) -> Self {
        self.attach_limits = attach_limits;
        self
    }

    /// The same, with objects and drivers that plugins may ask in calls about no operation too.
    #[must_use]
    pub fn knowing(mut self, objects: Arc<dyn Objects>, drivers: Arc<dyn Drivers>) -> Self {
        (self.objects, self.drivers) = (objects, drivers);
        self
    }

    /// The surroundings of a call about no operation.
    pub fn quiet(&self, deadline: Duration) -> CallContext {
        let (objects, drivers) = (Arc::clone(&self.objects), Arc::clone(&self.drivers));
        let programs = Arc::clone(&self.programs);
        CallContext { objects, drivers, programs, ..CallContext::quiet(deadline) }
    }

    /// Changes whenever what plugins say of volumes may have changed by what they were told of objects.
    pub(super) fn revision(&self) -> u64 {
        self.objects.revision()
    }

    /// The same, whose plugins may ask about these drivers.
    #[must_use]
    pub fn driving(mut self, programs: Arc<dyn DriverPrograms>) -> Self {
        self.programs = programs;
        self
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Loads the file and takes its plugin into service, in place of an older version from the same file. Blocking: compiles when
    /// the cache lacks it.
    ///
    /// # Errors
    /// [`RegistryError`]; the version loaded before stays in service.
    pub fn load(&self, file: &Path) -> Result<PluginName, RegistryError> {
        self.admit(file, self.runtime.load(file))
    }

    /// Reads the file and loads its plugin without the compiler; none if the plugin has to be compiled. Changes nothing in service.
    /// Blocking: the plugin describes itself.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn read_compiled(&self, file: &Path) -> Result<Option<Arc<Plugin>>, LoadError> {
        self.runtime.load_compiled(file)
    }

    /// Reads the file and loads its plugin, compiled if need be. Changes nothing in service. Blocking, for as long as the compiler takes.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn compile(&self, file: &Path) -> Result<Arc<Plugin>, LoadError> {
        self.runtime.load(file)
    }

    /// Kills the compiler's children and starts no further one: the host stops.
    pub fn stop_compiling(&self) {
        self.runtime.stop_compiling();
    }

    /// Forgets which plugins the compiler refused, so that they are tried again.
    pub fn forget_refusals(&self) {
        self.runtime.forget_refusals();
    }

    /// Takes note that the file is being compiled, until [`Self::admit`] or [`Self::remove`].
    pub fn is_being_compiled(&self, file: &Path) {
        let mut state = self.write();
        state.failed.remove(file);
        state.compiling.insert(file.to_owned());
    }

    /// The names of the files that are being compiled.
    pub fn compiling(&self) -> Vec<String> {
        self.read().compiling.iter().map(|file| file_name(file)).collect()
    }

    /// Takes note that the first look at the folder is still to come, or has ended.
    pub fn set_starting(&self, starting: bool) {
        self.write().is_starting = starting;
    }

    /// Whether the first look at the folder has not ended: a plugin that is not known may be in a file that has not been read.
    pub fn is_starting(&self) -> bool {
        self.read().is_starting
    }

    /// Takes what came of loading a file: its plugin into service, in place of an older version from the same file, or the reason why there
    /// is none.
    ///
    /// # Errors
    /// [`RegistryError`]; the version loaded before stays in service.
    pub fn admit(&self, file: &Path, loaded: Result<Arc<Plugin>, LoadError>) -> Result<PluginName, RegistryError> {
        let loaded = loaded.map_err(|error| self.held(file, error));
        let outcome = loaded.and_then(|plugin| self.put_into_service(file, plugin));
        let mut state = self.write();
        state.waiting.remove(file);
        state.compiling.remove(file);
        match &outcome {
            Ok(_) => state.failed.remove(file),
            Err(error) => state.failed.insert(file.to_owned(), error.to_string()),
        };
        if let Err(error) = &outcome
            && let Some(missing) = error.waits_for()
        {
            state.waiting.insert(file.to_owned(), missing.to_vec());
        }
        outcome
    }

    /// A file whose plugin is refused for want of a grant, while an older version of it runs, is held.
    fn held(&self, file: &Path, error: LoadError) -> RegistryError {
        let LoadProblem::NotGranted(refused) = error.problem.as_ref() else {
            return error.into();
        };
        let NotGranted { plugin, version, digest, missing, .. } = refused.as_ref();
        let state = self.read();
        let running = state.ready.get(plugin).map(|running| running.info());
        match running.filter(|running| running.file == file && running.digest != *digest) {
            Some(running) => RegistryError::Held {
                name: plugin.clone(),
                version: version.clone(),
                running: running.version.clone(),
                missing: missing.clone(),
            },
            None => error.into(),
        }
    }

    /// Takes what the operator grants from now on. Returns the files whose plugins are to be loaded again: their grants have changed.
    pub fn regrant(&self, grants: GrantPolicy) -> Vec<PathBuf> {
        let changed = grants.changed_since(&self.runtime.grants());
        self.runtime.set_grants(grants);
        let state = self.read();
        let loaded = state.ready.iter().filter(|(name, _)| changed.contains(name)).map(|(_, p)| p.info().file.clone());
        if changed.is_empty() { Vec::new() } else { loaded.chain(state.failed.keys().cloned()).collect() }
    }

    /// Retires the plugin of a file that is what it was, but may not run any more by what is granted now.
    pub fn retire_ungranted(&self, file: &Path, error: &RegistryError) -> Option<PluginName> {
        let RegistryError::Load(error) = error else { return None };
        let LoadProblem::NotGranted(refused) = error.problem.as_ref() else { return None };
        let NotGranted { plugin, digest, .. } = refused.as_ref();
        let mut state = self.write();
        let running = state.ready.get(plugin).is_some_and(|p| p.info().file == file && p.info().digest == *digest);
        running.then(|| {
            state.retire(plugin);
            plugin.clone()
        })
    }

    fn put_into_service(&self, file: &Path, plugin: Arc<Plugin>) -> Result<PluginName, RegistryError> {
        let info = plugin.info();
        let name = info.name.clone();
        let mut state = self.write();
        if let Some(other) = state.ready.get(&name).filter(|other| other.info().file != file) {
            return Err(RegistryError::NameTaken { name, loaded: other.info().file.clone() });
        }
        for source in &info.sources {
            match state.sources.get(source).filter(|by| **by != name) {
                // A file whose plugin has been renamed gives its sources up with its old name.
                Some(by) if state.ready.get(by).is_some_and(|p| p.info().file != file) => {
                    return Err(RegistryError::SourceTaken { source_name: source.clone(), by: by.clone() });
                }
                _ => {}
            }
        }
        let renamed: Vec<PluginName> = state
            .ready
            .iter()
            .filter(|(other, p)| p.info().file == file && **other != name)
            .map(|(other, _)| other.clone())
            .collect();
        for other in renamed {
            state.retire(&other);
        }
        state.sources.retain(|_, by| *by != name);
        for source in &info.sources {
            state.sources.insert(source.clone(), name.clone());
        }
        state.retired.remove(&name);
        state.quarantine.release(&name);
        state.bad_answers.release(&name);
        state.ready.insert(name.clone(), plugin);
        Ok(name)
    }

    /// The file is gone: its plugin serves tear-downs only from now on.
    pub fn remove(&self, file: &Path) -> Option<PluginName> {
        let mut state = self.write();
        state.failed.remove(file);
        state.waiting.remove(file);
        state.compiling.remove(file);
        let name = state.ready.iter().find(|(_, plugin)| plugin.info().file == file).map(|(name, _)| name.clone())?;
        state.retire(&name);
        Some(name)
    }

    /// A plugin that may set volumes up.
    pub fn ready(&self, name: &PluginName) -> Option<Arc<Plugin>> {
        self.read().ready.get(name).cloned()
    }

    /// The ready plugins that import this interface of the contract.
    pub fn importers(&self, interface: &str) -> Vec<PluginName> {
        let state = self.read();
        let imports = |plugin: &Arc<Plugin>| plugin.info().imports.iter().any(|import| import == interface);
        state.ready.iter().filter(|(_, plugin)| imports(plugin)).map(|(name, _)| name.clone()).collect()
    }

    /// The plugin that serves a source, if one does.
    pub fn serving(&self, source: &str) -> Option<Arc<Plugin>> {
        let state = self.read();
        state.ready.get(state.sources.get(source)?).cloned()
    }

    /// The sources that are served, sorted.
    pub fn sources(&self) -> Vec<String> {
        self.read().sources.keys().cloned().collect()
    }

    /// A plugin that may take volumes away: the ready one, else the retired one, else, after a restart, the one of this digest from
    /// the compiled cache.
    pub fn for_tear_down(&self, name: &PluginName, digest: Option<&str>) -> Option<Arc<Plugin>> {
        {
            let state = self.read();
            if let Some(plugin) = state.ready.get(name).or_else(|| state.retired.get(name)) {
                return Some(plugin.clone());
            }
        }
        let plugin = self.runtime.load_cached(digest?).ok().filter(|plugin| plugin.info().name == *name)?;
        self.write().retired.entry(name.clone()).or_insert(plugin.clone());
        Some(plugin)
    }

    /// Why no plugin of this name is ready, as far as a failed file tells.
    pub fn failures(&self) -> Vec<(PathBuf, String)> {
        self.read().failed.iter().map(|(file, error)| (file.clone(), error.clone())).collect()
    }

    /// Forgets retired plugins that `in_use` no longer names.
    pub fn forget_unused(&self, in_use: impl Fn(&PluginName) -> bool) {
        self.write().retired.retain(|name, _| in_use(name));
    }

    /// Takes note of how a call of the plugin for this volume went; `error` is none when it succeeded. Whether the plugin is set aside now.
    pub fn note(&self, plugin: &PluginName, volume: &UniqueVolumeName, error: Option<&CallError>) -> bool {
        if let Some(error) = error.filter(|error| error.is_misbehaviour()) {
            return self.write().quarantine.misbehaved(plugin, volume.as_str(), &error.message());
        }
        // Nearly always there is nothing to forget, and no need to keep readers out.
        if self.read().quarantine.has(plugin) {
            self.write().quarantine.behaved(plugin);
        }
        false
    }

    /// Takes note of how the plugin answered what a volume is. Counted by itself: a plugin that names volumes well may set none up.
    /// Whether the plugin is quarantined now.
    pub(super) fn note_answer(&self, plugin: &PluginName, volume: &str, error: Option<&CallError>) -> bool {
        if let Some(error) = error.filter(|error| error.is_misbehaviour()) {
            return self.write().bad_answers.misbehaved(plugin, volume, &error.message());
        }
        if self.read().bad_answers.has(plugin) {
            self.write().bad_answers.behaved(plugin);
        }
        false
    }

    /// Why the plugin is set aside, if it is.
    pub fn quarantined(&self, plugin: &PluginName) -> Option<String> {
        self.read().quarantined(plugin).map(str::to_owned)
    }

    /// Gives every plugin another chance. Returns those that were set aside.
    pub fn release_all(&self) -> Vec<PluginName> {
        let mut state = self.write();
        let mut released = state.quarantine.release_all();
        released.extend(state.bad_answers.release_all());
        released.sort();
        released.dedup();
        released
    }

    /// Removes compiled plugins that nobody needs any more: neither loaded nor among `needed`, the digests of plugins with volumes.
    pub fn prune_cache(&self, needed: impl IntoIterator<Item = String>) {
        let state = self.read();
        let loaded = state.ready.values().chain(state.retired.values()).map(|plugin| plugin.info().digest.clone());
        let digests: Vec<String> = loaded.chain(needed).collect();
        drop(state);
        self.runtime.keep_only_cached(&digests);
    }

    /// Every plugin, ready, retired or failed, for users. `volumes` counts the volumes of a plugin.
    pub fn views(&self, volumes: impl Fn(&PluginName) -> u32) -> Vec<PluginView> {
        let state = self.read();
        let loaded = |plugin: &Arc<Plugin>, word: &str| {
            let info = plugin.info();
            PluginView {
                name: info.name.to_string(),
                version: info.version.clone(),
                state: word.to_owned(),
                file: info.file.display().to_string(),
                digest: info.digest.clone(),
                abi: info.abi.clone(),
                sources: info.sources.clone(),
                exports: info.exports.clone(),
                imports: info.imports.clone(),
                volumes: volumes(&info.name),
                error: match state.compiling.contains(&info.file) {
                    true => "a new version of it is being compiled; this one serves until then".to_owned(),
                    false => state.failed.get(&info.file).cloned().unwrap_or_default(),
                },
                waits_for: state.waiting.get(&info.file).cloned().unwrap_or_default(),
            }
        };
        let ready = |plugin: &Arc<Plugin>| match state.quarantined(&plugin.info().name) {
            Some(fault) => PluginView { error: fault.to_owned(), ..loaded(plugin, "Quarantined") },
            None if state.waiting.contains_key(&plugin.info().file) => loaded(plugin, "Held"),
            None => loaded(plugin, "Ready"),
        };
        let mut views: Vec<PluginView> = state.ready.values().map(ready).collect();
        views.extend(state.retired.values().map(|plugin| loaded(plugin, "Retired")));
        let known = |plugins: &BTreeMap<PluginName, Arc<Plugin>>, file: &Path| {
            plugins.values().any(|plugin| plugin.info().file == file)
        };
        for file in state.compiling.iter().filter(|file| !known(&state.ready, file)) {
            let message = "it is being compiled; its volumes wait, and what is mounted of them stays".to_owned();
            views.push(PluginView { error: message, ..view_of_file(file, "Compiling") });
        }
        for (file, error) in &state.failed {
            if known(&state.ready, file) || (state.waiting.contains_key(file) && known(&state.retired, file)) {
                continue;
            }
            let waits_for = state.waiting.get(file).cloned().unwrap_or_default();
            views.push(PluginView { error: error.clone(), waits_for, ..view_of_file(file, "Failed") });
        }
        views
    }
}

impl State {
    /// The last fault of a plugin that is quarantined.
    fn quarantined(&self, plugin: &PluginName) -> Option<&str> {
        self.quarantine.reason(plugin).or_else(|| self.bad_answers.reason(plugin))
    }

    fn retire(&mut self, name: &PluginName) {
        if let Some(plugin) = self.ready.remove(name) {
            self.retired.insert(name.clone(), plugin);
        }
        self.sources.retain(|_, by| by != name);
    }
}

fn file_name(file: &Path) -> String {
    file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A file whose plugin is not known.
fn view_of_file(file: &Path, state: &str) -> PluginView {
    PluginView {
        name: file_name(file),
        version: String::new(),
        state: state.to_owned(),
        file: file.display().to_string(),
        digest: String::new(),
        abi: String::new(),
        sources: Vec::new(),
        exports: Vec::new(),
        imports: Vec::new(),
        volumes: 0,
        error: String::new(),
        waits_for: Vec::new(),
    }
}
