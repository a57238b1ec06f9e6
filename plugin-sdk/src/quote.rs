//! Values in messages.

/// A value in double quotes, on one line, and shortened to a readable length.
///
/// Use it for every user-written value in a message: control characters become visible, and a value
/// of ten thousand letters does not fill the screen.
///
/// ```
/// use volhost_plugin_sdk::quoted;
/// assert_eq!(quoted("two\nlines"), r#""two\u{a}lines""#);
/// ```
#[must_use]
pub fn quoted(text: &str) -> String {
    /// Longer values are not typing errors, and unreadable in a message.
    const LONGEST: usize = 100;
    // `{:?}` would do, but it brings tables of Unicode with it that are a tenth of a plugin.
    let mut quoted = String::from("\"");
    let mut letters = text.chars();
    for letter in letters.by_ref().take(LONGEST) {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            control if control.is_control() => quoted.push_str(&format!("\\u{{{:x}}}", u32::from(control))),
            letter => quoted.push(letter),
        }
    }
    quoted.push_str(if letters.next().is_some() { "...\"" } else { "\"" });
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_can_neither_leave_its_quotes_nor_its_line() {
        assert_eq!(quoted(r#"a"b\c"#), r#""a\"b\\c""#);
        assert_eq!(quoted("a\u{1b}[31mb\u{85}"), r#""a\u{1b}[31mb\u{85}""#);
        assert_eq!(quoted("größe"), "\"größe\"");
    }

    #[test]
    fn a_long_value_is_cut() {
        assert_eq!(quoted(&"é".repeat(10_000)), format!("\"{}...\"", "é".repeat(100)));
        assert_eq!(quoted(&"x".repeat(100)), format!("\"{}\"", "x".repeat(100)));
    }
}
