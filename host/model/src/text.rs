//! Bytes and foreign texts as messages and file names show them.

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

#[cfg(test)]
mod tests {
    use super::*;

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
