//! Secrets taken out of texts that people read (rule R10): a driver outside may repeat in its error what it was handed, and a plugin passes
//! that error on.
//!
//! Looked for are the values that the call itself has used, whole, in the forms in which programs write them down. A value that a
//! driver cuts short or changes in another way is not found.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use crate::bindings::volhost::plugin::types;
use crate::objects::Bytes;

/// What stands in a secret's place.
const REDACTED: &str = "[redacted]";
/// How many messages of a call are kept for people. A plugin makes some calls of a driver.
const MOST_MESSAGES: usize = 64;
/// A value of fewer bytes is not looked for as it is: every second word would be taken for it. In base64 it is.
const SHORTEST_PLAIN: usize = 4;

/// The secrets that a call has used, and the messages that the plugin must not see because of them.
#[derive(Default)]
pub(crate) struct Secrets {
    values: BTreeSet<Bytes>,
    /// What drivers said after secrets were used, in the order of their placeholders.
    messages: Vec<String>,
}

impl fmt::Debug for Secrets {
    /// Their number alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.values.len())
    }
}

impl Secrets {
    /// Takes note that the call uses this value.
    pub(crate) fn use_value(&mut self, value: &Bytes) {
        if !value.is_empty() {
            self.values.insert(Bytes::clone(value));
        }
    }

    /// The text without any of them.
    pub(crate) fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.values.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut forms: Vec<String> = self.values.iter().flat_map(|value| forms(value)).collect();
        longest_first(&mut forms);
        let numbered = self.messages.iter().enumerate();
        let whole = numbered.fold(text.to_owned(), |text, (index, message)| text.replace(&placeholder(index), message));
        Cow::Owned(redact(&whole, &forms))
    }

    /// What the plugin gets of a message that another program wrote. If secrets were used, a placeholder: the program may repeat words of the
    /// plugin's, and whether they are taken out as a secret would tell the plugin that it has guessed one. People read the message where the
    /// plugin puts the placeholder.
    pub(crate) fn for_plugin(&mut self, message: String) -> String {
        if self.values.is_empty() || message.is_empty() {
            return message;
        }
        if self.messages.len() >= MOST_MESSAGES {
            return placeholder(MOST_MESSAGES);
        }
        self.messages.push(message);
        placeholder(self.messages.len().saturating_sub(1))
    }
}

/// What stands in a message's place.
fn placeholder(index: usize) -> String {
    format!("[message {}]", index.saturating_add(1))
}

/// What a plugin answers, as far as people read it.
pub(crate) trait Answer {
    /// Takes these secrets out of it.
    fn without(self, secrets: &Secrets) -> Self;
}

impl Answer for () {
    fn without(self, _: &Secrets) -> Self {}
}

impl<T> Answer for Result<T, types::Error> {
    fn without(self, secrets: &Secrets) -> Self {
        use types::Error;
        let clean = |text: String| secrets.redact(&text).into_owned();
        self.map_err(|error| match error {
            Error::InvalidArgument(text) => Error::InvalidArgument(clean(text)),
            Error::NotFound(text) => Error::NotFound(clean(text)),
            Error::Conflict(text) => Error::Conflict(clean(text)),
            Error::Busy(text) => Error::Busy(clean(text)),
            Error::Precondition(text) => Error::Precondition(clean(text)),
            Error::PermissionDenied(text) => Error::PermissionDenied(clean(text)),
            Error::Unsupported(text) => Error::Unsupported(clean(text)),
            Error::Retryable(text) => Error::Retryable(clean(text)),
            Error::Uncertain(text) => Error::Uncertain(clean(text)),
            Error::Corrupt(text) => Error::Corrupt(clean(text)),
            Error::Other(other) => {
                Error::Other(types::OtherError { code: clean(other.code), message: clean(other.message) })
            }
        })
    }
}

/// The forms in which a secret's value may come back: as it is, as JSON writes it (also as Go does, which escapes more), and in base64.
pub(crate) fn forms(value: &[u8]) -> impl Iterator<Item = String> + use<> {
    let plain = std::str::from_utf8(value).ok().map(str::trim).filter(|plain| plain.len() >= SHORTEST_PLAIN);
    let written = plain.and_then(|plain| serde_json::to_string(plain).ok());
    let written = written.and_then(|text| Some(text.strip_prefix('"')?.strip_suffix('"')?.to_owned()));
    let by_go = written.as_deref().map(as_go_writes);
    let encoded = [STANDARD.encode(value), STANDARD_NO_PAD.encode(value), URL_SAFE_NO_PAD.encode(value)];
    // Two letters or three would be found everywhere.
    let encoded = encoded.map(|text| Some(text).filter(|text| text.len() >= SHORTEST_PLAIN));
    [plain.map(str::to_owned), written, by_go].into_iter().chain(encoded).flatten()
}

/// JSON with what HTML and JavaScript would take for theirs escaped too.
pub(crate) fn as_go_writes(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => escaped.push_str(&format!("\\u{:04x}", u32::from(letter))),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// One secret may be the beginning of another.
pub(crate) fn longest_first(forms: &mut [String]) {
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
}

/// The text without these forms, the longest of which come first.
pub(crate) fn redact(text: &str, forms: &[String]) -> String {
    forms.iter().fold(text.to_owned(), |text, form| text.replace(form.as_str(), REDACTED))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn using(values: &[&str]) -> Secrets {
        let mut secrets = Secrets::default();
        values.iter().for_each(|value| secrets.use_value(&Bytes::from(value.as_bytes())));
        secrets
    }

    #[test]
    fn no_form_of_a_used_value_is_left() {
        let value = "p<ss\"w\nrd?";
        let secrets = using(&[value, "p<ss", "x", ""]);
        let json = serde_json::to_string(value).unwrap();
        let text = format!(
            "login {value} failed: sent {json}, {} and {}, {} or p<ss",
            as_go_writes(&json),
            STANDARD.encode(value),
            URL_SAFE_NO_PAD.encode(value)
        );
        let shown = secrets.redact(&text);
        assert_eq!(
            shown,
            "login [redacted] failed: sent \"[redacted]\", \"[redacted]\" and [redacted], [redacted] or [redacted]"
        );
    }

    #[test]
    fn short_values_stand_unless_encoded_and_nothing_else_changes() {
        assert_eq!(using(&["abc"]).redact("abcd is in YWJj"), "abcd is in [redacted]");
        assert_eq!(using(&[]).redact("as it is"), "as it is");
        assert_eq!(using(&["a-token"]).redact("nothing of it"), "nothing of it");
    }

    #[test]
    fn a_plugin_gets_a_placeholder_and_people_the_message_without_the_secret() {
        let mut secrets = using(&[]);
        assert_eq!(secrets.for_plugin("no secret was used".to_owned()), "no secret was used");
        let mut seen = Vec::new();
        for guess in ["1234", "9876"] {
            secrets = using(&["1234"]);
            // A driver that repeats what it was handed: the plugin's guess.
            seen.push(secrets.for_plugin(format!("bad id {guess}")));
            let told = secrets.redact(&format!("failed: {}", seen[0])).into_owned();
            assert_eq!(told, format!("failed: bad id {}", guess.replace("1234", "[redacted]")));
        }
        assert_eq!(seen[0], seen[1]);
    }

    #[test]
    fn an_error_keeps_its_case() {
        let error: Result<(), _> = Err(types::Error::Uncertain("no s3cret here".to_owned()));
        assert!(matches!(
            error.without(&using(&["s3cret"])),
            Err(types::Error::Uncertain(text)) if text == "no [redacted] here"
        ));
    }
}
