//! The first place at which two lists of commands differ.

use serde_json::Value;

/// Where what was recorded and what is decided now differ, and both sides as JSON; none where one
/// side has nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The place: `commands[1].Start.kind`.
    pub place: String,
    /// What was recorded there.
    pub recorded: Option<Value>,
    /// What is decided there now.
    pub replayed: Option<Value>,
}

impl Difference {
    /// Returns the first difference of two lists of commands.
    pub(crate) fn find(recorded: &[Value], replayed: &[Value]) -> Option<Self> {
        (0..recorded.len().max(replayed.len())).find_map(|at| {
            let place = format!("commands[{at}]");
            match (recorded.get(at), replayed.get(at)) {
                (Some(recorded), Some(replayed)) => of_values(place, recorded, replayed),
                (recorded, replayed) => Some(Self { place, recorded: recorded.cloned(), replayed: replayed.cloned() }),
            }
        })
    }
}

fn of_values(place: String, recorded: &Value, replayed: &Value) -> Option<Difference> {
    match (recorded, replayed) {
        (Value::Object(old), Value::Object(new)) if has_same_variant(recorded, replayed) => {
            let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
            keys.sort();
            keys.dedup();
            keys.into_iter().find_map(|key| {
                let place = format!("{place}.{key}");
                match (old.get(key), new.get(key)) {
                    (Some(old), Some(new)) => of_values(place, old, new),
                    // A field that one of two versions does not have decides nothing while it is
                    // empty.
                    (old, new) if is_empty(old) && is_empty(new) => None,
                    (old, new) => Some(Difference { place, recorded: old.cloned(), replayed: new.cloned() }),
                }
            })
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            old.iter().zip(new).enumerate().find_map(|(at, (old, new))| of_values(format!("{place}[{at}]"), old, new))
        }
        _ if recorded == replayed => None,
        _ => Some(Difference { place, recorded: Some(recorded.clone()), replayed: Some(replayed.clone()) }),
    }
}

/// Of two commands of different kinds, nothing is compared but the whole.
fn has_same_variant(one: &Value, other: &Value) -> bool {
    let only_key = |value: &Value| {
        let fields = value.as_object().filter(|fields| fields.len() == 1);
        fields.and_then(|fields| fields.keys().next().cloned())
    };
    match (only_key(one), only_key(other)) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    }
}

fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null | Value::Bool(false)) => true,
        Some(Value::Array(values)) => values.is_empty(),
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Number(_) | Value::Bool(true)) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn place(recorded: Value, replayed: Value) -> Option<String> {
        let list = |value: Value| value.as_array().cloned().unwrap();
        Difference::find(&list(recorded), &list(replayed)).map(|found| found.place)
    }

    #[test]
    fn the_first_difference_is_found() {
        let start = |id: u64, kind: &str| json!({"Start": {"id": id, "kind": kind}});
        let both = json!([start(1, "Attach"), {"ArmTimer": 5}]);
        assert_eq!(place(both.clone(), both.clone()), None);
        assert_eq!(
            place(both.clone(), json!([start(1, "Detach"), {"ArmTimer": 6}])).as_deref(),
            Some("commands[0].Start.kind")
        );
        assert_eq!(place(both.clone(), json!([{"ArmTimer": 5}])).as_deref(), Some("commands[0]"));
        assert_eq!(place(both.clone(), json!([start(1, "Attach")])).as_deref(), Some("commands[1]"));
        assert_eq!(place(json!([]), both).as_deref(), Some("commands[0]"));
    }

    #[test]
    fn a_field_that_one_version_lacks_counts_unless_it_is_empty() {
        let with = |value: Value| json!([{"Start": {"id": 1, "more": value}}]);
        let without = json!([{"Start": {"id": 1}}]);
        assert_eq!(place(without.clone(), with(json!(null))), None);
        assert_eq!(place(with(json!([])), without.clone()), None);
        assert_eq!(place(without, with(json!("x"))).as_deref(), Some("commands[0].Start.more"));
    }
}
