//! The one rule for characters that a reader does not see as they are: control characters,
//! characters that reorder the text around them, and characters without a width. Manifests, plugins
//! and drivers choose much of what volhost shows; every output writes such characters as escapes,
//! so that no text looks like another one or steers a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether the character is not seen as it is: a control character, or one that [`is_unseen`].
#[must_use]
pub fn is_hidden(c: char) -> bool {
    c.is_control() || is_unseen(c)
}

/// Whether the character reorders the text around it or has no width: the bidirectional controls,
/// Unicode's default-ignorable characters, and the line and paragraph separators.
#[must_use]
pub const fn is_unseen(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// The text on one line: line ends and tabs become blanks, other hidden characters escapes such as
/// `\u{202e}`.
#[must_use]
pub fn visible_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden, |c, shown| match c {
        '\n' | '\r' | '\t' => shown.push(' '),
        c => shown.extend(c.escape_unicode()),
    })
}

/// The text with its line ends and tabs, other hidden characters as escapes such as `\u{202e}`.
#[must_use]
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    let hidden = |c| is_hidden(c) && !matches!(c, '\n' | '\t');
    escaped(text, hidden, |c, shown| shown.extend(c.escape_unicode()))
}

/// The text with the characters that [`is_unseen`] as escapes such as `\u{202e}`; control
/// characters stay, colours among them.
#[must_use]
pub fn visible_unseen(text: &str) -> Cow<'_, str> {
    escaped(text, is_unseen, |c, shown| shown.extend(c.escape_unicode()))
}

/// JSON text with the characters that [`is_unseen`] as JSON's own escapes: it means the same as
/// before.
#[must_use]
pub fn visible_json(json: &str) -> Cow<'_, str> {
    escaped(json, is_unseen, |c, shown| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing into a string does not fail.
            let _ = write!(shown, "\\u{unit:04x}");
        }
    })
}

/// The text of metrics with hidden characters as escapes, their backslash escaped in turn as labels
/// want it. Line ends stay.
#[must_use]
pub fn visible_metrics(text: &str) -> Cow<'_, str> {
    let hidden = |c| is_hidden(c) && c != '\n';
    escaped(text, hidden, |c, shown| {
        shown.push('\\');
        shown.extend(c.escape_unicode());
    })
}

fn escaped(text: &str, hidden: impl Fn(char) -> bool, escape: impl Fn(char, &mut String)) -> Cow<'_, str> {
    if !text.contains(&hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if hidden(c) { escape(c, &mut shown) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reorders_or_has_no_width_is_written_out() {
        for (c, shown) in [
            ('\u{202e}', "\\u{202e}"),
            ('\u{2066}', "\\u{2066}"),
            ('\u{61c}', "\\u{61c}"),
            ('\u{200b}', "\\u{200b}"),
            ('\u{200d}', "\\u{200d}"),
            ('\u{feff}', "\\u{feff}"),
            ('\u{ad}', "\\u{ad}"),
            ('\u{2028}', "\\u{2028}"),
            ('\u{e0041}', "\\u{e0041}"),
            ('\u{1b}', "\\u{1b}"),
            ('\u{9b}', "\\u{9b}"),
        ] {
            assert_eq!(visible_line(&format!("a{c}b")), format!("a{shown}b"));
            assert_eq!(visible_lines(&format!("a{c}b\n")), format!("a{shown}b\n"));
        }
        assert_eq!(visible_line("a\n\tb"), "a  b");
    }

    #[test]
    fn what_can_be_seen_stays() {
        for text in ["plain", "grüße", "数据", "emoji 🗄", "e\u{301}", "a b"] {
            assert!(matches!(visible_line(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn a_label_of_a_metric_holds_an_escaped_backslash() {
        assert_eq!(visible_metrics("a{b=\"\u{202e}c\"} 1\n"), "a{b=\"\\\\u{202e}c\"} 1\n");
    }

    #[test]
    fn json_means_the_same_as_before() {
        assert_eq!(visible_json("{\"a\":\"\u{202e}\u{e0041}\"}\n"), "{\"a\":\"\\u202e\\udb40\\udc41\"}\n");
        assert_eq!(visible_unseen("\u{1b}[31ma\u{200b}"), "\u{1b}[31ma\\u{200b}");
    }
}
