//! Parts of objects that may be unreadable.

use serde::de::{DeserializeOwned, Deserializer};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

/// A part of an object, or why it cannot be read. The watch of all objects goes on either way.
#[derive(Debug, Clone)]
pub(crate) struct Lenient<T>(Result<T, String>);

impl<T> Lenient<T> {
    /// The part.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(crate) fn get(&self) -> Result<&T, &str> {
        self.0.as_ref().map_err(String::as_str)
    }
}

impl<T: Default> Default for Lenient<T> {
    fn default() -> Self {
        Self(Ok(T::default()))
    }
}

impl<T> From<T> for Lenient<T> {
    fn from(part: T) -> Self {
        Self(Ok(part))
    }
}

impl<'de, T: DeserializeOwned + Default> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if value.is_null() {
            return Ok(Self::default());
        }
        Ok(Self(serde_json::from_value(value).map_err(|error| error.to_string())))
    }
}

impl<T: Serialize> Serialize for Lenient<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Ok(part) => part.serialize(serializer),
            Err(error) => error.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_part_is_no_error_of_the_whole() {
        let read = |text: &str| serde_json::from_str::<Lenient<Vec<u8>>>(text).unwrap();
        assert_eq!(read("[1, 2]").get(), Ok(&vec![1, 2]));
        assert_eq!(read("null").get(), Ok(&vec![]));
        assert!(read(r#"{"a": [[]]}"#).get().is_err_and(|error| error.contains("invalid type")));
    }
}
