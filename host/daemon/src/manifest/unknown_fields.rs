//! Fields that a manifest has and its kind lacks: most often a slip of the pen, which Kubernetes' own tools warn of.

use serde::Serialize;
use serde_json::Value;

/// At most this many are named for one object.
const MAX_NAMED: usize = 20;

/// Paths of the fields of `written` that did not reach `understood`. A volume's source is left out: it may be one that only a plugin
/// knows, and the populator says so if none does.
pub(super) fn unknown_fields(written: &Value, understood: &impl Serialize) -> Vec<String> {
    let mut found = Vec::new();
    if let Ok(understood) = serde_json::to_value(understood) {
        compare(written, &understood, "", &mut found);
    }
    found
}

fn compare(written: &Value, understood: &Value, path: &str, found: &mut Vec<String>) {
    match (written, understood) {
        (Value::Object(written), Value::Object(understood)) => {
            for (key, value) in written.iter().filter(|(_, value)| !value.is_null()) {
                let dot = if path.is_empty() { "" } else { "." };
                let below = format!("{path}{dot}{key}");
                match understood.get(key) {
                    _ if below == "spec.volumes" => {}
                    Some(same) => compare(value, same, &below, found),
                    None if may_be_a_source(path, value) || found.len() >= MAX_NAMED => {}
                    None => found.push(below),
                }
            }
        }
        (Value::Array(written), Value::Array(understood)) => {
            for (index, (value, same)) in written.iter().zip(understood).enumerate() {
                compare(value, same, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

/// An object directly in `spec` can be a PersistentVolume's source.
fn may_be_a_source(path: &str, value: &Value) -> bool {
    path == "spec" && value.is_object()
}
