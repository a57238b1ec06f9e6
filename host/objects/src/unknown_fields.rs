//! Fields that a manifest has and its kind lacks: most often a slip of the pen, which Kubernetes'
//! own tools refuse.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::field_names::field_names;
use super::key::Kind;
use super::nearest::nearest;
use super::tree::{PathStep, path_text};

/// At most this many are named for one object.
const MAX_NAMED: usize = 20;

/// A field that an object's kind lacks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnknownField {
    /// Its path; never its value.
    pub(super) path: String,
    /// The field that was probably meant.
    pub(super) meant: Option<&'static str>,
}

/// Fields that an object's kind lacks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UnknownFields {
    /// The first of them.
    pub(super) fields: Vec<UnknownField>,
    /// How many more there are.
    pub(super) more: usize,
}

/// A field of a manifest that its kind lacks, with its place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownFieldNotice {
    /// `pod.yaml:7: spec.containers[0].volumeMount: is no field of a Pod`; never a value.
    what: String,
    meant: Option<&'static str>,
}

impl UnknownFieldNotice {
    /// The field at `place`: file, line and path.
    pub(super) fn new(place: fmt::Arguments<'_>, kind: Kind, meant: Option<&'static str>) -> Self {
        Self { what: format!("{place}: is no field of a {kind}"), meant }
    }

    /// Further fields of the object at `place`, too many to be named.
    pub(super) fn more(place: fmt::Arguments<'_>, kind: Kind, more: usize) -> Self {
        Self { what: format!("{place}: {more} more are no fields of a {kind}"), meant: None }
    }

    /// Returns the text for a manifest that is used without the field.
    #[must_use]
    pub fn warning(&self) -> String {
        let meant = self.meant.map(|meant| format!(" (did you mean {meant}?)")).unwrap_or_default();
        format!("{}; ignored{meant}", self.what)
    }

    /// Returns the text for a manifest that is refused because of the field.
    #[must_use]
    pub fn refusal(&self) -> String {
        let meant = self.meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        format!("{}{meant}", self.what)
    }
}

/// The fields of `written` that did not reach `understood`. A source of a volume that Kubernetes
/// lacks is left out: only a plugin may know it, and the populator says so if none does.
pub(super) fn unknown_fields<T: Serialize + DeserializeOwned>(
    written: &Value,
    understood: &T,
    kind: Kind,
) -> UnknownFields {
    let mut search = Search { kind, path: Vec::new(), found: UnknownFields::default(), names: field_names::<T> };
    if let Ok(understood) = serde_json::to_value(understood) {
        search.compare(written, &understood);
    }
    search.found
}

/// A walk through an object.
struct Search {
    kind: Kind,
    path: Vec<PathStep>,
    found: UnknownFields,
    /// The fields that the kind has at a path.
    names: fn(&[PathStep]) -> &'static [&'static str],
}

impl Search {
    fn compare(&mut self, written: &Value, understood: &Value) {
        match (written, understood) {
            (Value::Object(written), Value::Object(understood)) => {
                for (key, value) in written.iter().filter(|(_, value)| !value.is_null()) {
                    match understood.get(key) {
                        Some(same) => self.below(PathStep::Key(key.clone()), value, same),
                        None if self.may_be_a_source(value) => {}
                        None => self.note(key),
                    }
                }
            }
            (Value::Array(written), Value::Array(understood)) => {
                for (index, (value, same)) in written.iter().zip(understood).enumerate() {
                    self.below(PathStep::Index(index), value, same);
                }
            }
            _ => {}
        }
    }

    fn below(&mut self, step: PathStep, written: &Value, understood: &Value) {
        self.path.push(step);
        self.compare(written, understood);
        self.path.pop();
    }

    fn note(&mut self, key: &str) {
        if self.found.fields.len() >= MAX_NAMED {
            self.found.more += 1;
            return;
        }
        let meant = nearest(key, (self.names)(&self.path).iter().copied());
        self.path.push(PathStep::Key(key.to_owned()));
        self.found.fields.push(UnknownField { path: path_text(&self.path), meant });
        self.path.pop();
    }

    /// An object directly in a PersistentVolume's `spec`, or in a pod's volume, can be its source.
    fn may_be_a_source(&self, value: &Value) -> bool {
        let is_at = |path: &str| path_text(&self.path) == path;
        value.is_object()
            && match self.kind {
                Kind::PersistentVolume => is_at("spec"),
                Kind::Pod => match self.path.as_slice() {
                    [PathStep::Key(spec), PathStep::Key(volumes), PathStep::Index(_)] => {
                        spec == "spec" && volumes == "volumes"
                    }
                    _ => false,
                },
                _ => false,
            }
    }
}
