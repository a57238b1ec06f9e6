//! Text from plugins: one line, cut to a length, and without control characters that would play
//! tricks on a terminal or forge lines of a log.

use volhost_model::visible::is_hidden;

/// `text` on one line, with control characters written out, cut to about `limit` bytes.
pub(crate) fn tame(text: &str, limit: usize) -> String {
    let mut tame = String::with_capacity(text.len().min(limit));
    for c in text.chars() {
        if tame.len() >= limit {
            tame.push('…');
            break;
        }
        if c == '\n' {
            tame.push(' ');
        } else if is_hidden(c) {
            tame.extend(c.escape_default());
        } else {
            tame.push(c);
        }
    }
    tame
}

/// The CamelCase word of an event; everything else in it is dropped.
pub(crate) fn reason(text: &str) -> String {
    const REASON_BYTES: usize = 128;
    let word: String = text.chars().filter(char::is_ascii_alphanumeric).take(REASON_BYTES).collect();
    if word.is_empty() { "PluginEvent".to_owned() } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_not_obeyed() {
        assert_eq!(tame("a\u{1b}[2Jb\nc\u{202e}d\u{200b}", 100), "a\\u{1b}[2Jb c\\u{202e}d\\u{200b}");
    }

    #[test]
    fn long_text_is_cut() {
        assert_eq!(tame(&"x".repeat(1000), 10), "xxxxxxxxxx…");
        assert_eq!(tame("xxxxxxxxxx", 10), "xxxxxxxxxx");
    }

    #[test]
    fn a_reason_is_one_word() {
        assert_eq!(reason("Failed Mount!"), "FailedMount");
        assert_eq!(reason("\n"), "PluginEvent");
    }
}
