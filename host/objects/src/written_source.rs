//! The source of a volume as its object has it.

use serde_json::{Map, Value};
use volhost_model::Fields;

/// A volume's source, which may be one that only a plugin knows.
#[derive(Debug, Clone, PartialEq)]
pub struct WrittenSource(Written);

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Written {
    /// One field with a map: the source and its fields.
    One { source: Box<str>, fields: Fields },
    /// By mistake none, several, or what is no map.
    Other(Map<String, Value>),
}

impl WrittenSource {
    /// Takes the fields of a volume that are none of its own. One without a value counts as absent.
    pub(super) fn new(mut written: Map<String, Value>) -> Self {
        let mut given = written.iter().filter(|(_, value)| !value.is_null()).map(|(source, _)| source);
        let only = given.next().cloned().filter(|_| given.next().is_none());
        match only.and_then(|source| Some((written.remove(&source)?, source))) {
            Some((Value::Object(fields), source)) => {
                Self(Written::One { source: source.into(), fields: fields.into() })
            }
            Some((value, source)) => {
                written.insert(source, value);
                Self(Written::Other(written))
            }
            None => Self(Written::Other(written)),
        }
    }

    /// Returns what is written.
    pub(super) const fn written(&self) -> &Written {
        &self.0
    }

    /// Returns each source that has fields.
    pub(super) fn all(&self) -> Vec<(&str, Fields)> {
        match &self.0 {
            Written::One { source, fields } => vec![(source, fields.clone())],
            Written::Other(written) => {
                let fields = |value: &Value| Some(Fields::from(value.as_object()?.clone()));
                written.iter().filter_map(|(source, value)| Some((source.as_str(), fields(value)?))).collect()
            }
        }
    }

    /// Whether this source is written.
    pub fn contains(&self, source: &str) -> bool {
        match &self.0 {
            Written::One { source: one, .. } => **one == *source,
            Written::Other(written) => written.contains_key(source),
        }
    }

    /// Returns the fields of this source; none if another is written, or several.
    pub fn fields_of(&self, source: &str) -> Option<&Fields> {
        match &self.0 {
            Written::One { source: one, fields } if **one == *source => Some(fields),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(value: Value) -> WrittenSource {
        WrittenSource::new(value.as_object().unwrap().clone())
    }

    #[test]
    fn one_map_beside_fields_without_a_value_is_the_source() {
        for value in [json!({"nfs": {"server": "s"}}), json!({"csi": null, "nfs": {"server": "s"}})] {
            let source = written(value);
            assert_eq!(source.fields_of("nfs").unwrap().to_value(), json!({"server": "s"}));
            assert!(source.contains("nfs") && !source.contains("csi") && source.fields_of("csi").is_none());
            assert_eq!(source.all().len(), 1);
        }
    }

    #[test]
    fn anything_else_is_kept_as_it_is() {
        for value in [json!({}), json!({"nfs": null}), json!({"nfs": 1}), json!({"nfs": {}, "csi": {"driver": "d"}})] {
            let source = written(value.clone());
            assert!(matches!(source.written(), Written::Other(map) if Value::Object(map.clone()) == value), "{value}");
        }
        let both = written(json!({"nfs": {}, "csi": {"driver": "d"}}));
        assert!(both.contains("csi") && both.fields_of("csi").is_none());
        assert_eq!(both.all().len(), 2);
    }
}
