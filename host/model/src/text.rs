//! Bytes, foreign texts and errors as messages and file names show them.

use std::error::Error;
use std::fmt::Write as _;

/// The bytes as pairs of lower-case hexadecimal digits, as `sha256sum` prints a digest.
#[must_use]
pub fn lower_hex<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> String {
    let bytes = bytes.into_iter();
    let mut hex = String::with_capacity(bytes.size_hint().0.saturating_mul(2));
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// The first `chars` characters of a text, and `…` if it has more: a long value must not fill a
/// terminal.
#[must_use]
pub fn shorten(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => text.get(..end).unwrap_or_default().chars().chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// How much of a foreign text [`printable`] shows, in characters.
const SHOWN: usize = 300;

/// A foreign text on one line, without control characters, cut to a limit.
#[must_use]
pub fn printable(words: &str) -> String {
    let clean = |character: char| if character.is_control() { ' ' } else { character };
    let mut text: String = words.trim().chars().take(SHOWN).map(clean).collect();
    if words.trim().chars().count() > SHOWN {
        text.push_str("...");
    }
    text
}

/// The error and its causes on one line. A cause whose text an outer error contains is not
/// repeated.
#[must_use]
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let message = cause.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_moves_no_cursor_and_fills_no_screen() {
        assert_eq!(printable(" a\u{1b}[2Jb\nc "), "a [2Jb c");
        assert_eq!(printable(&"x".repeat(1000)).len(), SHOWN + 3);
    }

    #[test]
    fn each_cause_is_written_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer")]
        struct Outer(#[source] Middle);
        #[derive(Debug, thiserror::Error)]
        #[error("middle: inner")]
        struct Middle(#[source] std::io::Error);
        assert_eq!(error_chain(&Outer(Middle(std::io::Error::other("inner")))), "outer: middle: inner");
    }

    #[test]
    fn bytes_are_written_with_two_digits_each() {
        assert_eq!(lower_hex(&[0, 1, 0x0f, 0xa0, 0xff]), "00010fa0ff");
        assert_eq!(lower_hex([].iter()), "");
    }

    #[test]
    fn only_a_text_that_is_too_long_is_cut_and_between_characters() {
        assert_eq!(shorten("äöü", 3), "äöü");
        assert_eq!(shorten("äöüß", 3), "äöü…");
        assert_eq!(shorten("", 0), "");
        assert_eq!(shorten("a", 0), "…");
    }
}
