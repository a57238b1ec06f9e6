//! The name that was meant by a misspelt one.

/// Returns the candidate that is nearest to a name, if it is near: of three letters, one may be
/// wrong, missing or too much, or changed places with the next, and [`MAX_WRONG`] in all. Upper and
/// lower case count alike.
pub(super) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = |text: &str| text.to_lowercase().chars().collect::<Vec<char>>();
    let written = letters(name);
    // Longer than any name that there is: not worth the time.
    if written.len() > MAX_LETTERS {
        return None;
    }
    let near = candidates.into_iter().filter_map(|candidate| {
        let meant = letters(candidate);
        let wrong = distance(&written, &meant);
        (wrong <= (written.len().max(meant.len()) / 3).min(MAX_WRONG)).then_some((wrong, candidate))
    });
    near.min_by_key(|(wrong, _)| *wrong).map(|(_, candidate)| candidate)
}

const MAX_LETTERS: usize = 80;
/// More letters are another word: `VolumeSnapshotClass` is not `VolumeSnapshotContent`.
const MAX_WRONG: usize = 2;

/// How many letters to insert, remove, replace, or swap with the next, to make one of the other.
fn distance(one: &[char], other: &[char]) -> usize {
    let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX);
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, candidate) in other.iter().enumerate() {
            let replaced = at(&above, j).saturating_add(usize::from(letter != candidate));
            let shifted = at(&above, j + 1).min(at(&row, j)).saturating_add(1);
            let is_swap = i > 0 && j > 0 && one.get(i - 1) == Some(candidate) && other.get(j - 1) == Some(letter);
            let swapped = if is_swap { at(&before, j - 1).saturating_add(1) } else { usize::MAX };
            row.push(replaced.min(shifted).min(swapped));
        }
        before = above;
        above = row;
    }
    at(&above, other.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_near_when_one_letter_of_three_is_wrong() {
        let fields = ["name", "mountPath", "readOnly", "subPath", "subPathExpr"];
        for (written, meant) in [
            ("mountpath", Some("mountPath")),
            ("mountPaht", Some("mountPath")),
            ("moutnPath", Some("mountPath")),
            ("readonly", Some("readOnly")),
            ("nmae", Some("name")),
            ("subPathExp", Some("subPathExpr")),
            ("subPaths", Some("subPath")),
            ("path", None),
            ("", None),
            ("image", None),
            (&"m".repeat(1000), None),
        ] {
            assert_eq!(nearest(written, fields), meant, "{written}");
        }
        assert_eq!(nearest("a", []), None);
    }

    #[test]
    fn the_distance_counts_letters() {
        let between =
            |one: &str, other: &str| distance(&one.chars().collect::<Vec<_>>(), &other.chars().collect::<Vec<_>>());
        for (one, other, wrong) in [("", "", 0), ("", "abc", 3), ("abc", "", 3), ("abc", "acb", 1), ("ab", "bc", 2)] {
            assert_eq!(between(one, other), wrong, "{one} {other}");
        }
    }
}
