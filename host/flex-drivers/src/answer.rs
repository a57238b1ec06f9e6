//! The answer in what a driver wrote. Real drivers write warnings before it, write it to the error
//! output, or both; the last JSON object with a `status` counts.
//!
//! Field names match as in the kubelet, which reads answers with Go's `encoding/json`: in any case,
//! and of two fields with one name the last counts, unless it is `null`.

use std::fmt;

use serde::de::{Deserialize, MapAccess, SeqAccess, Visitor};
use serde_json::{Deserializer, Map, Value};
use volhost_model::driver_programs::DriverAnswer;

/// The fields of an answer and of its `capabilities`, as the kubelet's types name them.
const FIELDS: [&str; 12] = [
    "status",
    "message",
    "device",
    "volumeName",
    "attached",
    "capabilities",
    "volumeNewSize",
    "attach",
    "selinuxRelabel",
    "supportsMetrics",
    "fsGroup",
    "requiresFSResize",
];
/// The characters beyond ASCII that Go takes for a letter of ASCII in another case: the long s and
/// the Kelvin sign.
const FOLDED_BEYOND_ASCII: [(char, char); 2] = [('\u{17f}', 's'), ('\u{212a}', 'k')];

/// A JSON value whose known fields have the names that the kubelet gives them.
struct AnswerFields(Value);

/// The known field of this name in any case, else the name itself.
fn field_of(name: String) -> String {
    let fold = |char: char| {
        let beyond = FOLDED_BEYOND_ASCII.iter().find(|(from, _)| *from == char).map(|(_, to)| *to);
        beyond.unwrap_or_else(|| char.to_ascii_lowercase())
    };
    let is_field = |field: &&&str| name.chars().map(fold).eq(field.chars().map(fold));
    FIELDS.iter().find(is_field).map_or(name.clone(), |field| (*field).to_owned())
}

impl<'de> Deserialize<'de> for AnswerFields {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnswerVisitor).map(Self)
    }
}

struct AnswerVisitor;

impl<'de> Visitor<'de> for AnswerVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(AnswerFields(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some((name, AnswerFields(value))) = object.next_entry::<String, AnswerFields>()? {
            let name = field_of(name);
            if !(value.is_null() && fields.contains_key(&name)) {
                fields.insert(name, value);
            }
        }
        Ok(Value::Object(fields))
    }
}

/// The last object with a `status` in a text, and the rest of the text.
fn last_answer(text: &str) -> Option<(DriverAnswer, String)> {
    let mut found = None;
    let mut at = 0;
    while let Some(start) = text.get(at..).and_then(|rest| rest.find('{')).map(|offset| at + offset) {
        let mut values = Deserializer::from_str(text.get(start..)?).into_iter::<AnswerFields>();
        let parsed = values.next();
        let end = start + values.byte_offset();
        at = match parsed {
            Some(Ok(AnswerFields(Value::Object(object)))) => {
                if object.contains_key("status") {
                    found = Some((object, start, end));
                }
                end
            }
            _ => start + 1,
        };
    }
    let (object, start, end) = found?;
    let around = [text.get(..start), text.get(end..)];
    Some((object, around.into_iter().flatten().collect()))
}

/// The answer, from the output or else from the error output, and everything else that was written.
pub(crate) fn of(stdout: &[u8], stderr: &[u8]) -> (Option<DriverAnswer>, String) {
    let (stdout, stderr) = (String::from_utf8_lossy(stdout), String::from_utf8_lossy(stderr));
    let (answer, words) = match last_answer(&stdout) {
        Some((answer, rest)) => (Some(answer), format!("{rest} {stderr}")),
        None => match last_answer(&stderr) {
            Some((answer, rest)) => (Some(answer), format!("{stdout} {rest}")),
            None => (None, format!("{stdout} {stderr}")),
        },
    };
    (answer, words.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// An answer in words: its status and its message.
pub(crate) fn said(answer: &DriverAnswer) -> String {
    let text = |key: &str| answer.get(key).and_then(Value::as_str).unwrap_or_default();
    match text("message") {
        "" => format!("it answered {:?}", text("status")),
        message => format!("it answered {:?}: {message}", text("status")),
    }
}

/// Whether an answer reports success.
pub(crate) fn is_success(answer: &DriverAnswer) -> bool {
    answer.get("status").and_then(Value::as_str) == Some("Success")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(stdout: &[u8], stderr: &[u8]) -> Option<String> {
        of(stdout, stderr).0.map(|answer| answer["status"].as_str().unwrap_or_default().to_owned())
    }

    #[test]
    fn the_answer_is_found_among_other_text() {
        let answer = br#"{ "status" : "Success" }"#;
        assert_eq!(status(answer, b"").as_deref(), Some("Success"));
        assert_eq!(status(b"", answer).as_deref(), Some("Success"));
        let (found, words) = of(b"WARN: {not json} and {\"a\":1}\n{\"status\":\"Failure\"}\nbye", b"err");
        assert_eq!(found.unwrap()["status"], "Failure");
        assert_eq!(words, "WARN: {not json} and {\"a\":1} bye err");
        assert_eq!(
            status(b"{\"status\":\"Failure\"}{\"status\":\"Success\"}", b"").as_deref(),
            Some("Success"),
            "the last"
        );
        assert_eq!(status(b"\xff\xfe{\"status\":\"Success\"}\xff", b"").as_deref(), Some("Success"));
    }

    #[test]
    fn field_names_match_in_any_case_as_in_the_kubelet() {
        let (found, _) = of(
            br#"{"Status":"Success","VOLUMENAME":"v","Capabilities":{"Attach":false,"requiresfsresize":false,"other":{"Device":1}},"Else":[{"Message":"m"}]}"#,
            b"",
        );
        let found = found.unwrap();
        assert_eq!(found["status"], "Success");
        assert_eq!(found["volumeName"], "v");
        assert_eq!(found["capabilities"]["attach"], false);
        assert_eq!(found["capabilities"]["requiresFSResize"], false);
        assert_eq!((found["Else"][0]["message"].as_str(), found.get("else")), (Some("m"), None));
        assert_eq!(status("{\"\u{17f}tatus\":\"Success\"}".as_bytes(), b"").as_deref(), Some("Success"));
    }

    #[test]
    fn of_two_fields_with_one_name_the_last_counts() {
        for (text, expected) in [
            (r#"{"status":"Failure","Status":"Success"}"#, "Success"),
            (r#"{"Status":"Success","status":"Failure"}"#, "Failure"),
            (r#"{"Status":"Success","status":null}"#, "Success"),
        ] {
            assert_eq!(status(text.as_bytes(), b"").as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_text_is_no_answer() {
        for text in ["", "Success", "{\"state\":\"Success\"}", "[\"status\"]", "{\"status\":", "{{{{{{"] {
            assert_eq!(status(text.as_bytes(), b""), None, "{text}");
        }
        let deep = "{\"a\":".repeat(20_000);
        assert_eq!(status(deep.as_bytes(), b""), None);
    }
}
