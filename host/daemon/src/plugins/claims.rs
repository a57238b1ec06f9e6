//! Which of the loaded files may have the name and the sources that their plugins claim. The order in which files are loaded
//! decides nothing: who was approved keeps what it has, and of several new claimants none gets it.

use std::path::{Path, PathBuf};

use volhost_model::PluginName;
use volhost_runtime::{Plugin, SourceRight};

use super::registry::{PluginRegistry, RegistryError, State};

/// The right by which a plugin serves a source. A better one takes the source over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Right {
    /// It was the only one that claimed the source.
    First,
    /// It comes with volhost.
    Shipped,
    /// The operator granted the source to it.
    Granted,
}

/// Another file of the same look whose claims are open.
#[derive(Debug)]
pub(super) struct Rival {
    pub(super) file: PathBuf,
    pub(super) name: PluginName,
    pub(super) sources: Vec<String>,
    pub(super) digest: String,
}

impl Rival {
    pub(super) fn new(file: &Path, plugin: &Plugin) -> Self {
        let info = plugin.info();
        let (name, sources, digest) = (info.name.clone(), info.sources.clone(), info.digest.clone());
        Self { file: file.to_owned(), name, sources, digest }
    }
}

/// What is to become of a file whose plugin may run.
#[derive(Debug)]
pub(super) enum Claim {
    /// It serves these of its sources.
    Good(Vec<(String, Right)>),
    /// It claims something that is nobody's yet. Another file of the same look may claim it, too.
    Open,
}

impl PluginRegistry {
    /// Checks what the plugin of a file claims against what others have. With `rivals`, the other files of the look that wait, open claims
    /// are decided.
    pub(super) fn claim(
        &self,
        state: &State,
        file: &Path,
        plugin: &Plugin,
        rivals: Option<&[Rival]>,
    ) -> Result<Claim, RegistryError> {
        let info = plugin.info();
        let mut open = self.check_name(state, file, plugin, rivals)?;
        let grants = self.runtime.grants();
        let mut served = Vec::with_capacity(info.sources.len());
        for source in &info.sources {
            let right = match grants.source_right(source, &info.name) {
                SourceRight::Granted => Right::Granted,
                SourceRight::Shipped => Right::Shipped,
                SourceRight::Open => Right::First,
                SourceRight::Reserved => {
                    return Err(RegistryError::SourceReserved {
                        source_name: source.clone(),
                        name: info.name.clone(),
                        digest: info.digest.clone(),
                    });
                }
                SourceRight::GrantedToSeveral(plugins) => {
                    return Err(RegistryError::SourceContested { source_name: source.clone(), plugins });
                }
            };
            if right == Right::First && self.is_open(source, &info.name, rivals)? {
                open = true;
            }
            match state.sources.get(source).filter(|(by, _)| *by != info.name) {
                // A plugin of volhost's keeps its other sources.
                Some((_, theirs)) if *theirs > right && right == Right::Shipped => {}
                Some((by, theirs)) if *theirs >= right => {
                    return Err(RegistryError::SourceTaken { source_name: source.clone(), by: by.clone() });
                }
                _ => served.push((source.clone(), right)),
            }
        }
        if open && rivals.is_none() { Ok(Claim::Open) } else { Ok(Claim::Good(served)) }
    }

    /// Whether a source that needs no leave is nobody's yet.
    fn is_open(&self, source: &str, plugin: &PluginName, rivals: Option<&[Rival]>) -> Result<bool, RegistryError> {
        match self.approvals.owner(source) {
            Some(owner) if owner == *plugin => return Ok(false),
            Some(by) => return Err(RegistryError::SourceTaken { source_name: source.to_owned(), by }),
            None => {}
        }
        let rivals = rivals.unwrap_or_default().iter();
        let rivals =
            rivals.filter(|rival| rival.name != *plugin && rival.sources.iter().any(|theirs| theirs == source));
        let mut plugins: Vec<PluginName> = rivals.map(|rival| rival.name.clone()).collect();
        if plugins.is_empty() {
            return Ok(true);
        }
        plugins.push(plugin.clone());
        plugins.sort();
        plugins.dedup();
        Err(RegistryError::SourceContested { source_name: source.to_owned(), plugins })
    }

    /// Whether the file may have its plugin's name; true when that is open as long as other files of the look may claim it.
    fn check_name(
        &self,
        state: &State,
        file: &Path,
        plugin: &Plugin,
        rivals: Option<&[Rival]>,
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
        let is_rival = |rival: &&Rival| rival.name == info.name && rival.digest != info.digest && rival.file != file;
        match rivals.unwrap_or_default().iter().find(is_rival) {
            Some(rival) => Err(RegistryError::NameContested { name: info.name.clone(), other: rival.file.clone() }),
            None => Ok(true),
        }
    }
}
