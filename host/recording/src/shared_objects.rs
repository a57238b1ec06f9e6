//! Pods and specs of a file, each written once.
//!
//! A pod and its specs are in the event that names them, in the state, and in each operation for
//! them. In a file, a number is in their place.

use std::collections::HashMap;

use serde_json::Value;

/// The fields that have a pod or a spec.
const FIELDS: [&str; 5] = ["pod", "known_pod", "spec", "declared", "label_spec"];
/// The most that the objects of one line may have in all, in bytes of JSON. A line of a real
/// recording has far less; a made-up one could name a large object a million times.
const MAX_UNFOLDED_BYTES: usize = 256 << 20;

/// The objects that were written so far.
#[derive(Debug, Default)]
pub(crate) struct WrittenObjects {
    numbers: HashMap<String, u64>,
}

impl WrittenObjects {
    /// Puts numbers in place of the objects in `value`. Passes each object that is new, with its
    /// number, to `new`.
    pub(crate) fn fold(&mut self, value: &mut Value, new: &mut impl FnMut(u64, &Value)) {
        match value {
            Value::Array(values) => values.iter_mut().for_each(|value| self.fold(value, new)),
            Value::Object(fields) => {
                for (key, value) in fields {
                    if value.is_object() && FIELDS.contains(&key.as_str()) {
                        *value = self.number(value, new).into();
                    } else {
                        self.fold(value, new);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn number(&mut self, object: &Value, new: &mut impl FnMut(u64, &Value)) -> u64 {
        let text = object.to_string();
        if let Some(number) = self.numbers.get(&text) {
            return *number;
        }
        let number = u64::try_from(self.numbers.len()).unwrap_or(u64::MAX);
        new(number, object);
        self.numbers.insert(text, number);
        number
    }
}

/// The objects that were read, by number, with their sizes in bytes of JSON.
#[derive(Debug, Default)]
pub(crate) struct ReadObjects {
    objects: Vec<(Value, usize)>,
}

/// A number in place of an object leads nowhere, or too far.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// No earlier line has the object.
    #[error("it names object {0}, which no line before it has")]
    Unknown(u64),
    /// The objects are too large in all.
    #[error("the objects that it names are larger than {MAX_UNFOLDED_BYTES} bytes")]
    TooLarge,
}

impl ReadObjects {
    /// Returns the number of the next object.
    pub(crate) fn next(&self) -> u64 {
        u64::try_from(self.objects.len()).unwrap_or(u64::MAX)
    }

    /// Adds an object that takes so many bytes of JSON.
    pub(crate) fn add(&mut self, object: Value, bytes: usize) {
        self.objects.push((object, bytes));
    }

    /// Puts the objects in place of their numbers.
    ///
    /// # Errors
    /// [`ObjectError`]; then some are in place.
    pub(crate) fn unfold(&self, value: &mut Value) -> Result<(), ObjectError> {
        self.unfold_within(value, &mut 0)
    }

    fn unfold_within(&self, value: &mut Value, bytes: &mut usize) -> Result<(), ObjectError> {
        match value {
            Value::Array(values) => values.iter_mut().try_for_each(|value| self.unfold_within(value, bytes)),
            Value::Object(fields) => fields.iter_mut().try_for_each(|(key, value)| {
                let number = value.as_u64().filter(|_| FIELDS.contains(&key.as_str()));
                let Some(number) = number else { return self.unfold_within(value, bytes) };
                let place = usize::try_from(number).ok();
                let (object, size) =
                    place.and_then(|place| self.objects.get(place)).ok_or(ObjectError::Unknown(number))?;
                *bytes = bytes.saturating_add(*size);
                if *bytes > MAX_UNFOLDED_BYTES {
                    return Err(ObjectError::TooLarge);
                }
                *value = object.clone();
                Ok(())
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_object_is_written_once_and_found_again() {
        let pod = json!({"name": "web", "spec": {"pod": 7}});
        let original = json!([{"pod": pod, "x": 1}, {"a": {"pod": pod, "spec": null}}, {"pod": "a-uid"}]);
        let mut folded = original.clone();
        let (mut written, mut read) = (WrittenObjects::default(), ReadObjects::default());
        let mut count = 0;
        written.fold(&mut folded, &mut |number, object| {
            assert_eq!(number, read.next());
            read.add(object.clone(), object.to_string().len());
            count += 1;
        });
        assert_eq!(count, 1);
        assert_eq!(folded, json!([{"pod": 0, "x": 1}, {"a": {"pod": 0, "spec": null}}, {"pod": "a-uid"}]));
        read.unfold(&mut folded).unwrap();
        assert_eq!(folded, original);
    }

    #[test]
    fn a_number_that_no_object_has_is_refused() {
        let error = ReadObjects::default().unfold(&mut json!({"pod": 3})).unwrap_err();
        assert_eq!(error, ObjectError::Unknown(3));
    }

    #[test]
    fn a_line_that_names_a_large_object_too_often_is_refused() {
        let mut read = ReadObjects::default();
        read.add(json!({}), MAX_UNFOLDED_BYTES / 2);
        assert!(read.unfold(&mut json!([{"pod": 0}, {"pod": 0}])).is_ok());
        assert_eq!(read.unfold(&mut json!([{"pod": 0}, {"pod": 0}, {"pod": 0}])), Err(ObjectError::TooLarge));
    }
}
