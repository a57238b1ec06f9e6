//! What adding a manifest would change: each object as it is kept, and as it would be.
//!
//! A secret's values are in neither: only that they differ.
#![deny(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::manifest_text::ManifestObjects;
use super::object_files::ObjectFiles;
use super::reply::reply;
use super::requests::{Compared, ComparedObject, RequestError};
use super::sources::Sources;
use volhost_objects::{Kind, Object, ObjectContent, ObjectKey};

/// A value that is the same on both sides, by kubectl's word.
const SAME: &str = "***";
/// A value that differs, or is on one side only.
const BEFORE: &str = "*** (before)";
const AFTER: &str = "*** (after)";

/// An object whose present form is still to be read from its file.
#[derive(Debug)]
struct Pending {
    key: ObjectKey,
    uid: String,
    applied: String,
}

/// A part of the answer, in the manifest's order.
#[derive(Debug)]
enum Part {
    Known(ComparedObject),
    InFile(Pending),
}

/// Compares checked objects with the present ones, and answers. Files are read on a thread that may
/// block.
pub(super) fn answer(
    planned: ManifestObjects,
    sources: &Sources,
    answer: oneshot::Sender<Result<Compared, RequestError>>,
) {
    let ManifestObjects { objects, documents, warnings } = planned;
    let new: BTreeMap<&ObjectKey, &Object> = objects.iter().map(|object| (&object.key, object.as_ref())).collect();
    let parts: Vec<Part> = documents
        .into_iter()
        .map(|(key, applied)| {
            let old = sources.store().get(&key);
            let new = new.get(&key).copied();
            match (secret(old.map(AsRef::as_ref)), secret(new)) {
                (before, Some(after)) => Part::Known(masked(key, before, &after)),
                _ => match old {
                    None => Part::Known(ComparedObject { key, present: None, applied }),
                    Some(old) => Part::InFile(Pending { key, uid: old.uid.clone(), applied }),
                },
            }
        })
        .collect();
    let files = sources.files();
    tokio::task::spawn_blocking(move || {
        let objects = parts.into_iter().map(|part| part.read(&files)).collect::<Result<_, _>>();
        reply(answer, objects.map(|objects| Compared { objects, warnings }));
    });
}

impl Part {
    fn read(self, files: &ObjectFiles) -> Result<ComparedObject, RequestError> {
        let Pending { key, uid, applied } = match self {
            Self::Known(object) => return Ok(object),
            Self::InFile(pending) => pending,
        };
        let unread = |why: String| RequestError::Failed(format!("{key}: its present form cannot be read: {why}"));
        let bytes = files.read(&key, &uid).map_err(|error| unread(error.to_string()))?;
        let bytes = bytes.ok_or_else(|| unread("it has no file".to_owned()))?;
        let present = String::from_utf8(bytes).map_err(|error| unread(error.to_string()))?;
        Ok(ComparedObject { key, present: Some(present), applied })
    }
}

/// The values of a secret, and its type; none for another object.
fn secret(object: Option<&Object>) -> Option<(String, BTreeMap<String, Vec<u8>>)> {
    let ObjectContent::Secret(secret) = &object?.content else { return None };
    let values = secret.data.iter().flatten().map(|(name, value)| (name.clone(), value.0.clone()));
    let texts = secret.string_data.iter().flatten().map(|(name, text)| (name.clone(), text.clone().into_bytes()));
    Some((secret.type_.clone().unwrap_or_default(), values.chain(texts).collect()))
}

type SecretParts = (String, BTreeMap<String, Vec<u8>>);

/// Both sides of a secret: the names of its values, and whether they differ.
fn masked(key: ObjectKey, before: Option<SecretParts>, after: &SecretParts) -> ComparedObject {
    debug_assert_eq!(key.kind, Kind::Secret);
    let side = |(kind, values): &SecretParts, other: Option<&SecretParts>, differs: &str| {
        let names: BTreeSet<&String> = values.keys().collect();
        let data: BTreeMap<&String, &str> = names
            .into_iter()
            .map(|name| {
                let is_same = other.is_some_and(|(_, others)| others.get(name) == values.get(name));
                (name, if is_same { SAME } else { differs })
            })
            .collect();
        let metadata = json!({"namespace": key.namespace, "name": key.name});
        let mut document = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data});
        if let (Some(document), false) = (document.as_object_mut(), kind.is_empty()) {
            document.insert("type".to_owned(), Value::String(kind.clone()));
        }
        document.to_string()
    };
    let applied = side(after, before.as_ref(), AFTER);
    let present = before.as_ref().map(|before| side(before, Some(after), BEFORE));
    ComparedObject { key, present, applied }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(values: &[(&str, &str)]) -> SecretParts {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
        (String::new(), values.collect())
    }

    #[test]
    fn of_a_secret_only_names_and_differences_are_shown() {
        let key = || ObjectKey::new(Kind::Secret, "shop", "login");
        let before = parts(&[("same", "SESAME"), ("changed", "OLD-SECRET"), ("gone", "GONE-SECRET")]);
        let after = parts(&[("same", "SESAME"), ("changed", "NEW-SECRET"), ("new", "MORE-SECRET")]);
        let compared = masked(key(), Some(before.clone()), &after);
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap()["data"].clone();
        assert_eq!(
            read(compared.present.as_deref().unwrap()),
            json!({"same": SAME, "changed": BEFORE, "gone": BEFORE})
        );
        assert_eq!(read(&compared.applied), json!({"same": SAME, "changed": AFTER, "new": AFTER}));
        let text = format!("{compared:?}");
        assert!(!text.contains("SECRET") && !text.contains("SESAME"), "{text}");
        let same = masked(key(), Some(before.clone()), &before);
        assert_eq!(same.present.as_deref(), Some(same.applied.as_str()));
        let new = masked(key(), None, &before);
        assert_eq!((new.present, read(&new.applied)["same"].as_str()), (None, Some(AFTER)));
    }
}
