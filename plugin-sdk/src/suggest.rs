//! "Did you mean ...?"

/// `what`, the nearest of the `known` words if one is near, and all of them: each as `show` writes
/// it.
pub(crate) fn unknown(what: &str, word: &str, known: &[&str], show: fn(&str) -> String) -> String {
    let mut text = what.to_owned();
    match closest(word, known) {
        Some(near) => {
            text.push_str("; did you mean ");
            text.push_str(&show(near));
            text.push('?');
        }
        None => text.push('.'),
    }
    text.push_str(" Known: ");
    for (position, word) in known.iter().enumerate() {
        if position > 0 {
            text.push_str(", ");
        }
        text.push_str(&show(word));
    }
    if known.is_empty() {
        text.push_str("none");
    }
    text
}

/// The one of `candidates` that `word` is most likely a misspelling of, if any is near enough.
pub(crate) fn closest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    /// Longer words are not compared: the comparison costs the product of the lengths.
    const LONGEST: usize = 64;
    /// More wrong letters than this and it is another word.
    const FARTHEST: usize = 2;
    if word.is_empty() || word.len() > LONGEST {
        return None;
    }
    // Names of the API are ASCII, and the tables for other letters would double a plugin's size.
    let word = word.to_ascii_lowercase();
    candidates
        .iter()
        .filter(|candidate| !candidate.is_empty())
        .map(|candidate| (distance(&word, &candidate.to_ascii_lowercase()), *candidate))
        .filter(|(distance, candidate)| *distance <= FARTHEST && *distance * 2 <= candidate.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many letters must be added, dropped or replaced to make `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (line, from) in a.chars().enumerate() {
        let mut above_left = line;
        let mut left = line + 1;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (cell, to) in row.iter_mut().skip(1).zip(b.chars()) {
            let above = *cell;
            let replaced = above_left + usize::from(from != to);
            left = replaced.min(above + 1).min(left + 1);
            *cell = left;
            above_left = above;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_for_an_unknown_word_lists_the_known_ones() {
        let show = |word: &str| format!("<{word}>");
        assert_eq!(
            unknown("bad", "meduim", &["medium", "x"], show),
            "bad; did you mean <medium>? Known: <medium>, <x>"
        );
        assert_eq!(unknown("bad", "zzz", &[], show), "bad. Known: none");
    }

    #[test]
    fn distances_are_counted_in_letters() {
        for (a, b, expected) in [("", "", 0), ("a", "", 1), ("", "ab", 2), ("kitten", "sitting", 3), ("abc", "abc", 0)]
        {
            assert_eq!(distance(a, b), expected, "{a} -> {b}");
        }
    }

    #[test]
    fn a_near_miss_is_recognised_and_another_word_is_not() {
        let fields = ["medium", "sizeLimit", ""];
        assert_eq!(closest("sizelimit", &fields), Some("sizeLimit"));
        assert_eq!(closest("meduim", &fields), Some("medium"));
        assert_eq!(closest("capacity", &fields), None);
        assert_eq!(closest("", &fields), None);
        assert_eq!(closest(&"m".repeat(10_000), &fields), None);
    }
}
