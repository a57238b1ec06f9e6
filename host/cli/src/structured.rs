//! Views as JSON and YAML. Characters that a reader does not see are escapes in both.

use serde::Serialize;
use serde_json::Value;
use volhost_model::visible::{is_unseen, visible_json, visible_unseen};

use super::arguments::DocumentFormat;
use super::error::CliError;

/// JSON on one line, without an end of line.
pub(super) fn json<T: Serialize + ?Sized>(value: &T) -> Result<String, CliError> {
    serde_json::to_string(value).map(|text| visible_json(&text).into_owned()).map_err(failed)
}

/// Indented JSON, without an end of line.
pub(super) fn pretty_json<T: Serialize + ?Sized>(value: &T) -> Result<String, CliError> {
    serde_json::to_string_pretty(value).map(|text| visible_json(&text).into_owned()).map_err(failed)
}

/// A document in one of the formats, without an end of line.
pub(super) fn document<T: Serialize>(value: &T, format: DocumentFormat) -> Result<String, CliError> {
    match format {
        DocumentFormat::Json => pretty_json(value),
        DocumentFormat::Yaml => yaml(value),
    }
}

/// YAML without an end of line. YAML has escapes in some of its styles only, so a text with such
/// characters has them as words.
pub(super) fn yaml<T: Serialize>(value: &T) -> Result<String, CliError> {
    let text = serde_saphyr::to_string(value).map_err(failed)?;
    let text = if text.contains(is_unseen) {
        let mut value = serde_json::to_value(value).map_err(failed)?;
        show(&mut value);
        serde_saphyr::to_string(&value).map_err(failed)?
    } else {
        text
    };
    Ok(text.trim_end().to_owned())
}

fn show(value: &mut Value) {
    match value {
        Value::String(text) => *text = visible_unseen(text).into_owned(),
        Value::Array(list) => list.iter_mut().for_each(show),
        Value::Object(map) => {
            let shown = std::mem::take(map).into_iter().map(|(key, mut value)| {
                show(&mut value);
                (visible_unseen(&key).into_owned(), value)
            });
            *map = shown.collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn failed(error: impl std::fmt::Display) -> CliError {
    CliError::Encode(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reader_does_not_see_is_an_escape() {
        let value = serde_json::json!({"message": "a\u{202e}b\u{200b}"});
        assert_eq!(json(&value).unwrap(), r#"{"message":"a\u202eb\u200b"}"#);
        assert_eq!(serde_json::from_str::<Value>(&pretty_json(&value).unwrap()).unwrap(), value);
        let text = yaml(&value).unwrap();
        assert!(text.is_ascii() && text.contains("u{202e}b"), "{text}");
    }
}
