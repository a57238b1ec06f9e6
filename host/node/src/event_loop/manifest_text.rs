//! The manifest of a request: its objects, and the JSON of each for its file.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use thiserror::Error;
use volhost_objects::{Kind, ManifestError, Object, ObjectKey};

/// The name of a request's manifest in messages.
pub(super) const REQUEST: &str = "request";

/// A manifest that cannot be used.
#[derive(Debug, Error)]
pub(super) enum ManifestTextError {
    /// An object is invalid.
    #[error(transparent)]
    Object(#[from] ManifestError),
    /// An object is of a kind that volhost does not know.
    #[error("{0}")]
    UnknownKind(String),
    /// The text is no YAML.
    #[error("{0}")]
    Yaml(#[source] Box<serde_saphyr::Error>),
}

/// A manifest that came with a request. It may contain secrets, so no part of it is printed.
pub struct Manifest {
    /// The text.
    pub text: String,
    read: Result<ManifestObjects, ManifestTextError>,
}

impl fmt::Debug for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manifest").finish_non_exhaustive()
    }
}

/// The objects of a manifest.
pub(super) struct ManifestObjects {
    /// Checked.
    pub(super) objects: Vec<Arc<Object>>,
    /// The JSON of each object.
    pub(super) documents: Vec<(ObjectKey, String)>,
    /// The parts of them that volhost does not use, for example unknown fields.
    pub(super) warnings: Vec<String>,
}

impl fmt::Debug for ManifestObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.objects.iter().map(|object| object.key.to_string())).finish()
    }
}

impl Manifest {
    /// Reads the text. An error in it is returned when the request is handled.
    pub fn read(text: String) -> Self {
        Self { read: objects(&text), text }
    }

    /// Returns the objects.
    ///
    /// # Errors
    /// [`ManifestTextError`], with line and field.
    pub(super) fn into_objects(self) -> Result<ManifestObjects, ManifestTextError> {
        self.read
    }
}

fn objects(text: &str) -> Result<ManifestObjects, ManifestTextError> {
    let parsed = volhost_objects::parse(REQUEST, text)?;
    // A caller that adds an object wants it to be used. In a folder it may be meant for another
    // program.
    if let Some(why) = parsed.unknown_kinds.into_iter().next() {
        return Err(ManifestTextError::UnknownKind(why));
    }
    Ok(ManifestObjects { documents: documents(text)?, objects: parsed.objects, warnings: parsed.notices })
}

/// Returns the objects of a manifest that has been checked.
fn documents(text: &str) -> Result<Vec<(ObjectKey, String)>, ManifestTextError> {
    let values: Vec<Value> = match serde_json::from_str(text) {
        Ok(value) => vec![value],
        Err(_) => serde_saphyr::from_multiple(text).map_err(|error| ManifestTextError::Yaml(Box::new(error)))?,
    };
    let mut documents = Vec::new();
    for mut value in values {
        let is_list = value.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
        match value.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) if is_list => documents.extend(items.iter().filter_map(document)),
            _ => documents.extend(document(&value)),
        }
    }
    Ok(documents)
}

/// Returns one object's key and JSON; none for an object of an unknown kind.
fn document(value: &Value) -> Option<(ObjectKey, String)> {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    let kind = Kind::from_name(text("/kind")?)?;
    let namespace = text("/metadata/namespace").unwrap_or(volhost_objects::DEFAULT_NAMESPACE);
    Some((ObjectKey::new(kind, namespace, text("/metadata/name")?), value.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_is_stored_under_the_key_it_was_read_with() {
        let pod = |name: &str| {
            format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: c, image: i}}]}}}}"
            )
        };
        let list = format!("{{apiVersion: v1, kind: List, items: [{}, {}]}}", pod("b"), pod("c"));
        let manifest = Manifest::read(format!("{}\n---\n{list}\n---\n", pod("a")));
        let read = manifest.into_objects().unwrap();
        let keys: Vec<&ObjectKey> = read.documents.iter().map(|(key, _)| key).collect();
        assert_eq!(keys, read.objects.iter().map(|object| &object.key).collect::<Vec<_>>());
        for ((key, text), object) in read.documents.iter().zip(&read.objects) {
            let again = volhost_objects::parse(REQUEST, text).unwrap();
            assert_eq!(again.objects[0].key, *key);
            assert_eq!(again.objects[0].content, object.content);
        }
    }
}
