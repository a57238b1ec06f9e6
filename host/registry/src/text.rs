//! Foreign texts, escaped and shortened for messages.

/// How much of a foreign text is shown, in characters.
const SHOWN: usize = 300;

/// The text on one line, without control characters, cut to a limit.
pub(crate) fn printable(words: &str) -> String {
    let clean = |character: char| if character.is_control() { ' ' } else { character };
    let mut text: String = words.trim().chars().take(SHOWN).map(clean).collect();
    if words.trim().chars().count() > SHOWN {
        text.push_str("...");
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
}
