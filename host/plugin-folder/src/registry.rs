//! Which plugins are loaded, by file, by name and by the source they serve.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use volhost_model::names::{PluginName, UniqueVolumeName};
use volhost_runtime::{Call, CallError, Environment, LoadError, Plugin, Runtime};

use super::answers::IdentifiedVolumes;
use super::approvals::Approvals;
use super::cluster::ClusterFolder;
use super::quarantine::Quarantine;
use super::refusals::Unapproved;
use super::rights::ClaimRight;

/// What a scan of the folder has changed.
#[derive(Debug, Default)]
pub struct PluginChanges {
    /// Plugins that can serve now: loaded or replaced.
    pub ready: Vec<PluginName>,
    /// Plugins whose file is gone, or whose grant was revoked.
    pub retired: Vec<PluginName>,
    /// Files that could not be loaded, and why.
    pub failed: Vec<(PathBuf, String)>,
    /// Files that are being compiled: their plugins come later.
    pub compiling: Vec<PathBuf>,
    /// Files whose plugins wait until every other file is loaded.
    pub waiting: Vec<PathBuf>,
    /// Every file that was in the folder at the start has been loaded or refused.
    pub is_complete: bool,
}

impl PluginChanges {
    /// Whether nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { ready, retired, failed, compiling, waiting, is_complete: _ } = self;
        ready.is_empty() && retired.is_empty() && failed.is_empty() && compiling.is_empty() && waiting.is_empty()
    }
}

/// The loaded plugins. Shared between the folder's watcher, which changes it, and the event loop,
/// which looks things up.
#[derive(Debug)]
pub struct PluginRegistry {
    pub(super) runtime: Arc<Runtime>,
    /// What is settled of names, sources and grants.
    pub(super) approvals: Arc<Approvals>,
    state: RwLock<RegistryState>,
    pub(super) identified: IdentifiedVolumes,
    /// What plugins may ask when they name volumes and when they measure.
    environment: Arc<Environment>,
    /// How many volumes of a plugin may be attached to the node at once.
    pub(super) attach_limits: BTreeMap<PluginName, u32>,
    /// The folder of plugins that the cluster installs, whose names are given.
    pub(super) cluster: Option<Arc<ClusterFolder>>,
}

#[derive(Debug, Default)]
pub(super) struct RegistryState {
    pub(super) ready: BTreeMap<PluginName, Arc<Plugin>>,
    /// The file is gone, volumes may be left.
    pub(super) retired: BTreeMap<PluginName, Arc<Plugin>>,
    /// Source to plugin, for those that are ready.
    pub(super) sources: BTreeMap<String, (PluginName, ClaimRight)>,
    /// Owners of sources that could not be written to the record.
    pub(super) unrecorded: BTreeMap<String, PluginName>,
    /// Loaded, and not in service before the scan is over: another file may claim the same.
    pub(super) candidates: BTreeMap<PathBuf, Arc<Plugin>>,
    pub(super) failed: BTreeMap<PathBuf, String>,
    /// The interfaces that a file's plugin waits for.
    pub(super) waiting: BTreeMap<PathBuf, Vec<String>>,
    /// Files that are being compiled.
    pub(super) compiling: BTreeSet<PathBuf>,
    /// The first scan of the folder has not ended: a plugin that is not known may be in a file that
    /// has not been read.
    is_starting: bool,
    /// Files that the cluster has installed, until the outcome is known.
    pub(super) installing: BTreeSet<PathBuf>,
    /// The content of a file that waits for approval.
    pub(super) unapproved: BTreeMap<PathBuf, Unapproved>,
    /// Files that were refused because the record could not be written.
    pub(super) not_recorded: BTreeSet<PathBuf>,
    pub(super) quarantine: Quarantine,
    /// The same for `identify` alone.
    pub(super) bad_answers: Quarantine,
}

impl PluginRegistry {
    /// An empty registry with these approvals.
    pub fn new(runtime: Runtime, approvals: Arc<Approvals>) -> Self {
        let grants = runtime.grants();
        approvals.keep_bound(|plugin| grants.binds(plugin));
        Self {
            runtime: Arc::new(runtime.with_bindings(approvals.clone())),
            approvals,
            state: RwLock::default(),
            identified: IdentifiedVolumes::default(),
            environment: Arc::default(),
            attach_limits: BTreeMap::new(),
            cluster: None,
        }
    }

    /// Limits how many volumes of these plugins are attached to the node at once.
    #[must_use]
    pub fn limiting(mut self, attach_limits: BTreeMap<PluginName, u32>) -> Self {
        self.attach_limits = attach_limits;
        self
    }

    /// Takes plugins that the cluster installs, too.
    #[must_use]
    pub fn with_cluster(mut self, folder: Option<Arc<ClusterFolder>>) -> Self {
        self.cluster = folder;
        self
    }

    /// Sets what the host provides to calls about no operation.
    #[must_use]
    pub fn with_environment(mut self, environment: Environment) -> Self {
        self.environment = Arc::new(environment);
        self
    }

    /// Creates a call about no operation.
    pub fn call(&self, plugin_time: Duration) -> Call {
        Call::new(Arc::clone(&self.environment), plugin_time)
    }

