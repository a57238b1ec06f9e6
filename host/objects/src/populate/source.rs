//! The one source of a volume.

use std::sync::Arc;

use serde_json::Value;
use thiserror::Error;
use volhost_csi_translation::{Migration, TranslationError};
use volhost_model::spec::is_pod_source;
use volhost_model::{Fields, OuterName, SpecName};

use crate::written_source::{Written, WrittenSource};
use crate::{PersistentVolumeObject, PodObject, PodVolume};

/// A volume whose source cannot be used, with its place in the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum SourceError {
    /// A volume of a pod.
    #[error("{file}:{line}: spec.volumes[{index}] (volume \"{name}\") {problem}")]
    OfPod {
        file: Arc<str>,
        line: u32,
        index: usize,
        name: OuterName,
        #[source]
        problem: SourceProblem,
    },
    /// A PersistentVolume.
    #[error("{file}:{line}: spec of PersistentVolume {name} {problem}")]
    OfPersistentVolume {
        file: Arc<str>,
        line: u32,
        name: SpecName,
        #[source]
        problem: SourceProblem,
    },
}

/// A source that cannot be used. The text follows the volume's name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum SourceProblem {
    /// The source's field has no value.
    #[error("has nothing under {0}; write `{0}: {{}}` for a source without fields")]
    Empty(String),
    /// There is no source.
    #[error("has no source; give it one, such as `emptyDir: {{}}`")]
    Missing,
    /// The source is no map.
    #[error("has a source {0} that is no map of fields")]
    NotAMap(String),
    /// There are several sources.
    #[error("has {} sources ({}); a volume has one", .0.len(), .0.join(", "))]
    Several(Vec<String>),
    /// A CSI driver serves it in place of a former in-tree plugin, and cannot serve this one.
    #[error("cannot be served by the CSI driver {driver}: {error}")]
    Untranslatable {
        driver: &'static str,
        #[source]
        error: TranslationError,
    },
    /// A PersistentVolume has a source that belongs to a pod.
    #[error("has the source {0}, which only a pod's own volume can have: its data goes with the pod")]
    PodSource(String),
}

/// Returns the source of a pod's volume: its field, and the fields in it.
pub(super) fn of_pod_volume<'a>(
    pod: &PodObject,
    index: usize,
    volume: &'a PodVolume,
) -> Result<(&'a str, &'a Fields), SourceError> {
    only_source(&volume.source).map_err(|problem| SourceError::OfPod {
        file: Arc::clone(&pod.file),
        line: volume.line,
        index,
        name: volume.name.clone(),
        problem,
    })
}

/// Returns the source of a PersistentVolume.
pub(super) fn of_persistent_volume(volume: &PersistentVolumeObject) -> Result<(&str, &Fields), SourceError> {
    let refused = |problem| SourceError::OfPersistentVolume {
        file: Arc::clone(&volume.file),
        line: volume.line,
        name: volume.name.clone(),
        problem,
    };
    let (field, fields) = only_source(&volume.source).map_err(refused)?;
    if is_pod_source(field) {
        return Err(refused(SourceProblem::PodSource(field.to_owned())));
    }
    Ok((field, fields))
}

/// Returns that a PersistentVolume of a former in-tree source cannot be translated.
pub(super) fn untranslatable_volume(
    volume: &PersistentVolumeObject,
    source: &str,
    error: TranslationError,
) -> SourceError {
    SourceError::OfPersistentVolume {
        file: Arc::clone(&volume.file),
        line: volume.line,
        name: volume.name.clone(),
        problem: untranslatable(source, error),
    }
}

/// As [`untranslatable_volume`], of a pod's own volume.
pub(super) fn untranslatable_inline(
    pod: &PodObject,
    index: usize,
    volume: &PodVolume,
    source: &str,
    error: TranslationError,
) -> SourceError {
    SourceError::OfPod {
        file: Arc::clone(&pod.file),
        line: volume.line,
        index,
        name: volume.name.clone(),
        problem: untranslatable(source, error),
    }
}

fn untranslatable(source: &str, error: TranslationError) -> SourceProblem {
    SourceProblem::Untranslatable { driver: Migration::of_source(source).map_or("", Migration::driver), error }
}

/// Whether the source asks for a read-only mount.
pub(super) fn is_read_only(fields: &Fields) -> bool {
    fields.get("readOnly") == Some(&Value::Bool(true))
}

fn only_source(source: &WrittenSource) -> Result<(&str, &Fields), SourceProblem> {
    let all = match source.written() {
        Written::One { source, fields } => return Ok((source, fields)),
        Written::Other(all) => all,
    };
    let mut given = all.iter().filter(|(_, value)| !value.is_null()).map(|(field, _)| field.clone());
    Err(match (given.next(), given.next()) {
        (None, _) => match all.keys().next() {
            Some(field) => SourceProblem::Empty(field.clone()),
            None => SourceProblem::Missing,
        },
        (Some(field), None) => SourceProblem::NotAMap(field),
        (Some(first), Some(second)) => SourceProblem::Several([first, second].into_iter().chain(given).collect()),
    })
}
