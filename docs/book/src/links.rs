//! Links and headings of a Markdown page, as far as these pages use Markdown.

use std::collections::BTreeMap;
use std::ops::Range;

/// A link of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link<'a> {
    /// The target as written, with its anchor.
    pub target: &'a str,
    /// Where the target is in the page, in bytes.
    pub at: Range<usize>,
    /// The line, counted from 1.
    pub line: usize,
}

/// Returns the lines that are not in a code block, with their offset in bytes and their number.
fn lines_of_text(page: &str) -> impl Iterator<Item = (usize, usize, &str)> {
    let (mut fence, mut at) = (None, 0);
    page.split_inclusive('\n').enumerate().filter_map(move |(index, line)| {
        let start = at;
        at += line.len();
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        match (fence, mark) {
            (None, None) => Some((start, index + 1, line)),
            (None, Some(_)) => {
                fence = mark;
                None
            }
            (Some(open), _) => {
                if mark == Some(open) {
                    fence = None;
                }
                None
            }
        }
    })
}

/// Returns the links of a page. What is in a code block or between backquotes is no link.
pub fn links(page: &str) -> Vec<Link<'_>> {
    let mut found = Vec::new();
    for (offset, number, line) in lines_of_text(page) {
        let mut at = 0;
        while let Some(rest) = line.get(at..).filter(|rest| !rest.is_empty()) {
            if rest.starts_with('`') {
                at += code_length(rest);
            } else if let Some(target) = rest.strip_prefix("](").and_then(|rest| rest.split_once(')')) {
                let start = offset + at + "](".len();
                found.push(Link { target: target.0, at: start..start + target.0.len(), line: number });
                at += "](".len() + target.0.len();
            } else {
                at += rest.chars().next().map_or(1, char::len_utf8);
            }
        }
    }
    found
}

/// The length of the code that `text` begins with, backquotes included; of the backquotes alone if
/// the code does not end in the line.
fn code_length(text: &str) -> usize {
    let opening = text.len() - text.trim_start_matches('`').len();
    let mut at = opening;
    while let Some(start) = text.get(at..).and_then(|rest| rest.find('`')).map(|found| at + found) {
        let rest = text.get(start..).unwrap_or_default();
        let closing = rest.len() - rest.trim_start_matches('`').len();
        at = start + closing;
        if closing == opening {
            return at;
        }
    }
    opening
}

/// Returns the anchors of a page's headings, as GitHub and mdBook make them.
pub fn anchors(page: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let headings = lines_of_text(page).filter_map(|(_, _, line)| {
        let level = line.len() - line.trim_start_matches('#').len();
        line.get(level..)?.strip_prefix(' ').filter(|_| (1..=6).contains(&level))
    });
    let anchor = |heading: &str| -> String {
        let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>().to_lowercase()
    };
    headings
        .map(|heading| {
            let anchor = anchor(&without_targets(heading));
            let times = seen.entry(anchor.clone()).or_insert(0);
            *times += 1;
            if *times == 1 { anchor } else { format!("{anchor}-{}", *times - 1) }
        })
        .collect()
}

/// A heading without the targets of its links.
fn without_targets(heading: &str) -> String {
    let mut text = heading.to_owned();
    for link in links(heading).iter().rev() {
        text.replace_range(link.at.clone(), "");
    }
    text
}
