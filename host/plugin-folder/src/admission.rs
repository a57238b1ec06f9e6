//! Puts plugins into service and retires them: when a file was loaded, when the operator's grants
//! have changed, when the file is gone.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::warn;
use volhost_model::names::PluginName;
use volhost_runtime::{GrantBindings, GrantPolicy, LoadError, LoadProblem, Plugin};

use super::claims::{RivalClaim, SourceClaim};
use super::refusals::{RegistryError, missing};
use super::registry::{PluginRegistry, RegistryState};

impl PluginRegistry {
    /// Loads the file and puts its plugin into service, in place of an older version from the same
    /// file. Blocking: compiles when the cache lacks it. None: the plugin claims a name or source
    /// without an owner, and waits for [`PluginRegistry::settle`].
    ///
    /// # Errors
    /// [`RegistryError`]; the version loaded before stays in service.
    pub fn load(&self, file: &Path) -> Result<Option<PluginName>, RegistryError> {
        self.admit(file, self.runtime.load(file))
    }

    /// Puts the plugin of a loaded file into service, in place of an older version from the same
    /// file, or keeps the reason why there is none. None: the plugin claims a name or source
    /// without an owner, and waits for [`PluginRegistry::settle`]. Blocking: writes to the disk.
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
        let loaded = loaded.map_err(|error| self.pending(file, error));
        let outcome = loaded.and_then(|plugin| self.put_into_service(file, &plugin, None));
        self.note_outcome(file, outcome.as_ref().map(drop));
        outcome
    }

    /// Gives names and sources without an owner to the plugins that claim them, once every file was
    /// loaded. If several files claim the same, it refuses all of them, whichever was loaded first.
    pub fn settle(&self) -> Vec<(PathBuf, Result<PluginName, RegistryError>)> {
        let candidates = std::mem::take(&mut self.write().candidates);
        let rivals: Vec<RivalClaim> = candidates.iter().map(|(file, plugin)| RivalClaim::new(file, plugin)).collect();
        let mut outcomes = Vec::with_capacity(candidates.len());
        for (file, plugin) in &candidates {
            let outcome = self.put_into_service(file, plugin, Some(&rivals)).map(|_| plugin.info().name.clone());
            self.note_outcome(file, outcome.as_ref().map(drop));
            outcomes.push((file.clone(), outcome));
        }
        outcomes
    }

    /// Keeps the outcome of loading a file, for users.
    fn note_outcome(&self, file: &Path, outcome: Result<(), &RegistryError>) {
        let mut state = self.write();
        state.waiting.remove(file);
        state.compiling.remove(file);
        state.installing.remove(file);
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

    /// The refusal of a file that lacks a grant or an approval: pending, if an older version of its
    /// plugin runs.
    fn pending(&self, file: &Path, error: LoadError) -> RegistryError {
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
            LoadProblem::NotGranted(refused) => RegistryError::PendingGrant {
                name,
                version,
                digest: digest.clone(),
                running,
                missing: missing(refused),
            },
            _ => RegistryError::PendingContent { name, version, digest: digest.clone(), running },
        }
    }

    /// Applies the operator's new grants. Returns the files whose plugins are to be loaded
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

    /// Retires the plugin of an unchanged file that may not run any more under the new grants.
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

    /// A file that the cluster has installed has the name that it was installed for: the grants are
    /// for that name.
    fn check_origin(&self, file: &Path, name: &PluginName) -> Result<(), RegistryError> {
        match self.cluster.as_ref().and_then(|folder| folder.name_of(file)) {
            None => Ok(()),
            Some(Ok(expected)) if expected == *name => Ok(()),
            Some(expected) => Err(RegistryError::OtherName {
                name: name.clone(),
                expected: expected.map_or_else(|file| file, |expected| expected.to_string()),
            }),
        }
    }

    /// None: its claims are open, and it waits.
    fn put_into_service(
        &self,
        file: &Path,
        plugin: &Arc<Plugin>,
        rivals: Option<&[RivalClaim]>,
    ) -> Result<Option<PluginName>, RegistryError> {
        let info = plugin.info();
        let name = info.name.clone();
        self.check_origin(file, &name)?;
        // Files are taken in one by one, so that nothing changes meanwhile. What is settled is
        // written to the disk: no lock may be held over that which the event loop needs.
        let claim = self.claim(&self.read(), file, plugin, rivals)?;
        let first = match claim {
            SourceClaim::Good(first) => first,
            SourceClaim::Open => {
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

    /// The file is gone: its plugin only unpublishes and unstages from now on.
    pub fn remove(&self, file: &Path) -> Option<PluginName> {
        let rights = self.source_rights();
        let mut state = self.write();
        state.failed.remove(file);
        state.waiting.remove(file);
        state.compiling.remove(file);
        state.installing.remove(file);
        state.unapproved.remove(file);
        state.not_recorded.remove(file);
        state.candidates.remove(file);
        let name = state.ready.iter().find(|(_, plugin)| plugin.info().file == file).map(|(name, _)| name.clone())?;
        state.retire(&name);
        state.assign_sources(&rights);
        Some(name)
    }
}

impl RegistryState {
    fn retire(&mut self, name: &PluginName) {
        if let Some(plugin) = self.ready.remove(name) {
            self.retired.insert(name.clone(), plugin);
        }
        self.unrecorded.retain(|_, by| by != name);
    }
}
