//! The names of the fields that a kind has at a place, from the type itself: a deserializer leads
//! it along the path and hears which fields it expects there.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::tree::PathStep;

/// Returns the fields that `T` has at this path; none if it has no fields there, as a map of free
/// keys.
pub(super) fn field_names<T: DeserializeOwned>(path: &[PathStep]) -> &'static [&'static str] {
    match T::deserialize(Guide { path }) {
        Err(Found(Some(fields))) => fields,
        _ => &[],
    }
}

/// What the walk ends with: the fields at its end.
#[derive(Debug)]
struct Found(Option<&'static [&'static str]>);

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::error::Error for Found {}

impl Error for Found {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(None)
    }
}

/// A document that has nothing but what is on the path.
#[derive(Clone, Copy)]
struct Guide<'a> {
    path: &'a [PathStep],
}

impl<'de> Deserializer<'de> for Guide<'_> {
    type Error = Found;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Found> {
        Err(Found(None))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Found> {
        if self.path.is_empty() { Err(Found(Some(fields))) } else { self.deserialize_map(visitor) }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Found> {
        match self.path.split_first() {
            Some((PathStep::Key(key), rest)) => visitor.visit_map(OneEntry { key: Some(key), rest }),
            _ => Err(Found(None)),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Found> {
        match self.path.split_first() {
            Some((PathStep::Index(_), rest)) => visitor.visit_seq(OneItem { rest }),
            _ => Err(Found(None)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Found> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Found> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        tuple tuple_struct enum identifier ignored_any
    }
}

/// A map with the entry that is on the path.
struct OneEntry<'a> {
    key: Option<&'a str>,
    rest: &'a [PathStep],
}

impl<'de> MapAccess<'de> for OneEntry<'_> {
    type Error = Found;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Found> {
        self.key.take().map(|key| seed.deserialize(StrDeserializer::new(key))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Found> {
        seed.deserialize(Guide { path: self.rest })
    }
}

/// A list with the item that is on the path.
struct OneItem<'a> {
    rest: &'a [PathStep],
}

impl<'de> SeqAccess<'de> for OneItem<'_> {
    type Error = Found;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Found> {
        seed.deserialize(Guide { path: self.rest }).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};

    use super::super::tree::steps;
    use super::*;

    #[test]
    fn a_type_says_which_fields_it_has_at_a_place() {
        assert!(field_names::<Pod>(&[]).contains(&"spec"));
        assert!(field_names::<Pod>(&steps("spec")).contains(&"volumes"));
        let mount = field_names::<Pod>(&steps("spec.containers[3].volumeMounts[0]"));
        assert!(mount.contains(&"mountPath") && !mount.contains(&"volumes"), "{mount:?}");
        assert!(field_names::<Pod>(&steps("spec.volumes[0].emptyDir")).contains(&"sizeLimit"));
        for nowhere in ["spec.nodeName", "metadata.labels", "spec.no.such", "spec.containers.name"] {
            assert_eq!(field_names::<Pod>(&steps(nowhere)), &[] as &[&str], "{nowhere}");
        }
        assert!(field_names::<ConfigMap>(&[]).contains(&"binaryData"));
    }
}
