//! The one source of a volume.

use serde_json::{Map, Value};
use volhost_model::spec::is_pod_source;

use crate::{PersistentVolumeObject, PodObject, PodVolume};

/// The fields of a source.
pub(super) type Fields = Map<String, Value>;

/// The source of a pod's volume: its field and what is in it.
pub(super) fn of_pod_volume<'a>(
    pod: &PodObject,
    index: usize,
    volume: &'a PodVolume,
) -> Result<(&'a str, &'a Fields), String> {
    only_source(&volume.source).map_err(|problem| {
        let PodVolume { name, line, .. } = volume;
        format!("{}:{line}: spec.volumes[{index}] (volume \"{name}\") {problem}", pod.file)
    })
}

/// The source of a PersistentVolume.
pub(super) fn of_persistent_volume(volume: &PersistentVolumeObject) -> Result<(&str, &Fields), String> {
    let (field, fields) = only_source(&volume.source).map_err(|problem| {
        format!("{}:{}: spec of PersistentVolume {} {problem}", volume.file, volume.line, volume.name)
    })?;
    if is_pod_source(field) {
        return Err(format!(
            "{}:{}: spec of PersistentVolume {} has the source {field}, which only a pod's own volume can have: its data goes with the pod",
            volume.file, volume.line, volume.name
        ));
    }
    Ok((field, fields))
}

/// Whether the source asks for a read-only mount.
pub(super) fn is_read_only(fields: &Fields) -> bool {
    fields.get("readOnly") == Some(&Value::Bool(true))
}

fn only_source(all: &Fields) -> Result<(&str, &Fields), String> {
    let mut given = all.iter().filter(|(_, value)| !value.is_null());
    match (given.next(), given.next()) {
        (None, _) => Err(match all.keys().next() {
            Some(field) => format!("has nothing under {field}; write `{field}: {{}}` for a source without fields"),
            None => "has no source; give it one, such as `emptyDir: {}`".to_owned(),
        }),
        (Some((field, Value::Object(fields))), None) => Ok((field, fields)),
        (Some((field, _)), None) => Err(format!("has a source {field} that is no map of fields")),
        (Some(_), Some(_)) => {
            let fields: Vec<&str> =
                all.iter().filter(|(_, value)| !value.is_null()).map(|(field, _)| field.as_str()).collect();
            Err(format!("has {} sources ({}); a volume has one", fields.len(), fields.join(", ")))
        }
    }
}
