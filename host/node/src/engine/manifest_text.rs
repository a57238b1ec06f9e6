//! The text of a request, read: its objects, and each of them as it is kept for the next start.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use volhost_objects::{Kind, Object, ObjectKey};

/// What a request's manifest is called in messages.
pub(super) const REQUEST: &str = "request";

/// A manifest that came with a request. It may hold secrets, so nothing of it is printed.
pub struct Manifest {
    /// The text.
    pub text: String,
    /// What it holds, or what is wrong with it, with line and field.
    pub(super) read: Result<Objects, String>,
}

impl fmt::Debug for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manifest").finish_non_exhaustive()
    }
}

/// The objects of a manifest.
pub(super) struct Objects {
    /// Checked.
    pub(super) objects: Vec<Arc<Object>>,
    /// Each by itself, as JSON.
    pub(super) documents: Vec<(ObjectKey, String)>,
    /// What volhost does not use of them: fields that a kind does not have, for example.
    pub(super) warnings: Vec<String>,
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.objects.iter().map(|object| object.key.to_string())).finish()
    }
}

impl Manifest {
    /// Reads the text. What is wrong with it is kept for the answer.
    pub fn read(text: String) -> Self {
        Self { read: objects(&text), text }
    }
}

fn objects(text: &str) -> Result<Objects, String> {
    let parsed = volhost_objects::parse(REQUEST, text).map_err(|error| error.to_string())?;
    // Whoever asks for an object to be added wants it to count. In a folder it may be meant for others.
    if let Some(why) = parsed.unknown_kinds.into_iter().next() {
        return Err(why);
    }
    Ok(Objects { documents: documents(text)?, objects: parsed.objects, warnings: parsed.notices })
}

/// The objects of a manifest that has been checked.
fn documents(text: &str) -> Result<Vec<(ObjectKey, String)>, String> {
    let values: Vec<Value> = match serde_json::from_str(text) {
        Ok(value) => vec![value],
        Err(_) => serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?,
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

/// One object's key and JSON; none for what is no object of ours.
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
    fn every_object_is_kept_under_the_key_it_was_read_with() {
        let pod = |name: &str| {
            format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: c, image: i}}]}}}}"
            )
        };
        let list = format!("{{apiVersion: v1, kind: List, items: [{}, {}]}}", pod("b"), pod("c"));
        let manifest = Manifest::read(format!("{}\n---\n{list}\n---\n", pod("a")));
        let read = manifest.read.unwrap();
        let keys: Vec<&ObjectKey> = read.documents.iter().map(|(key, _)| key).collect();
        assert_eq!(keys, read.objects.iter().map(|object| &object.key).collect::<Vec<_>>());
        for ((key, text), object) in read.documents.iter().zip(&read.objects) {
            let again = volhost_objects::parse(REQUEST, text).unwrap();
            assert_eq!(again.objects[0].key, *key);
            assert_eq!(again.objects[0].content, object.content);
        }
    }
}
