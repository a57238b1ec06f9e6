//! Secrets taken out of texts that people read (rule R10): an external driver may repeat in its
//! error what it was handed, and a plugin passes that error on.
//!
//! Looked for are the values that the call itself has used, whole, in the forms in which programs
//! write them down. A value that a driver cuts short or changes in another way is not found.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use crate::bindings::volhost::plugin::types;
use volhost_model::objects::Bytes;

/// The replacement of a secret.
const REDACTED: &str = "[redacted]";
/// How many messages of a call are kept for people. A plugin makes some calls of a driver.
const MOST_MESSAGES: usize = 64;
/// A value of fewer bytes is not looked for as it is: every second word would be taken for it. In
/// base64 it is.
const SHORTEST_PLAIN: usize = 4;
/// The longest text of a plugin's error that is searched for secrets, in bytes. People are shown
/// no more of it.
const ERROR_BYTES: usize = 4096;
/// The longest character in UTF-8, in bytes.
const CHAR_BYTES: usize = 4;
/// The most digits that the number of a message has: see [`MOST_MESSAGES`].
const NUMBER_DIGITS: usize = 2;
/// How every placeholder of a message begins and ends.
const PLACEHOLDER: (&str, char) = ("[message ", ']');

/// The secrets that a call has used, and the messages that the plugin must not see because of them.
#[derive(Default)]
pub(crate) struct CallSecrets {
    values: BTreeSet<Bytes>,
    /// What drivers said after secrets were used, in the order of their placeholders.
    messages: Vec<String>,
}

impl fmt::Debug for CallSecrets {
    /// Their number alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallSecrets({})", self.values.len())
    }
}

impl CallSecrets {
    /// Takes note that the call uses this value.
    pub(crate) fn use_value(&mut self, value: &Bytes) {
        if !value.is_empty() {
            self.values.insert(Bytes::clone(value));
        }
    }

    /// Returns the text with its placeholders replaced by the messages and without any of the
    /// secrets. If the call has used secrets, only the first `most` bytes are kept.
    pub(crate) fn redact<'a>(&self, text: &'a str, most: usize) -> Cow<'a, str> {
        if self.values.is_empty() {
            return Cow::Borrowed(text);
        }
        let forms: BTreeSet<String> = self.values.iter().flat_map(|value| forms(value)).collect();
        let longest = forms.iter().map(String::len).max().unwrap_or(0);
        // A secret that begins in what is kept ends in what was expanded, so it is found whole.
        let expanded = self.expand(text, most.saturating_add(longest).saturating_add(CHAR_BYTES));
        Cow::Owned(without_forms(&expanded, &forms, most))
    }

    /// Replaces each placeholder by its message, up to `most` bytes. A message is inserted as it
    /// is: what looks like a placeholder in it stays.
    fn expand(&self, text: &str, most: usize) -> String {
        let mut expanded = String::with_capacity(text.len().min(most));
        let mut rest = text;
        while !rest.is_empty() && expanded.len() < most {
            let (piece, after) = match self.message_at(rest) {
                Some(found) => found,
                None => {
                    // The bracket that begins `rest` is no placeholder's; the next one may be.
                    let next = rest.char_indices().skip(1).find(|(_, c)| PLACEHOLDER.0.starts_with(*c));
                    rest.split_at(next.map_or(rest.len(), |(at, _)| at))
                }
            };
            let room = most.saturating_sub(expanded.len());
            let end = piece.floor_char_boundary(room);
            expanded.push_str(piece.get(..end).unwrap_or_default());
            if end < piece.len() {
                break;
            }
            rest = after;
        }
        expanded
    }

    /// The message whose placeholder begins the text, and the text after the placeholder.
    fn message_at<'a>(&'a self, text: &'a str) -> Option<(&'a str, &'a str)> {
        let rest = text.strip_prefix(PLACEHOLDER.0)?;
        let digits = rest.bytes().take(NUMBER_DIGITS).take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at_checked(digits)?;
        let after = after.strip_prefix(PLACEHOLDER.1)?;
        // No placeholder has leading zeros.
        let index = Some(number).filter(|number| !number.starts_with('0'))?.parse::<usize>().ok()?.checked_sub(1)?;
        Some((self.messages.get(index)?, after))
    }

    /// Returns what the plugin gets of a message that another program wrote. If secrets were used,
    /// a placeholder: the program may repeat words of the plugin's, and whether they are taken out
    /// as a secret would reveal to the plugin that it has guessed one. People read the message
    /// where the plugin puts the placeholder.
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

/// The replacement of a message.
fn placeholder(index: usize) -> String {
    format!("{}{}{}", PLACEHOLDER.0, index.saturating_add(1), PLACEHOLDER.1)
}

