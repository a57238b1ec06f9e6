//! Which of the loaded files may have the name and the sources that their plugins claim. The order
//! in which files are loaded decides nothing: an approved plugin keeps what it has, and of several
//! new claimants none gets it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use volhost_model::PluginName;
use volhost_runtime::{Plugin, SourceRight};

use super::refusals::RegistryError;
use super::registry::{PluginRegistry, RegistryState};
use super::rights::{ClaimRight, SourceRights};

/// Another file of the same scan whose claims are open.
#[derive(Debug)]
pub(super) struct RivalClaim {
    pub(super) file: PathBuf,
    pub(super) name: PluginName,
    pub(super) sources: Vec<String>,
    pub(super) digest: String,
}

impl RivalClaim {
    pub(super) fn new(file: &Path, plugin: &Plugin) -> Self {
        let info = plugin.info();
        let (name, sources, digest) = (info.name.clone(), info.sources.clone(), info.digest.clone());
        Self { file: file.to_owned(), name, sources, digest }
    }
}

/// What is to become of a file whose plugin may run.
#[derive(Debug)]
pub(super) enum SourceClaim {
    /// It may run, and owns these of its sources because no other plugin does.
    Good(Vec<String>),
    /// It claims something that is still free. Another file of the same scan may claim it, too.
    Open,
}

impl RegistryState {
    /// Decides again which plugin serves which source. The plugin with the best right serves it;
    /// the order in which the plugins came into service does not matter.
    pub(super) fn assign_sources(&mut self, rights: &SourceRights) {
        let mut sources: BTreeMap<String, (PluginName, ClaimRight)> = BTreeMap::new();
        for (name, plugin) in &self.ready {
            for source in &plugin.info().sources {
                let Some(right) = rights.of(source, name, &self.unrecorded) else { continue };
                let serves_now = self.sources.get(source).is_some_and(|(by, _)| by == name);
                let is_better = match sources.get(source) {
                    Some((_, other)) => right > *other || (right == *other && serves_now),
                    None => true,
                };
                if is_better {
                    sources.insert(source.clone(), (name.clone(), right));
                }
            }
        }
        self.sources = sources;
    }
}

impl PluginRegistry {
    /// The rights to sources as they are now. Call it before the state is locked: the record may be
    /// being written.
    pub(super) fn source_rights(&self) -> SourceRights {
        SourceRights::new(self.runtime.grants(), self.approvals.owners())
    }

    /// Checks what the plugin of a file claims against what others have. With `rivals`, the other
    /// files of the scan that wait, open claims are decided. A source that another plugin serves by
    /// a better right is no reason to refuse it.
    pub(super) fn claim(
        &self,
        state: &RegistryState,
        file: &Path,
        plugin: &Plugin,
        rivals: Option<&[RivalClaim]>,
    ) -> Result<SourceClaim, RegistryError> {
        let info = plugin.info();
        let mut open = self.check_name(state, file, plugin, rivals)?;
        let grants = self.runtime.grants();
        let taken = |source: &str, by: PluginName| RegistryError::SourceTaken {
            source_name: source.to_owned(),
            name: info.name.clone(),
            digest: info.digest.clone(),
            by,
        };
        let contested = |source: &str, plugins: Vec<PluginName>| RegistryError::SourceContested {
            source_name: source.to_owned(),
            name: info.name.clone(),
            digest: info.digest.clone(),
            plugins,
        };
        let mut first = Vec::new();
        for source in &info.sources {
            match grants.source_right(source, &info.name) {
                SourceRight::Granted => {}
                SourceRight::Shipped => {
                    let other = state.sources.get(source).filter(|(by, _)| *by != info.name);
                    if let Some((by, ClaimRight::Shipped)) = other {
                        return Err(taken(source, by.clone()));
                    }
                }
                SourceRight::Open => {
                    let unrecorded = || state.unrecorded.get(source).cloned();
                    match self.approvals.owner(source).or_else(unrecorded) {
                        Some(owner) if owner == info.name => {}
                        Some(by) => return Err(taken(source, by)),
                        None => {
                            if let Some(by) = grants.source_grantee(source) {
                                return Err(taken(source, by.clone()));
                            }
                            let plugins = claimants(source, &info.name, rivals.unwrap_or_default());
                            if plugins.len() > 1 {
                                return Err(contested(source, plugins));
                            }
                            open = true;
                        }
                    }
                    first.push(source.clone());
                }
                SourceRight::Reserved => {
                    return Err(RegistryError::SourceReserved {
                        source_name: source.clone(),
                        name: info.name.clone(),
                        digest: info.digest.clone(),
                    });
                }
                SourceRight::GrantedToSeveral(plugins) => return Err(contested(source, plugins)),
            }
        }
        if open && rivals.is_none() { Ok(SourceClaim::Open) } else { Ok(SourceClaim::Good(first)) }
    }

    /// Whether the file may have its plugin's name; true when that is open as long as other files
    /// of the scan may claim it.
    fn check_name(
        &self,
        state: &RegistryState,
        file: &Path,
        plugin: &Plugin,
        rivals: Option<&[RivalClaim]>,
    ) -> Result<bool, RegistryError> {
        let info = plugin.info();
        match state.ready.get(&info.name) {
            Some(ready) if ready.info().file == file => return Ok(false),
            Some(ready) => {
                return Err(RegistryError::NameTaken { name: info.name.clone(), loaded: ready.info().file.clone() });
            }
            None => {}
        }
        let recorded = self.approvals.content(&info.name);
        if recorded.as_ref() == Some(&info.digest) || self.runtime.grants().settles_name(&info.name) {
            return Ok(false);
        }
        // Two files of one content are the same plugin.
        let is_rival =
            |rival: &&RivalClaim| rival.name == info.name && rival.digest != info.digest && rival.file != file;
        match rivals.unwrap_or_default().iter().find(is_rival) {
            Some(rival) => Err(RegistryError::NameContested { name: info.name.clone(), other: rival.file.clone() }),
            None => Ok(true),
        }
    }
}

/// The plugins that claim a source which has no owner, sorted: this one and its rivals.
fn claimants(source: &str, plugin: &PluginName, rivals: &[RivalClaim]) -> Vec<PluginName> {
    let rivals = rivals.iter().filter(|rival| rival.sources.iter().any(|theirs| theirs == source));
    let mut plugins: Vec<PluginName> = rivals.map(|rival| rival.name.clone()).chain([plugin.clone()]).collect();
    plugins.sort();
    plugins.dedup();
    plugins
}
