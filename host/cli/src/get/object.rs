//! Views as Kubernetes-style objects: `metadata`, `status`, camelCase, RFC 3339 times.

use serde_json::{Map, Value, json};

use crate::error::CliError;
use crate::format::rfc3339;
use crate::list::View;
use crate::reason;

/// The group and version of the objects. Not Kubernetes' own: a printed Pod is what volhost knows
/// of it, and is no manifest.
const API_VERSION: &str = "volhost.io/v1";

/// The fields of views that are times, in microseconds since the Unix epoch.
const TIMES: [&str; 6] = ["since", "ready_at", "retry_at", "at", "measured_at", "asked_at"];

/// The fields of views whose keys are data.
const MAPS: [&str; 2] = ["labels", "topology"];

/// A Kubernetes-style List.
pub(crate) fn list(items: Vec<Value>) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items})
}

/// The object. What is not known is left out.
///
/// # Errors
/// [`CliError::Encode`] when it cannot be encoded.
pub(crate) fn object(view: &View) -> Result<Value, CliError> {
    let encoded = serde_json::to_value(view).map_err(|error| CliError::Encode(error.to_string()))?;
    let Value::Object(mut fields) = shaped(encoded) else {
        return Err(CliError::Encode("the view has no fields".to_owned()));
    };
    let mut metadata = Map::new();
    let mut moved = |fields: &mut Map<String, Value>, from: &str, to: &str| {
        if let Some(value) = fields.remove(from) {
            metadata.insert(to.to_owned(), value);
        }
    };
    let kind = match view {
        View::Pod(_) => {
            for field in ["name", "namespace", "uid", "labels"] {
                moved(&mut fields, field, field);
            }
            moved(&mut fields, "since", "creationTimestamp");
            "Pod"
        }
        View::Volume(volume) => {
            moved(&mut fields, if volume.name.is_empty() { "specName" } else { "name" }, "name");
            moved(&mut fields, "since", "creationTimestamp");
            if let Some((namespace, _)) = volume.pod.split_once('/') {
                metadata.insert("namespace".to_owned(), namespace.into());
            }
            "Volume"
        }
        View::Plugin(_) => {
            moved(&mut fields, "name", "name");
            "Plugin"
        }
        View::Driver(_) => {
            moved(&mut fields, "name", "name");
            if let Some(protocol) = fields.remove("kind") {
                fields.insert("protocol".to_owned(), protocol);
            }
            "Driver"
        }
        View::Operation(_) => {
            moved(&mut fields, "volume", "name");
            if let Some(operation) = fields.remove("name") {
                fields.insert("operation".to_owned(), operation);
            }
            "Operation"
        }
        View::Claim(_) | View::PersistentVolume(_) => {
            for field in ["name", "namespace", "labels"] {
                moved(&mut fields, field, field);
            }
            // A sentence, which Kubernetes calls a message.
            if let Some(reason) = fields.remove("reason") {
                fields.insert("message".to_owned(), reason);
            }
            if matches!(view, View::Claim(_)) { "PersistentVolumeClaim" } else { "PersistentVolume" }
        }
        View::Event(event) => {
            metadata.insert("name".to_owned(), event.sequence.to_string().into());
            for (from, to) in [("kind", "type"), ("at", "lastTimestamp")] {
                if let Some(value) = fields.remove(from) {
                    fields.insert(to.to_owned(), value);
                }
            }
            "Event"
        }
    };
    if let Some(reason) = reason::of(view) {
        fields.insert("reason".to_owned(), reason.into());
    }
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), API_VERSION.into());
    object.insert("kind".to_owned(), kind.into());
    object.insert("metadata".to_owned(), metadata.into());
    match view {
        // As in Kubernetes, an event has no status.
        View::Event(_) => object.extend(fields),
        _ => drop(object.insert("status".to_owned(), fields.into())),
    }
    Ok(object.into())
}

/// The value with camelCase keys and RFC 3339 times, without what is empty.
fn shaped(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter_map(|(key, value)| {
                let value = match value {
                    Value::Number(micros) if TIMES.contains(&key.as_str()) => time(micros.as_u64().unwrap_or(0))?,
                    Value::Null => return None,
                    Value::String(text) if text.is_empty() => return None,
                    value if MAPS.contains(&key.as_str()) => value,
                    value => shaped(value),
                };
                Some((camel_case(&key), value))
            });
            Value::Object(fields.collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(shaped).collect()),
        other => other,
    }
}

fn time(micros: u64) -> Option<Value> {
    rfc3339(micros).map(Value::from)
}

fn camel_case(key: &str) -> String {
    let mut words = key.split('_');
    let mut text = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        text.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        text.push_str(letters.as_str());
    }
    text
}

#[cfg(test)]
mod tests {
    use volhost_model::view::{ClaimView, EventKind, EventView, OperationView};

    use super::*;

    #[test]
    fn times_are_rfc_3339_and_what_is_unknown_is_left_out() {
        let claim = ClaimView {
            namespace: "shop".into(),
            name: "data".into(),
            phase: "Pending".into(),
            reason: "no class".into(),
            labels: [("a_b/c_d".to_owned(), "x".to_owned())].into(),
            ..ClaimView::default()
        };
        assert_eq!(
            object(&View::Claim(claim)).unwrap(),
            json!({
                "apiVersion": "volhost.io/v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "data", "namespace": "shop", "labels": {"a_b/c_d": "x"}},
                "status": {"phase": "Pending", "message": "no class", "accessModes": [], "capacity": 0, "requested": 0},
            })
        );
        let operation = OperationView {
            id: 7,
            name: "volume_mount".into(),
            volume: "a.b/c/v".into(),
            pod: "shop/web".into(),
            plugin: "a.b/c".into(),
            running: true,
            step: String::new(),
            since: 1_700_000_000_123_456,
            overdue: false,
            failures: 0,
            retry_at: None,
            failure: None,
        };
        assert_eq!(
            object(&View::Operation(operation)).unwrap(),
            json!({
                "apiVersion": "volhost.io/v1",
                "kind": "Operation",
                "metadata": {"name": "a.b/c/v"},
                "status": {
                    "operation": "volume_mount", "id": 7, "pod": "shop/web", "plugin": "a.b/c", "running": true,
                    "overdue": false, "failures": 0, "since": "2023-11-14T22:13:20.123456Z",
                },
            })
        );
    }

    #[test]
    fn an_event_has_its_fields_at_the_top_as_in_kubernetes() {
        let event = EventView {
            sequence: 3,
            at: 1_700_000_000_000_000,
            kind: EventKind::Warning,
            reason: "FailedMount".into(),
            object: "pod shop/web".into(),
            message: "no".into(),
            count: 2,
        };
        let shown = object(&View::Event(event)).unwrap();
        assert_eq!(
            (&shown["type"], &shown["lastTimestamp"], &shown["reason"], &shown["kind"]),
            (&json!("Warning"), &json!("2023-11-14T22:13:20.000000Z"), &json!("FailedMount"), &json!("Event"))
        );
    }
}
