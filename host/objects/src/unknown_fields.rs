//! Fields that a manifest has and its kind lacks: most often a slip of the pen, which Kubernetes'
//! own tools warn of.

use serde::Serialize;
use serde_json::Value;

use super::key::Kind;

/// At most this many are named for one object.
const MAX_NAMED: usize = 20;

/// Fields that an object's kind lacks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UnknownFields {
    /// Their paths; never their values.
    pub(super) paths: Vec<String>,
    /// How many more there are.
    pub(super) more: usize,
}

/// Paths of the fields of `written` that did not reach `understood`. A volume's source is left out:
/// it may be one that only a plugin knows, and the populator says so if none does.
pub(super) fn unknown_fields(written: &Value, understood: &impl Serialize, kind: Kind) -> UnknownFields {
    let mut found = UnknownFields::default();
    if let Ok(understood) = serde_json::to_value(understood) {
        compare(written, &understood, "", kind, &mut found);
    }
    found
}

fn compare(written: &Value, understood: &Value, path: &str, kind: Kind, found: &mut UnknownFields) {
    match (written, understood) {
        (Value::Object(written), Value::Object(understood)) => {
            for (key, value) in written.iter().filter(|(_, value)| !value.is_null()) {
                let dot = if path.is_empty() { "" } else { "." };
                let below = format!("{path}{dot}{key}");
                match understood.get(key) {
                    _ if kind == Kind::Pod && below == "spec.volumes" => {}
                    Some(same) => compare(value, same, &below, kind, found),
                    None if may_be_a_source(path, value, kind) => {}
                    None if found.paths.len() >= MAX_NAMED => found.more += 1,
                    None => found.paths.push(below),
                }
            }
        }
        (Value::Array(written), Value::Array(understood)) => {
            for (index, (value, same)) in written.iter().zip(understood).enumerate() {
                compare(value, same, &format!("{path}[{index}]"), kind, found);
            }
        }
        _ => {}
    }
}

/// An object directly in `spec` can be a PersistentVolume's source.
fn may_be_a_source(path: &str, value: &Value, kind: Kind) -> bool {
    kind == Kind::PersistentVolume && path == "spec" && value.is_object()
}
