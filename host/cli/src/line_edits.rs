//! The lines in which two texts differ, by Myers' algorithm.

/// Edits that are looked for. Texts that differ in more lines are shown as replaced: the search
/// takes memory for the square of their number.
const MAX_EDITS: usize = 1_000;
/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// A line of one text, or of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edit<'a> {
    /// In both.
    Kept(&'a str),
    /// In the old text only.
    Gone(&'a str),
    /// In the new text only.
    Come(&'a str),
}

/// The lines of both texts, in order.
pub(super) fn edits<'a>(old: &'a str, new: &'a str) -> Vec<Edit<'a>> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let prefix = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
    let (head, old) = old.split_at(prefix);
    let new = new.get(prefix..).unwrap_or_default();
    let suffix = old.iter().rev().zip(new.iter().rev()).take_while(|(one, other)| one == other).count();
    let (old, tail) = old.split_at(old.len().saturating_sub(suffix));
    let new = new.get(..new.len().saturating_sub(suffix)).unwrap_or_default();
    let middle = shortest(old, new).unwrap_or_else(|| {
        old.iter().map(|line| Edit::Gone(line)).chain(new.iter().map(|line| Edit::Come(line))).collect()
    });
    let kept = |lines: &[&'a str]| lines.iter().map(|line| Edit::Kept(line)).collect::<Vec<_>>();
    [kept(head), middle, kept(tail)].concat()
}

/// The fewest edits; none if there are more than [`MAX_EDITS`].
fn shortest<'a>(old: &[&'a str], new: &[&'a str]) -> Option<Vec<Edit<'a>>> {
    let most = (old.len() + new.len()).min(MAX_EDITS);
    // On each diagonal (old line minus new line, moved by `most + 1`), the farthest old line.
    let mut farthest = vec![0_usize; 2 * most + 3];
    let mut trace = Vec::new();
    for count in 0..=most {
        trace.push(farthest.clone());
        for diagonal in (most + 1 - count..=most + 1 + count).step_by(2) {
            let mut at = reached(&farthest, diagonal, most + 1, count);
            let mut at_new = (at + most + 1).checked_sub(diagonal)?;
            while at < old.len() && old.get(at) == new.get(at_new) {
                (at, at_new) = (at + 1, at_new + 1);
            }
            *farthest.get_mut(diagonal)? = at;
            if at >= old.len() && at_new >= new.len() {
                return walk_back(old, new, &trace, most + 1);
            }
        }
    }
    None
}

/// The old line from which an edit continues on this diagonal.
fn reached(farthest: &[usize], diagonal: usize, zero: usize, count: usize) -> usize {
    let on = |diagonal: usize| farthest.get(diagonal).copied().unwrap_or_default();
    if comes(farthest, diagonal, zero, count) { on(diagonal + 1) } else { on(diagonal - 1) + 1 }
}

/// Whether the edit that leads to this diagonal is a line that comes; else a line that goes.
fn comes(farthest: &[usize], diagonal: usize, zero: usize, count: usize) -> bool {
    let on = |diagonal: usize| farthest.get(diagonal).copied().unwrap_or_default();
    diagonal == zero - count || (diagonal != zero + count && on(diagonal - 1) < on(diagonal + 1))
}

fn walk_back<'a>(old: &[&'a str], new: &[&'a str], trace: &[Vec<usize>], zero: usize) -> Option<Vec<Edit<'a>>> {
    let (mut at, mut at_new) = (old.len(), new.len());
    let mut edits = Vec::new();
    for (count, farthest) in trace.iter().enumerate().rev() {
        let diagonal = at + zero - at_new;
        let came = comes(farthest, diagonal, zero, count);
        let start = if count == 0 { 0 } else { reached(farthest, diagonal, zero, count) };
        while at > start {
            (at, at_new) = (at - 1, at_new.checked_sub(1)?);
            edits.push(Edit::Kept(old.get(at)?));
        }
        if count == 0 {
            break;
        }
        if came {
            at_new = at_new.checked_sub(1)?;
            edits.push(Edit::Come(new.get(at_new)?));
        } else {
            at = at.checked_sub(1)?;
            edits.push(Edit::Gone(old.get(at)?));
        }
    }
    edits.reverse();
    Some(edits)
}

/// The lines that are only in one of both texts, those of the old one with `-`, those of the new
/// one with `+`, in order.
pub(super) fn changed_lines(old: &str, new: &str) -> Vec<String> {
    let changed = edits(old, new).into_iter().filter_map(|edit| match edit {
        Edit::Kept(_) => None,
        Edit::Gone(line) => Some(format!("-{line}")),
        Edit::Come(line) => Some(format!("+{line}")),
    });
    changed.collect()
}

/// A unified diff, as `diff -u` prints it; empty if the texts are the same.
pub(super) fn unified(old_name: &str, new_name: &str, old: &str, new: &str) -> String {
    let edits = edits(old, new);
    let is_change = |edit: &Edit<'_>| !matches!(edit, Edit::Kept(_));
    let changes: Vec<usize> = (0..edits.len()).filter(|at| edits.get(*at).is_some_and(is_change)).collect();
    let mut text = String::new();
    let mut rest = changes.as_slice();
    while let Some(first) = rest.first() {
        // Changes whose unchanged lines touch are in one hunk.
        let together = rest.windows(2).take_while(|pair| matches!(pair, [a, b] if b - a <= 2 * CONTEXT + 1)).count();
        let (hunk, later) = rest.split_at(together + 1);
        rest = later;
        let start = first.saturating_sub(CONTEXT);
        let end = hunk.last().map_or(start, |last| last + 1 + CONTEXT).min(edits.len());
        if text.is_empty() {
            text = format!("--- {old_name}\n+++ {new_name}\n");
        }
        let before = edits.get(..start).unwrap_or_default();
        let within = edits.get(start..end).unwrap_or_default();
        let range = |count: fn(&Edit<'_>) -> bool| {
            let (skipped, lines) =
                (before.iter().filter(|edit| count(edit)).count(), within.iter().filter(|edit| count(edit)).count());
            // An empty range is at the line before it.
            let first = if lines == 0 { skipped } else { skipped + 1 };
            if lines == 1 { first.to_string() } else { format!("{first},{lines}") }
        };
        let in_old = range(|edit| !matches!(edit, Edit::Come(_)));
        let in_new = range(|edit| !matches!(edit, Edit::Gone(_)));
        text.push_str(&format!("@@ -{in_old} +{in_new} @@\n"));
        for edit in within {
            let (mark, line) = match edit {
                Edit::Kept(line) => (' ', line),
                Edit::Gone(line) => ('-', line),
                Edit::Come(line) => ('+', line),
            };
            text.push_str(&format!("{mark}{line}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_shown() {
        assert_eq!(changed_lines("a\nb\nc\n", "a\nx\nc\nd\n"), ["-b", "+x", "+d"]);
        assert_eq!(changed_lines("", "a\n"), ["+a"]);
        assert_eq!(changed_lines("a\nb\n", "b\n"), ["-a"]);
        assert!(changed_lines("same\n", "same\n").is_empty());
    }

    #[test]
    fn a_diff_has_hunks_with_three_lines_around() {
        let old: Vec<String> = (1..=20).map(|number| number.to_string()).collect();
        let mut new = old.clone();
        new[1] = "two".to_owned();
        new.remove(16);
        let text = unified("a", "b", &(old.join("\n") + "\n"), &(new.join("\n") + "\n"));
        assert_eq!(
            text,
            "--- a\n+++ b\n@@ -1,5 +1,5 @@\n 1\n-2\n+two\n 3\n 4\n 5\n@@ -14,7 +14,6 @@\n 14\n 15\n 16\n-17\n 18\n 19\n 20\n"
        );
        assert_eq!(unified("a", "b", "", "x\n"), "--- a\n+++ b\n@@ -0,0 +1 @@\n+x\n");
        assert_eq!(unified("a", "b", "x\n", "x\n"), "");
    }

    /// Applies edits to check them: kept and gone lines are the old text, kept and new ones the new.
    fn sides(edits: &[Edit<'_>]) -> (Vec<String>, Vec<String>) {
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for edit in edits {
            match edit {
                Edit::Kept(line) => {
                    old.push((*line).to_owned());
                    new.push((*line).to_owned());
                }
                Edit::Gone(line) => old.push((*line).to_owned()),
                Edit::Come(line) => new.push((*line).to_owned()),
            }
        }
        (old, new)
    }

    #[test]
    fn edits_lead_from_one_text_to_the_other_whatever_they_are() {
        let mut state = 1_u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from((state >> 33) % below).unwrap()
        };
        for _ in 0..2_000 {
            let mut lines = |most| (0..random(most)).map(|_| ["a", "b", "c"][random(3)].to_owned()).collect();
            let (old, new): (Vec<String>, Vec<String>) = (lines(12), lines(12));
            let (old_text, new_text) = (old.join("\n"), new.join("\n"));
            let found = edits(&old_text, &new_text);
            let lines_of = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(sides(&found), (lines_of(&old_text), lines_of(&new_text)), "{old:?} {new:?}");
        }
    }

    #[test]
    fn texts_that_have_nothing_in_common_are_replaced() {
        let old: String = (0..5_000).map(|number| format!("old {number}\n")).collect();
        let new: String = (0..5_000).map(|number| format!("new {number}\n")).collect();
        assert_eq!(edits(&old, &new).len(), 10_000);
    }
}
