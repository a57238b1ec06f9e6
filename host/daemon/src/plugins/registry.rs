//! Which plugins are loaded, by file, by name and by the source they serve.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use thiserror::Error;
use tracing::warn;
use volhost_model::names::{PluginName, UniqueVolumeName};
use volhost_runtime::{
    CallContext, CallError, DriverPrograms, Drivers, GrantBindings, GrantPolicy, LoadError, LoadProblem, NoDrivers,
    NoObjects, NoPrograms, NotGranted, Objects, Plugin, Runtime,
};

use super::approvals::{Approvals, ApprovalsError};
use super::claims::{Claim, Right, Rival};
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
        /// Its content.
        digest: String,
        /// The version that runs.
        running: String,
        /// The interfaces that it asks for and is not granted, and [`APPROVAL`] if it lacks that, too.
        missing: Vec<String>,
    },
    /// The file's content is not the one that has the grant; the one loaded before goes on.
    #[error(
        "plugin {name}: version {version} is held: its content (sha256 {digest}) is not the one that has the grant of {name}; version \
         {running} keeps running. If the new one is to have the grant: volhost plugin grant {name}, which adds --sha256 {digest}"
    )]
    HeldContent {
        /// The plugin.
        name: PluginName,
        /// The version that is held.
        version: String,
        /// Its content.
        digest: String,
        /// The version that runs.
        running: String,
    },
    /// Another file's plugin has the name.
    #[error("plugin {name} is loaded from {} already; remove one of the two files", loaded.display())]
    NameTaken {
        /// The name.
        name: PluginName,
        /// The file that has it.
        loaded: PathBuf,
    },
    /// Another file claims the name too, and neither has had it.
    #[error("{} calls itself {name}, too, with another content, and neither has had that name; remove one of the two files", other.display())]
    NameContested {
        /// The name.
        name: PluginName,
        /// The other file.
        other: PathBuf,
    },
    /// Another plugin serves one of its sources.
    #[error(
        "it serves the volume source {source_name:?}, which belongs to plugin {by}; remove one of the two files, or give the source to this \
         plugin: volhost plugin grant {name} --source {source_name}"
    )]
    SourceTaken {
        /// The source.
        source_name: String,
        /// The plugin that is refused.
        name: PluginName,
        /// SHA-256 of its file.
        digest: String,
        /// Whose it is.
        by: PluginName,
    },
    /// Several plugins claim a source, and none of them has had it.
    #[error(
        "it serves the volume source {source_name:?}, which several plugins claim ({}), so that none of them may serve it; keep the file of \
         one, or leave the source to one: volhost plugin grant PLUGIN --source {source_name}",
        .plugins.iter().map(PluginName::as_str).collect::<Vec<_>>().join(", ")
    )]
    SourceContested {
        /// The source.
        source_name: String,
        /// The plugin that is refused.
        name: PluginName,
        /// SHA-256 of its file.
        digest: String,
        /// Who claims it.
        plugins: Vec<PluginName>,
    },
    /// It serves a source that needs the operator's leave.
    #[error(
        "it serves the volume source {source_name:?}, which is Kubernetes' own or names a driver, so that only a plugin that comes with volhost, or \
         one that the operator grants the source, may serve it: volhost plugin grant {name} --source {source_name}"
    )]
    SourceReserved {
        /// The source.
        source_name: String,
        /// The plugin.
        name: PluginName,
        /// SHA-256 of its file.
        digest: String,
    },
    /// That it uses a grant cannot be recorded.
    #[error("plugin {name} would be the first to use its grant, and that cannot be recorded: {source}")]
    NotRecorded {
        /// The plugin.
        name: PluginName,
        /// Why.
        #[source]
        source: ApprovalsError,
    },
}

/// What a plugin waits for whose content has not the grant of its name.
pub const APPROVAL: &str = "approval";

impl RegistryError {
    /// What would let the plugin in: interfaces to grant, or [`APPROVAL`].
    fn waits_for(&self) -> Option<Vec<String>> {
        match self {
            Self::Held { missing, .. } => Some(missing.clone()),
            Self::HeldContent { .. } => Some(vec![APPROVAL.to_owned()]),
            Self::SourceReserved { source_name, .. } => Some(vec![format!("source {source_name}")]),
            Self::Load(error) => match error.problem.as_ref() {
                LoadProblem::NotGranted(refused) => Some(missing(refused)),
                LoadProblem::OtherContent(_) => Some(vec![APPROVAL.to_owned()]),
                _ => None,
            },
            Self::NameTaken { .. }
            | Self::NameContested { .. }
            | Self::SourceTaken { .. }
            | Self::SourceContested { .. }
            | Self::NotRecorded { .. } => None,
        }
    }

