//! The manifest of a request: its objects, and the JSON of each for its file.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use thiserror::Error;
use volhost_model::text::shorten;
use volhost_objects::{Kind, ManifestError, Object, ObjectKey, UnknownFieldNotice};

/// The name of a request's manifest in messages.
pub(super) const REQUEST: &str = "request";

/// Characters of the line about one unknown field: a key may be of any length.
const MAX_LINE_CHARS: usize = 300;

/// Bytes of a refusal. A gRPC status travels in a header, of which a client takes 16 KiB, and three
/// bytes there are one here.
const MAX_REFUSAL_BYTES: usize = 3 << 10;

/// A manifest that cannot be used.
#[derive(Debug, Error)]
pub(super) enum ManifestTextError {
    /// An object is invalid.
    #[error(transparent)]
    Object(#[from] ManifestError),
    /// An object is of a kind that volhost does not know.
    #[error("{0}")]
    UnknownKind(String),
    /// Objects have fields that their kinds lack, and the caller wants none ignored.
    #[error("{0}")]
    UnknownFields(String),
    /// The text is no YAML.
    #[error("{0}")]
    Yaml(#[source] Box<serde_saphyr::Error>),
}

/// What to do about fields that an object's kind lacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Refuse the manifest.
    Strict,
    /// Use it without them, and return a warning for each.
    #[default]
    Warn,
    /// Use it without them.
    Ignore,
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
    pub fn read(text: String, validation: FieldValidation) -> Self {
        Self { read: objects(&text, validation), text }
    }

    /// Returns the objects.
    ///
    /// # Errors
    /// [`ManifestTextError`], with line and field.
    pub(super) fn into_objects(self) -> Result<ManifestObjects, ManifestTextError> {
        self.read
    }
}

fn objects(text: &str, validation: FieldValidation) -> Result<ManifestObjects, ManifestTextError> {
    let parsed = volhost_objects::parse(REQUEST, text)?;
    // A caller that adds an object wants it to be used. In a folder it may be meant for another
    // program.
    if let Some(why) = parsed.unknown_kinds.into_iter().next() {
        return Err(ManifestTextError::UnknownKind(why));
    }
    let mut warnings = parsed.notices;
    match validation {
        FieldValidation::Strict if !parsed.unknown_fields.is_empty() => {
            return Err(ManifestTextError::UnknownFields(refusal(&parsed.unknown_fields)));
        }
        FieldValidation::Warn => warnings.extend(parsed.unknown_fields.iter().map(UnknownFieldNotice::warning)),
        FieldValidation::Strict | FieldValidation::Ignore => {}
    }
    Ok(ManifestObjects { documents: documents(text)?, objects: parsed.objects, warnings })
}

/// Returns a line for each field, as far as a gRPC status has room for them.
fn refusal(fields: &[UnknownFieldNotice]) -> String {
    let mut text = String::new();
    for (at, field) in fields.iter().enumerate() {
        let line = shorten(&field.refusal(), MAX_LINE_CHARS);
        if at > 0 && text.len() + line.len() > MAX_REFUSAL_BYTES {
            text.push_str(&format!("\n{} more", fields.len() - at));
            break;
        }
        if at > 0 {
            text.push('\n');
        }
        text.push_str(&line);
    }
    text
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
        let manifest = Manifest::read(format!("{}\n---\n{list}\n---\n", pod("a")), FieldValidation::Strict);
        let read = manifest.into_objects().unwrap();
        let keys: Vec<&ObjectKey> = read.documents.iter().map(|(key, _)| key).collect();
        assert_eq!(keys, read.objects.iter().map(|object| &object.key).collect::<Vec<_>>());
        for ((key, text), object) in read.documents.iter().zip(&read.objects) {
            let again = volhost_objects::parse(REQUEST, text).unwrap();
            assert_eq!(again.objects[0].key, *key);
            assert_eq!(again.objects[0].content, object.content);
        }
    }
    #[test]
    fn the_caller_decides_about_unknown_fields() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: a }\ndat: {}\n";
        let read = |validation| Manifest::read(text.to_owned(), validation).into_objects();
        let refused = read(FieldValidation::Strict).unwrap_err().to_string();
        assert_eq!(refused, "request:4: dat: is no field of a ConfigMap; did you mean data?");
        let warned = read(FieldValidation::Warn).unwrap().warnings;
        assert_eq!(warned, ["request:4: dat: is no field of a ConfigMap; ignored (did you mean data?)"]);
        assert_eq!(read(FieldValidation::Ignore).unwrap().warnings, Vec::<String>::new());
    }

    #[test]
    fn a_refusal_fits_into_a_grpc_status() {
        let object = |name: usize| {
            let keys: String = (0..20).map(|n| format!("{}{n}: 1\n", "\u{fc}".repeat(200))).collect();
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: a{name} }}\n{keys}---\n")
        };
        let text: String = (0..10).map(object).collect();
        let refused = Manifest::read(text, FieldValidation::Strict).into_objects().unwrap_err().to_string();
        assert!(refused.len() < 4 << 10, "{}", refused.len());
        let named = refused.lines().count() - 1;
        assert!(named > 1 && refused.ends_with(&format!("\n{} more", 200 - named)), "{refused}");
    }
}