    /// Changes whenever plugins' answers may have changed because objects have.
    pub(super) fn revision(&self) -> u64 {
        self.environment.objects().revision()
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, RegistryState> {
        self.state.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, RegistryState> {
        self.state.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Reads the file and loads its plugin without the compiler; none if the plugin has to be
    /// compiled. Changes nothing in service. Blocking: the plugin describes itself.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn read_compiled(&self, file: &Path) -> Result<Option<Arc<Plugin>>, LoadError> {
        self.runtime.load_compiled(file)
    }

    /// Reads the file and loads its plugin, compiled if need be. Changes nothing in service.
    /// Blocking, for as long as the compiler takes.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn compile(&self, file: &Path) -> Result<Arc<Plugin>, LoadError> {
        self.runtime.load(file)
    }

    /// Returns whether the file's content comes with volhost or is named in a grant. Blocking:
    /// reads the file.
    pub fn vouches_for(&self, file: &Path) -> bool {
        self.runtime.vouches_for(file)
    }

    /// Kills the compiler's children and starts no further one: the host stops.
    pub fn stop_compiling(&self) {
        self.runtime.stop_compiling();
    }

    /// Forgets which plugins the compiler refused, so that they are tried again.
    pub fn forget_refusals(&self) {
        self.runtime.forget_refusals();
    }

    /// Records that the file is being compiled, until [`Self::admit`] or [`Self::remove`].
    pub fn is_being_compiled(&self, file: &Path) {
        let mut state = self.write();
        state.failed.remove(file);
        state.compiling.insert(file.to_owned());
    }

    /// The names of the files that are being compiled.
    pub fn compiling(&self) -> Vec<String> {
        self.read().compiling_names()
    }

    /// Records whether the first scan of the folder has ended.
    pub fn set_starting(&self, starting: bool) {
        self.write().is_starting = starting;
    }

    /// Whether the first scan of the folder has not ended: a plugin that is not known may be in a
    /// file that has not been read.
    pub fn is_starting(&self) -> bool {
        self.read().is_starting
    }

    /// The files that were refused because the record could not be written: the next try may
    /// succeed.
    pub fn not_recorded(&self) -> Vec<PathBuf> {
        self.read().not_recorded.iter().cloned().collect()
    }

    /// Whether files wait for [`PluginRegistry::settle`].
    pub fn has_candidates(&self) -> bool {
        !self.read().candidates.is_empty()
    }

    /// A plugin that may publish volumes.
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
        state.ready.get(&state.sources.get(source)?.0).cloned()
    }

    /// The sources that are served, sorted.
    pub fn sources(&self) -> Vec<String> {
        self.read().sources.keys().cloned().collect()
    }

    /// A plugin that may unpublish volumes: the ready one, else the retired one, else, after a
    /// restart, the one of this digest from the compiled cache.
    pub fn for_unmount(&self, name: &PluginName, digest: Option<&str>) -> Option<Arc<Plugin>> {
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

    /// Why no plugin of this name is ready, as far as a failed file shows.
    pub fn failures(&self) -> Vec<(PathBuf, String)> {
        self.read().failed.iter().map(|(file, error)| (file.clone(), error.clone())).collect()
    }

    /// Forgets retired plugins that `in_use` no longer names.
    pub fn forget_unused(&self, in_use: impl Fn(&PluginName) -> bool) {
        self.write().retired.retain(|name, _| in_use(name));
    }

    /// Records the outcome of a call of the plugin for this volume; `error` is none if it
    /// succeeded. Returns whether the plugin is quarantined by it.
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

    /// Records how the plugin answered `identify`. Counted separately: a plugin that identifies
    /// volumes well may fail to publish them. Returns whether the plugin is quarantined by it.
    pub(super) fn note_answer(&self, plugin: &PluginName, volume: &str, error: Option<&CallError>) -> bool {
        if let Some(error) = error.filter(|error| error.is_misbehaviour()) {
            return self.write().bad_answers.misbehaved(plugin, volume, &error.message());
        }
        if self.read().bad_answers.has(plugin) {
            self.write().bad_answers.behaved(plugin);
        }
        false
    }

    /// Why the plugin is quarantined, if it is.
    pub fn quarantined(&self, plugin: &PluginName) -> Option<String> {
        self.read().quarantined(plugin).map(str::to_owned)
    }

    /// Gives every plugin another chance. Returns those that were quarantined.
    pub fn release_all(&self) -> Vec<PluginName> {
        let mut state = self.write();
        let mut released = state.quarantine.release_all();
        released.extend(state.bad_answers.release_all());
        released.sort();
        released.dedup();
        released
    }

    /// Removes compiled plugins that are no longer needed: neither loaded nor among `needed`, the
    /// digests of plugins with volumes.
    pub fn prune_cache(&self, needed: impl IntoIterator<Item = String>) {
        let state = self.read();
        let loaded = state.ready.values().chain(state.retired.values()).map(|plugin| plugin.info().digest.clone());
        let digests: Vec<String> = loaded.chain(needed).collect();
        drop(state);
        self.runtime.keep_only_cached(&digests);
    }
}

impl RegistryState {
    /// The last fault of a plugin that is quarantined.
    pub(super) fn quarantined(&self, plugin: &PluginName) -> Option<&str> {
        self.quarantine.reason(plugin).or_else(|| self.bad_answers.reason(plugin))
    }
}