    /// The content that waits for approval.
    fn unapproved(&self) -> Option<Unapproved> {
        let (name, version, digest) = match self {
            Self::Held { name, version, digest, missing, .. } if missing.iter().any(|what| what == APPROVAL) => {
                (name, version, digest)
            }
            Self::HeldContent { name, version, digest, .. } => (name, version, digest),
            Self::Load(error) => match error.problem.as_ref() {
                LoadProblem::OtherContent(refused) => (&refused.plugin, &refused.version, &refused.digest),
                LoadProblem::NotGranted(refused) if refused.other_content => {
                    (&refused.plugin, &refused.version, &refused.digest)
                }
                _ => return None,
            },
            _ => return None,
        };
        Some(Unapproved { name: name.clone(), version: version.clone(), digest: digest.clone() })
    }

    /// The plugin and the content that lack a right which they may have had.
    fn lacks_right(&self) -> Option<(&PluginName, &str)> {
        match self {
            Self::SourceReserved { name, digest, .. }
            | Self::SourceTaken { name, digest, .. }
            | Self::SourceContested { name, digest, .. } => Some((name, digest)),
            Self::Load(error) => match error.problem.as_ref() {
                LoadProblem::NotGranted(refused) => Some((&refused.plugin, &refused.digest)),
                LoadProblem::OtherContent(refused) => Some((&refused.plugin, &refused.digest)),
                LoadProblem::NameReserved(refused) => Some((&refused.plugin, &refused.digest)),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The interfaces that a refused plugin is not granted, and [`APPROVAL`] if it lacks that, too.
fn missing(refused: &NotGranted) -> Vec<String> {
    let approval = refused.other_content.then(|| APPROVAL.to_owned());
    refused.missing.iter().cloned().chain(approval).collect()
}

/// Content that has the name of a plugin and waits for approval.
#[derive(Debug, Clone)]
pub(super) struct Unapproved {
    pub(super) name: PluginName,
    pub(super) version: String,
    /// SHA-256 in hex.
    pub(super) digest: String,
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

/// The loaded plugins. Shared between the folder's watcher, which changes it, and the engine, which looks things up.
#[derive(Debug)]
pub struct PluginRegistry {
    pub(super) runtime: Arc<Runtime>,
    /// What is settled of names, sources and grants.
    pub(super) approvals: Arc<Approvals>,
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
pub(super) struct State {
    pub(super) ready: BTreeMap<PluginName, Arc<Plugin>>,
    /// The file is gone, volumes may be left.
    pub(super) retired: BTreeMap<PluginName, Arc<Plugin>>,
    /// Source to plugin, for those that are ready.
    pub(super) sources: BTreeMap<String, (PluginName, Right)>,
    /// Owners of sources that could not be written to the record.
    pub(super) unrecorded: BTreeMap<String, PluginName>,
    /// Loaded, and not in service before the look is over: another file may claim the same.
    pub(super) candidates: BTreeMap<PathBuf, Arc<Plugin>>,
    pub(super) failed: BTreeMap<PathBuf, String>,
    /// The interfaces that a file's plugin waits for.
    pub(super) waiting: BTreeMap<PathBuf, Vec<String>>,
    /// Files that are being compiled.
    pub(super) compiling: BTreeSet<PathBuf>,
    /// The first look at the folder has not ended: a plugin that is not known may be in a file that
    /// has not been read.
    is_starting: bool,
    /// The content of a file that waits for approval.
    pub(super) unapproved: BTreeMap<PathBuf, Unapproved>,
    /// Files that were refused because the record could not be written.
    not_recorded: BTreeSet<PathBuf>,
    quarantine: Quarantine,
    /// The same for `identify` alone.
    bad_answers: Quarantine,
}

impl PluginRegistry {
    /// An empty registry that keeps to what was settled before.
    pub fn new(runtime: Runtime, approvals: Arc<Approvals>) -> Self {
        let grants = runtime.grants();
        approvals.keep_bound(|plugin| grants.binds(plugin));
        Self {
            runtime: Arc::new(runtime.with_bindings(approvals.clone())),
            approvals,
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

    pub(super) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Loads the file and takes its plugin into service, in place of an older version from the same file. Blocking: compiles when
    /// the cache lacks it. None: it claims what nobody has yet, and waits for [`PluginRegistry::settle`].
    ///
    /// # Errors
    /// [`RegistryError`]; the version loaded before stays in service.
    pub fn load(&self, file: &Path) -> Result<Option<PluginName>, RegistryError> {
        self.admit(file, self.runtime.load(file))
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

    /// Returns whether the file's content comes with volhost or is named in a grant. Blocking: reads
    /// the file.
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

    /// Takes note that the file is being compiled, until [`Self::admit`] or [`Self::remove`].
    pub fn is_being_compiled(&self, file: &Path) {
        let mut state = self.write();
        state.failed.remove(file);
        state.compiling.insert(file.to_owned());
    }

    /// The names of the files that are being compiled.
    pub fn compiling(&self) -> Vec<String> {
        self.read().compiling_names()
    }

    /// Takes note that the first look at the folder is still to come, or has ended.
    pub fn set_starting(&self, starting: bool) {
        self.write().is_starting = starting;
    }

    /// Whether the first look at the folder has not ended: a plugin that is not known may be in a
    /// file that has not been read.
    pub fn is_starting(&self) -> bool {
        self.read().is_starting
    }

    /// The files that were refused because the record could not be written: the next try may succeed.
    pub fn not_recorded(&self) -> Vec<PathBuf> {
        self.read().not_recorded.iter().cloned().collect()
    }

    /// Whether files wait for [`PluginRegistry::settle`].
    pub fn has_candidates(&self) -> bool {
        !self.read().candidates.is_empty()
    }

    /// Takes what came of loading a file: its plugin into service, in place of an older version
    /// from the same file, or the reason why there
    /// is none. None: the plugin claims what nobody has yet, and waits for [`PluginRegistry::settle`]. Blocking: writes to the disk.
    ///
    /// # Errors
    /// [`RegistryError`]; the version loaded before stays in service.
    pub fn admit(
        &self,
        file: &Path,
        loaded: Result<Arc<Plugin>, LoadError>,
    ) -> Result<Option<PluginName>, RegistryError> {
        // A candidate of this file was loaded before: with other content, or by other grants.
        self.write().candidates.remove(file);
        let loaded = loaded.map_err(|error| self.held(file, error));
        let outcome = loaded.and_then(|plugin| self.put_into_service(file, &plugin, None));
        self.note_outcome(file, outcome.as_ref().map(drop));
        outcome
    }

    /// Decides, when every file of a look was loaded, who gets what nobody had: a file that alone claims it does. Files that claim the same
    /// are refused, all of them, whichever was loaded first.
    pub fn settle(&self) -> Vec<(PathBuf, Result<PluginName, RegistryError>)> {
        let candidates = std::mem::take(&mut self.write().candidates);
        let rivals: Vec<Rival> = candidates.iter().map(|(file, plugin)| Rival::new(file, plugin)).collect();
        let mut outcomes = Vec::with_capacity(candidates.len());
        for (file, plugin) in &candidates {
            let outcome = self.put_into_service(file, plugin, Some(&rivals)).map(|_| plugin.info().name.clone());
            self.note_outcome(file, outcome.as_ref().map(drop));
            outcomes.push((file.clone(), outcome));
        }
        outcomes
    }

    /// Keeps for users how the loading of a file ended.
    fn note_outcome(&self, file: &Path, outcome: Result<(), &RegistryError>) {
        let mut state = self.write();
        state.waiting.remove(file);
        state.compiling.remove(file);
        state.unapproved.remove(file);
        state.not_recorded.remove(file);
        if let Some(unapproved) = outcome.err().and_then(RegistryError::unapproved) {
            state.unapproved.insert(file.to_owned(), unapproved);
        }
        if let Err(RegistryError::NotRecorded { .. }) = outcome {
            state.not_recorded.insert(file.to_owned());
        }
        match outcome {
            Ok(()) => state.failed.remove(file),
            Err(error) => state.failed.insert(file.to_owned(), error.to_string()),
        };
        if let Some(waits_for) = outcome.err().and_then(RegistryError::waits_for) {
            state.waiting.insert(file.to_owned(), waits_for);
        }
    }

    /// A file whose plugin is refused for want of a right, while an older version of it runs, is held.
    fn held(&self, file: &Path, error: LoadError) -> RegistryError {
        let (plugin, version, digest) = match error.problem.as_ref() {
            LoadProblem::NotGranted(refused) => (&refused.plugin, &refused.version, &refused.digest),
            LoadProblem::OtherContent(refused) => (&refused.plugin, &refused.version, &refused.digest),
            _ => return error.into(),
        };
        let state = self.read();
        let running = state.ready.get(plugin).map(|running| running.info());
        let Some(running) = running.filter(|running| running.file == file && running.digest != *digest) else {
            drop(state);
            return error.into();
        };
        let (name, version, running) = (plugin.clone(), version.clone(), running.version.clone());
        match error.problem.as_ref() {
            LoadProblem::NotGranted(refused) => {
                RegistryError::Held { name, version, digest: digest.clone(), running, missing: missing(refused) }
            }
            _ => RegistryError::HeldContent { name, version, digest: digest.clone(), running },
        }
    }

    /// Takes what the operator grants from now on. Returns the files whose plugins are to be loaded
    /// again; none if the grants are what they were. Files that are being loaded are to be loaded
    /// again, too: the registry does not know them.
    pub fn regrant(&self, grants: GrantPolicy) -> Option<Vec<PathBuf>> {
        let before = self.runtime.grants();
        let changed = grants.changed_since(&before);
        self.approvals.keep_bound(|plugin| grants.binds(plugin));
        self.runtime.set_grants(grants);
        if changed.is_empty() {
            return None;
        }
        let (now, rights) = (self.runtime.grants(), self.source_rights());
        let mut state = self.write();
        state.assign_sources(&rights);
        let is_affected = |plugin: &&Arc<Plugin>| {
            let info = plugin.info();
            let right = |grants: &GrantPolicy, source: &String| grants.source_right(source, &info.name);
            changed.contains(&info.name)
                || info.sources.iter().any(|source| right(&before, source) != right(&now, source))
        };
        let loaded = state.ready.values().chain(state.candidates.values()).filter(is_affected);
        let files = loaded.map(|plugin| plugin.info().file.clone());
        Some(files.chain(state.failed.keys().cloned()).collect())
    }

    /// Retires the plugin of a file that is what it was, but may not run any more by what is granted now.
    pub fn retire_ungranted(&self, file: &Path, error: &RegistryError) -> Option<PluginName> {
        let (plugin, digest) = error.lacks_right()?;
        let rights = self.source_rights();
        let mut state = self.write();
        let running = state.ready.get(plugin).is_some_and(|p| p.info().file == file && p.info().digest == digest);
        running.then(|| {
            state.retire(plugin);
            state.assign_sources(&rights);
            plugin.clone()
        })
    }

    /// None: its claims are open, and it waits.
    fn put_into_service(
        &self,
        file: &Path,
        plugin: &Arc<Plugin>,
        rivals: Option<&[Rival]>,
    ) -> Result<Option<PluginName>, RegistryError> {
        let info = plugin.info();
        let name = info.name.clone();
        // Files are taken in one by one, so that nothing changes meanwhile. What is settled is
        // written to the disk: no lock may be held over that which the engine's loop needs.
        let claim = self.claim(&self.read(), file, plugin, rivals)?;
        let first = match claim {
            Claim::Good(first) => first,
            Claim::Open => {
                self.write().candidates.insert(file.to_owned(), Arc::clone(plugin));
                return Ok(None);
            }
        };
        let binds = self.runtime.grants().binds(&name);
        let mut unrecorded = Vec::new();
        if let Err(source) = self.approvals.settle(&name, &info.digest, binds, first.iter()) {
            if binds && self.approvals.bound(&name).as_ref() != Some(&info.digest) {
                return Err(RegistryError::NotRecorded { name, source });
            }
            warn!(plugin = %name, error = %source, "it is not recorded that the plugin is in service");
            unrecorded = first;
        }
        let rights = self.source_rights();
        let mut state = self.write();
        let renamed: Vec<PluginName> = state
            .ready
            .iter()
            .filter(|(other, p)| p.info().file == file && **other != name)
            .map(|(other, _)| other.clone())
            .collect();
        renamed.iter().for_each(|other| state.retire(other));
        state.unrecorded.retain(|_, by| *by != name);
        state.unrecorded.extend(unrecorded.into_iter().map(|source| (source, name.clone())));
        state.retired.remove(&name);
        state.quarantine.release(&name);
        state.bad_answers.release(&name);
        state.ready.insert(name.clone(), Arc::clone(plugin));
        state.assign_sources(&rights);
        Ok(Some(name))
    }

    /// The file is gone: its plugin serves tear-downs only from now on.
    pub fn remove(&self, file: &Path) -> Option<PluginName> {
        let rights = self.source_rights();
        let mut state = self.write();
        state.failed.remove(file);
        state.waiting.remove(file);
        state.compiling.remove(file);
        state.unapproved.remove(file);
        state.not_recorded.remove(file);
        state.candidates.remove(file);
        let name = state.ready.iter().find(|(_, plugin)| plugin.info().file == file).map(|(name, _)| name.clone())?;
        state.retire(&name);
        state.assign_sources(&rights);
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
        state.ready.get(&state.sources.get(source)?.0).cloned()
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

    /// Takes note of how the plugin answered what a volume is. Counted by itself: a plugin that
    /// names volumes well may set none up. Whether the plugin is quarantined now.
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
}

impl State {
    /// The last fault of a plugin that is quarantined.
    pub(super) fn quarantined(&self, plugin: &PluginName) -> Option<&str> {
        self.quarantine.reason(plugin).or_else(|| self.bad_answers.reason(plugin))
    }

    fn retire(&mut self, name: &PluginName) {
        if let Some(plugin) = self.ready.remove(name) {
            self.retired.insert(name.clone(), plugin);
        }
        self.unrecorded.retain(|_, by| by != name);
    }
}
