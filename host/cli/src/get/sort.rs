//! `--sort-by`: the order of lists.

use std::cmp::Ordering;

use serde_json::Value;

use super::json_path::{Path, shown};
use super::object::object;
use crate::columns;
use crate::error::CliError;
use crate::list::View;
use volhost_api::pb::Kind;
use volhost_table::Cell;

/// What a list is sorted by.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SortKey {
    /// The column of this name.
    Column(String),
    /// A field of the objects.
    Path(Path),
}

impl SortKey {
    /// Reads what was typed: a path has a dot, a bracket or a brace, a column has none.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let is_path = text.contains(['.', '[', '{']);
        match is_path {
            true => Path::relaxed(text).map(Self::Path).map_err(|error| error.to_string()),
            false => Ok(Self::Column(text.to_uppercase().replace(['-', '_'], " "))),
        }
    }

    /// Sorts objects of one kind, the smallest first; those without the value come last, and equal
    /// ones stay in the list's order.
    ///
    /// # Errors
    /// [`CliError::Usage`] if the kind has no such column.
    pub(super) fn sort(&self, kind: Kind, views: &mut Vec<View>, now_us: u64) -> Result<(), CliError> {
        match self {
            Self::Column(name) => {
                let (always, wide) = columns::names(kind);
                let names: Vec<&str> = always.iter().chain(wide).copied().collect();
                let Some(at) = names.iter().position(|column| column == name) else {
                    return Err(CliError::Usage(format!(
                        "--sort-by: there is no column {name:?}; there are {}, and paths of fields, as .metadata.name",
                        names.join(", ")
                    )));
                };
                let cell = |view: &View| columns::cells(view, false, now_us).into_iter().nth(at);
                sorted(views, |view| Ok(cell(view)), compare_cells)
            }
            Self::Path(path) => {
                let value = |view: &View| Ok(path.all(&object(view)?).first().copied().cloned());
                sorted(views, value, compare_values)
            }
        }
    }
}

fn sorted<K>(
    views: &mut Vec<View>,
    key: impl Fn(&View) -> Result<Option<K>, CliError>,
    compare: impl Fn(&K, &K) -> Ordering,
) -> Result<(), CliError> {
    let mut keyed: Vec<(Option<K>, View)> =
        views.drain(..).map(|view| Ok((key(&view)?, view))).collect::<Result<_, CliError>>()?;
    keyed.sort_by(|(one, _), (other, _)| match (one, other) {
        (Some(one), Some(other)) => compare(one, other),
        (one, other) => one.is_none().cmp(&other.is_none()),
    });
    views.extend(keyed.into_iter().map(|(_, view)| view));
    Ok(())
}

fn compare_cells(one: &Cell, other: &Cell) -> Ordering {
    let is_empty = |cell: &Cell| cell.order().is_none() && cell.text() == "-";
    is_empty(one)
        .cmp(&is_empty(other))
        .then_with(|| one.order().cmp(&other.order()))
        .then_with(|| natural(one.text(), other.text()))
}

fn compare_values(one: &Value, other: &Value) -> Ordering {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one.total_cmp(&other),
        _ => natural(&shown(one), &shown(other)),
    }
}

/// The order of texts with numbers in them: `web-2` comes before `web-10`.
fn natural(one: &str, other: &str) -> Ordering {
    let (mut one, mut other) = (one, other);
    loop {
        match (number(one), number(other)) {
            (Some((left, left_rest)), Some((right, right_rest))) => {
                let (left, right) = (left.trim_start_matches('0'), right.trim_start_matches('0'));
                match left.len().cmp(&right.len()).then_with(|| left.cmp(right)) {
                    Ordering::Equal => (one, other) = (left_rest, right_rest),
                    order => return order,
                }
            }
            _ => {
                let (mut left, mut right) = (one.chars(), other.chars());
                match (left.next(), right.next()) {
                    (None, None) => return Ordering::Equal,
                    (left_letter, right_letter) if left_letter == right_letter => {
                        (one, other) = (left.as_str(), right.as_str());
                    }
                    (left_letter, right_letter) => return left_letter.cmp(&right_letter),
                }
            }
        }
    }
}

/// The digits at the beginning, if there are any, and the text after them.
fn number(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    text.split_at_checked(end).filter(|(digits, _)| !digits.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_texts_count_as_numbers() {
        let mut names = ["web-10", "web-2", "web", "db-007", "db-7b", "db-6", "web-2-a"];
        names.sort_by(|one, other| natural(one, other));
        assert_eq!(names, ["db-6", "db-007", "db-7b", "web", "web-2", "web-2-a", "web-10"]);
    }

    #[test]
    fn times_are_sorted_by_time() {
        let at = |micros| Value::from(crate::format::rfc3339(micros));
        let (first, second) = (at(1_700_000_000_450_000), at(1_700_000_000_500_000));
        assert_eq!(compare_values(&first, &second), Ordering::Less);
        assert_eq!(compare_values(&second, &at(1_700_000_001_000_000)), Ordering::Less);
    }

    #[test]
    fn a_key_is_a_column_or_a_path() {
        assert_eq!(SortKey::parse("waits-for").unwrap(), SortKey::Column("WAITS FOR".into()));
        assert!(matches!(SortKey::parse(".metadata.name"), Ok(SortKey::Path(_))));
        assert!(matches!(SortKey::parse("{.metadata.name}"), Ok(SortKey::Path(_))));
        assert!(SortKey::parse(".a[").unwrap_err().contains("no closing bracket"));
    }
}