/// The texts of a plugin's answer that people read.
pub(crate) trait Redact {
    /// Takes these secrets out of it.
    fn without(self, secrets: &CallSecrets) -> Self;
}

impl Redact for () {
    fn without(self, _: &CallSecrets) -> Self {}
}

impl<T> Redact for Result<T, types::Error> {
    fn without(self, secrets: &CallSecrets) -> Self {
        use types::Error;
        let clean = |text: String| secrets.redact(&text, ERROR_BYTES).into_owned();
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

/// The forms in which a secret's value may come back: as it is, as JSON writes it (also as Go does,
/// which escapes more), and in base64.
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

/// The first `most` bytes of the text without these forms. A form that begins in them is found if
/// the text has the whole of it.
fn without_forms(text: &str, forms: &BTreeSet<String>, most: usize) -> String {
    let end = text.floor_char_boundary(most);
    let found = |form| text.match_indices(form).map(|(at, form): (usize, &str)| (at, at.saturating_add(form.len())));
    let mut secret: Vec<(usize, usize)> =
        forms.iter().flat_map(|form| found(form.as_str()).take_while(|(from, _)| *from < end)).collect();
    secret.sort_unstable();
    let mut clean = String::new();
    // Everything before it has been copied or left out.
    let mut done = 0;
    for (from, to) in secret {
        if from >= done {
            clean.push_str(text.get(done..from).unwrap_or_default());
            clean.push_str(REDACTED);
        }
        // A form that begins inside another goes with it.
        done = done.max(to);
    }
    clean.push_str(text.get(done..end).unwrap_or_default());
    if end < text.len() {
        clean.push('…');
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn using(values: &[&str]) -> CallSecrets {
        let mut secrets = CallSecrets::default();
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
        let shown = secrets.redact(&text, ERROR_BYTES);
        assert_eq!(
            shown,
            "login [redacted] failed: sent \"[redacted]\", \"[redacted]\" and [redacted], [redacted] or [redacted]"
        );
    }

    #[test]
    fn short_values_stay_unless_encoded_and_nothing_else_changes() {
        assert_eq!(using(&["abc"]).redact("abcd is in YWJj", ERROR_BYTES), "abcd is in [redacted]");
        assert_eq!(using(&[]).redact("as it is", ERROR_BYTES), "as it is");
        assert_eq!(using(&["a-token"]).redact("nothing of it", ERROR_BYTES), "nothing of it");
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
            let redacted = secrets.redact(&format!("failed: {}", seen[0]), ERROR_BYTES).into_owned();
            assert_eq!(redacted, format!("failed: bad id {}", guess.replace("1234", "[redacted]")));
        }
        assert_eq!(seen[0], seen[1]);
    }

    #[test]
    fn placeholders_make_no_text_longer_than_its_bound() {
        let mut secrets = using(&["s3cret"]);
        for _ in 0..2 {
            secrets.for_plugin("[message 2]".repeat(372));
        }
        let text = "[message 1]".repeat(95_000);
        let shown = secrets.redact(&text, 100);
        assert_eq!(shown, format!("{}…", &"[message 2]".repeat(10)[..100]), "a message is inserted as it is");
        let most = ERROR_BYTES + "czNjcmV0".len() + CHAR_BYTES;
        let expanded = secrets.expand(&text, most);
        assert!(expanded.len() <= most && expanded.capacity() <= 2 * most, "{} bytes", expanded.capacity());
    }

    #[test]
    fn only_whole_placeholders_are_replaced() {
        let mut secrets = using(&["s3cret"]);
        secrets.for_plugin("first".to_owned());
        let text = "é[[message 1] [message 01] [message +1] [message 0] [message 2] [message";
        assert_eq!(secrets.redact(text, ERROR_BYTES), text.replace("[message 1]", "first"));
    }

    #[test]
    fn a_secret_at_the_bound_is_not_shown_in_part() {
        let (long, short) = ("l0ng-".repeat(8), "sh0rt-s3cret");
        let secrets = using(&[&long, short]);
        // Where a secret begins in what is shown, and where others that were left out made room.
        for before in 0..120 {
            for secret in [long.as_str(), short] {
                let text = format!("{long}{}{secret}{short}{long} more", "é".repeat(before));
                let shown = secrets.redact(&text, 100);
                for begin in ["l0ng", "sh0r"] {
                    assert!(!shown.contains(begin), "{before}: {shown}");
                }
                assert!(shown.len() < 250 && shown.ends_with('…'), "{before}: {shown}");
            }
        }
    }

    #[test]
    fn secrets_that_overlap_are_left_out_whole() {
        let secrets = using(&["one-two", "two-three", "redacted"]);
        assert_eq!(secrets.redact("a one-two-three b", ERROR_BYTES), "a [redacted] b");
        assert_eq!(secrets.redact("one-twotwo-three", ERROR_BYTES), "[redacted][redacted]");
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
