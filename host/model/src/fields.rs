//! The fields of a volume's source.

use std::fmt;
use std::sync::Arc;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// The fields of a volume's source, each once, in the order of their names.
///
/// A copy shares them: the object of a source, the desired and the actual state of the world have
/// the fields of tens of thousands of volumes. A node of a `BTreeMap` has room for eleven fields,
/// and most sources have one or two: here each takes the room of one.
#[derive(Clone, Default)]
pub struct Fields(Arc<[(String, Value)]>);

impl Fields {
    /// Returns the value of a field.
    pub fn get(&self, field: &str) -> Option<&Value> {
        let place = self.0.binary_search_by(|(known, _)| known.as_str().cmp(field)).ok()?;
        Some(&self.0.get(place)?.1)
    }

    /// Returns all fields, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.0.iter().map(|(field, value)| (field, value))
    }

    /// Returns the names of all fields, in their order.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.iter().map(|(field, _)| field)
    }

    /// Returns the values of all fields, in the order of their names.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.iter().map(|(_, value)| value)
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets a field. Copies keep what they have.
    pub fn insert(&mut self, field: String, value: Value) {
        let others = self.iter().filter(|(known, _)| **known != field);
        let mut all: Vec<(String, Value)> = others.map(|(known, value)| (known.clone(), value.clone())).collect();
        all.push((field, value));
        *self = all.into_iter().collect();
    }

    /// Removes a field. Copies keep what they have.
    pub fn remove(&mut self, field: &str) {
        let others = self.iter().filter(|(known, _)| *known != field);
        *self = others.map(|(known, value)| (known.clone(), value.clone())).collect();
    }

    /// Returns the fields as JSON.
    pub fn to_value(&self) -> Value {
        self.iter().map(|(field, value)| (field.clone(), value.clone())).collect()
    }
}

impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for Fields {}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl From<Map<String, Value>> for Fields {
    fn from(map: Map<String, Value>) -> Self {
        let mut all: Vec<(String, Value)> = map.into_iter().collect();
        // With a feature of serde_json that another crate may ask for, a map has another order.
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self(all.into())
    }
}

impl FromIterator<(String, Value)> for Fields {
    /// Of fields with the same name, the last counts.
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(fields: I) -> Self {
        Map::from_iter(fields).into()
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfMap;

        impl<'de> Visitor<'de> for OfMap {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of fields")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut all: Vec<(String, Value)> = Vec::new();
                let mut is_sorted = true;
                while let Some((field, value)) = map.next_entry::<String, Value>()? {
                    is_sorted &= all.last().is_none_or(|(last, _)| *last < field);
                    all.push((field, value));
                }
                Ok(if is_sorted { Fields(all.into()) } else { all.into_iter().collect() })
            }
        }

        deserializer.deserialize_map(OfMap)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(text: &str) -> Fields {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn they_are_ordered_and_each_is_there_once() {
        let found = fields(r#"{"b": 1, "a": [2], "b": 3}"#);
        assert_eq!(found.to_value(), json!({"a": [2], "b": 3}));
        assert!(found.keys().eq(["a", "b"]) && found.values().eq([&json!([2]), &json!(3)]));
        assert_eq!((found.get("b"), found.get("c")), (Some(&json!(3)), None));
        assert_eq!(serde_json::to_string(&found).unwrap(), r#"{"a":[2],"b":3}"#);
        assert_eq!(found, fields(r#"{"a": [2], "b": 3}"#));
        assert_ne!(found, fields(r#"{"a": [2], "b": 4}"#));
    }

    #[test]
    fn a_change_of_one_changes_no_copy() {
        let mut one = fields(r#"{"a": 1}"#);
        let copy = one.clone();
        one.insert("0".to_owned(), json!(0));
        one.insert("a".to_owned(), json!(2));
        assert_eq!(one.to_value(), json!({"0": 0, "a": 2}));
        one.remove("0");
        one.remove("none");
        assert_eq!((one.to_value(), copy.to_value()), (json!({"a": 2}), json!({"a": 1})));
        one.remove("a");
        assert!(one.is_empty());
    }
}
