//! Volumes that cannot be resolved.

use std::sync::Arc;

use thiserror::Error;
use volhost_model::{NameError, OuterName, PluginName, SpecName};

use super::catalog::NoChoice;
use super::claim::ClaimError;
use super::container_mounts::SubPathExprError;
use super::selinux::LabelConflict;
use super::source::SourceError;
use crate::{PodObject, VolumeUse};

/// A volume of a pod that cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum ResolveError {
    /// A container names a volume that the pod lacks.
    #[error("{place} names the volume \"{name}\", but {known}")]
    Missing { place: String, name: OuterName, known: String },
    /// Its name in the pod cannot be a folder's name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Its source cannot be used.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Its claim cannot be used.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// Its use does not fit its volume mode.
    #[error("volume {name} {problem} ({place}); {remedy}")]
    Mode { name: OuterName, problem: &'static str, place: UsePlace, remedy: &'static str },
    /// Its plugin takes no mount options.
    #[error(
        "PersistentVolume {volume} has mountOptions ({options}), but plugin {plugin} takes none; remove spec.mountOptions"
    )]
    MountOptions { volume: String, options: String, plugin: PluginName },
    /// Its containers need different SELinux labels.
    #[error(transparent)]
    Label(#[from] LabelConflict),
    /// A `subPathExpr` cannot be used.
    #[error(transparent)]
    SubPathExpr(#[from] Box<SubPathExprError>),
    /// Its plugin gives it an invalid name.
    #[error("plugin {plugin} gives the volume a name that cannot be used: {problem}")]
    UniqueName {
        plugin: PluginName,
        #[source]
        problem: NameError,
    },
    /// It shares its folder's name with another volume, and one of them has sub-paths.
    #[error(
        "volume {volume} and volume {other} of the pod both have the folder name {name}, and a container has a subPath in one of them; rename one"
    )]
    SameFolder { volume: OuterName, other: OuterName, name: SpecName },
}

/// The place of a container's use of a volume in the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}:{line}: {path}")]
pub(super) struct UsePlace {
    pub(super) file: Arc<str>,
    pub(super) line: u32,
    pub(super) path: String,
}

impl From<ResolveError> for NoChoice {
    fn from(error: ResolveError) -> Self {
        error.to_string().into()
    }
}

/// Returns the place of a container's use of a volume.
pub(super) fn place(pod: &PodObject, used: &VolumeUse) -> UsePlace {
    UsePlace { file: Arc::clone(&pod.file), line: used.line, path: used.path.clone() }
}

/// Lists the volumes of a pod, for a message about a volume that it lacks.
pub(super) fn known_volumes(pod: &PodObject) -> String {
    let mut known: Vec<&str> = pod.volumes.iter().map(|volume| volume.name.as_str()).collect();
    known.sort_unstable();
    let known = if known.is_empty() { "has no volumes".to_owned() } else { format!("has only {}", known.join(", ")) };
    format!("spec.volumes {known}")
}
