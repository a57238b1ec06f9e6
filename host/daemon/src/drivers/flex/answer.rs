//! The answer in what a driver wrote. Real drivers write warnings before it, write it to the error output, or both; what counts is the
//! last JSON object with a `status`.

use serde_json::{Deserializer, Value};
use volhost_runtime::DriverAnswer;

/// The last object with a `status` in a text, and what else the text holds.
fn last_answer(text: &str) -> Option<(DriverAnswer, String)> {
    let mut found = None;
    let mut at = 0;
    while let Some(start) = text.get(at..).and_then(|rest| rest.find('{')).map(|offset| at + offset) {
        let mut values = Deserializer::from_str(text.get(start..)?).into_iter::<Value>();
        let parsed = values.next();
        let end = start + values.byte_offset();
        at = match parsed {
            Some(Ok(Value::Object(object))) => {
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

/// The answer, from the output or else from the error output, and what else was written.
pub(super) fn of(stdout: &[u8], stderr: &[u8]) -> (Option<DriverAnswer>, String) {
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

/// What an answer says of itself, in words: its status and its message.
pub(super) fn said(answer: &DriverAnswer) -> String {
    let text = |key: &str| answer.get(key).and_then(Value::as_str).unwrap_or_default();
    match text("message") {
        "" => format!("it answered {:?}", text("status")),
        message => format!("it answered {:?}: {message}", text("status")),
    }
}

/// Whether an answer says that the call succeeded.
pub(super) fn is_success(answer: &DriverAnswer) -> bool {
    answer.get("status").and_then(Value::as_str) == Some("Success")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(stdout: &[u8], stderr: &[u8]) -> Option<String> {
        of(stdout, stderr).0.map(|answer| answer["status"].as_str().unwrap_or_default().to_owned())
    }

    #[test]
    fn the_answer_is_found_in_whatever_surrounds_it() {
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
    fn what_is_no_answer_is_none() {
        for text in ["", "Success", "{\"state\":\"Success\"}", "[\"status\"]", "{\"status\":", "{{{{{{"] {
            assert_eq!(status(text.as_bytes(), b""), None, "{text}");
        }
        let deep = "{\"a\":".repeat(20_000);
        assert_eq!(status(deep.as_bytes(), b""), None);
    }
}
