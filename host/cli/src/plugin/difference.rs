//! The lines that an edit of a file changes.

/// The lines that are only in one of both texts, those of the old one with `-`, those of the new
/// one with `+`, in order.
pub(super) fn difference(old: &str, new: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    // What both have in common from each place on: configuration files have some hundred lines.
    let mut common = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    let at =
        |table: &Vec<Vec<usize>>, o: usize, n: usize| table.get(o).and_then(|row| row.get(n)).copied().unwrap_or(0);
    for o in (0..old.len()).rev() {
        for n in (0..new.len()).rev() {
            let length = if old.get(o) == new.get(n) {
                at(&common, o + 1, n + 1) + 1
            } else {
                at(&common, o + 1, n).max(at(&common, o, n + 1))
            };
            if let Some(cell) = common.get_mut(o).and_then(|row| row.get_mut(n)) {
                *cell = length;
            }
        }
    }
    let (mut o, mut n, mut lines) = (0, 0, Vec::new());
    loop {
        match (old.get(o), new.get(n)) {
            (Some(one), Some(other)) if one == other => (o, n) = (o + 1, n + 1),
            (Some(gone), other) if other.is_none() || at(&common, o + 1, n) >= at(&common, o, n + 1) => {
                lines.push(format!("-{gone}"));
                o += 1;
            }
            (_, Some(come)) => {
                lines.push(format!("+{come}"));
                n += 1;
            }
            (_, None) => return lines,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_shown() {
        assert_eq!(difference("a\nb\nc\n", "a\nx\nc\nd\n"), ["-b", "+x", "+d"]);
        assert_eq!(difference("", "a\n"), ["+a"]);
        assert_eq!(difference("a\nb\n", "b\n"), ["-a"]);
        assert!(difference("same\n", "same\n").is_empty());
    }
}
