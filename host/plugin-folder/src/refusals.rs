//! Why plugins are not loaded, and what would change that.

use std::path::PathBuf;

use thiserror::Error;
use volhost_model::names::PluginName;
use volhost_model::view::APPROVAL;
use volhost_runtime::{LoadError, LoadProblem, NotGranted};

use super::approvals::ApprovalsError;

/// Why a file's plugin was not loaded.
#[derive(Debug, Error)]
pub enum RegistryError {
    /// The runtime refused it.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The file's new version asks for more than is granted; the one loaded before goes on.
    #[error(
        "plugin {name}: version {version} is pending approval: it asks for {}, which is not granted; version {running} keeps running. To \
         grant it: volhost plugin grant {name}{}",
        .missing.join(", "),
        .missing.iter().map(|interface| format!(" --interface {interface}")).collect::<String>()
    )]
    PendingGrant {
        /// The plugin.
        name: PluginName,
        /// The pending version.
        version: String,
        /// Its content.
        digest: String,
        /// The version that runs.
        running: String,
        /// The interfaces that it asks for and is not granted, and [`APPROVAL`] if it lacks that,
        /// too.
        missing: Vec<String>,
    },
    /// The file's content is not the one that has the grant; the one loaded before goes on.
    #[error(
        "plugin {name}: version {version} is pending approval: its content (sha256 {digest}) is not the one that has the grant of {name}; version \
         {running} keeps running. If the new one is to have the grant: volhost plugin grant {name}, which adds --sha256 {digest}"
    )]
    PendingContent {
        /// The plugin.
        name: PluginName,
        /// The pending version.
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
    /// The cluster installed it under another name.
    #[error(
        "it calls itself {name}, and the cluster installed it as {expected}; the VolumePlugin's spec.plugin must be {name}"
    )]
    OtherName {
        /// Its name.
        name: PluginName,
        /// The name that it was installed for.
        expected: String,
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
        /// Its owner.
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
        /// The claimants.
        plugins: Vec<PluginName>,
    },
    /// It serves a source that needs the operator's permission.
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

impl RegistryError {
    /// What the plugin waits for: interfaces to grant, or [`APPROVAL`].
    pub(super) fn waits_for(&self) -> Option<Vec<String>> {
        match self {
            Self::PendingGrant { missing, .. } => Some(missing.clone()),
            Self::PendingContent { .. } => Some(vec![APPROVAL.to_owned()]),
            Self::SourceReserved { source_name, .. } => Some(vec![format!("source {source_name}")]),
            Self::Load(error) => match error.problem.as_ref() {
                LoadProblem::NotGranted(refused) => Some(missing(refused)),
                LoadProblem::OtherContent(_) => Some(vec![APPROVAL.to_owned()]),
                _ => None,
            },
            Self::NameTaken { .. }
            | Self::OtherName { .. }
            | Self::NameContested { .. }
            | Self::SourceTaken { .. }
            | Self::SourceContested { .. }
            | Self::NotRecorded { .. } => None,
        }
    }

    /// The content that waits for approval.
    pub(super) fn unapproved(&self) -> Option<Unapproved> {
        let (name, version, digest) = match self {
            Self::PendingGrant { name, version, digest, missing, .. }
                if missing.iter().any(|what| what == APPROVAL) =>
            {
                (name, version, digest)
            }
            Self::PendingContent { name, version, digest, .. } => (name, version, digest),
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
    pub(super) fn lacks_right(&self) -> Option<(&PluginName, &str)> {
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
pub(super) fn missing(refused: &NotGranted) -> Vec<String> {
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
