//! Selection by labels, in Kubernetes' notation: `app=web,tier in (front, back),!canary`.

use std::collections::BTreeMap;
use std::str::FromStr;

use thiserror::Error;

/// The longest label value, and the longest name in a key, in bytes.
const MAX_NAME: usize = 63;

/// The longest prefix of a key, in bytes.
const MAX_PREFIX: usize = 253;

/// Requirements on labels, all of which must be met. The default selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

/// What is wanted of the label of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    condition: Condition,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Condition {
    /// `key=value`, `key in (...)`: the label exists and has one of these values.
    In(Vec<String>),
    /// `key!=value`, `key notin (...)`: the label has none of these values, or does not exist.
    NotIn(Vec<String>),
    /// `key`.
    Exists,
    /// `!key`.
    Missing,
}

/// A text that is no label selector.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LabelSelectorError {
    /// A key breaks Kubernetes' rules.
    #[error("{0:?} is no label's key: letters, digits, '-', '_' and '.', perhaps after PREFIX/")]
    Key(String),
    /// A value breaks Kubernetes' rules.
    #[error("{0:?} is no label's value: at most 63 letters, digits, '-', '_' and '.', a letter or digit at each end")]
    Value(String),
    /// Something else was expected after this part.
    #[error(
        "{0:?} is no requirement on a label; write KEY=VALUE, KEY!=VALUE, KEY in (A,B), KEY notin (A,B), KEY or !KEY"
    )]
    Requirement(String),
    /// A list of values has no end.
    #[error("the list of values in {0:?} has no closing parenthesis")]
    Unclosed(String),
}

impl LabelSelector {
    /// Returns whether it selects every object, with labels or without.
    #[must_use]
    pub const fn selects_all(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns whether these labels meet every requirement.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            match &requirement.condition {
                Condition::In(values) => value.is_some_and(|value| values.contains(value)),
                Condition::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Condition::Exists => value.is_some(),
                Condition::Missing => value.is_none(),
            }
        })
    }
}

impl FromStr for LabelSelector {
    type Err = LabelSelectorError;

    fn from_str(text: &str) -> Result<Self, LabelSelectorError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let requirements = parts(text)?.into_iter().map(requirement).collect::<Result<_, _>>()?;
        Ok(Self { requirements })
    }
}

/// The text between the commas outside of parentheses.
fn parts(text: &str) -> Result<Vec<&str>, LabelSelectorError> {
    let mut is_list = false;
    let parts: Vec<&str> = text
        .split(|character| {
            match character {
                '(' => is_list = true,
                ')' => is_list = false,
                _ => {}
            }
            character == ',' && !is_list
        })
        .collect();
    match is_list {
        true => Err(LabelSelectorError::Unclosed(parts.last().copied().unwrap_or(text).trim().to_owned())),
        false => Ok(parts),
    }
}

fn requirement(text: &str) -> Result<Requirement, LabelSelectorError> {
    let text = text.trim();
    let one = |value: &str| Ok(vec![checked_value(value.trim())?]);
    let (key, condition) = if let Some(key) = text.strip_prefix('!') {
        (key, Condition::Missing)
    } else if let Some((key, value)) = text.split_once("!=") {
        (key, Condition::NotIn(one(value)?))
    } else if let Some((key, value)) = text.split_once("==") {
        (key, Condition::In(one(value)?))
    } else if let Some((key, value)) = text.split_once('=') {
        (key, Condition::In(one(value)?))
    } else if let Some((words, rest)) = text.split_once('(') {
        let unknown = || LabelSelectorError::Requirement(text.to_owned());
        let values = rest.strip_suffix(')').ok_or_else(unknown)?;
        let values = values.split(',').map(|value| checked_value(value.trim())).collect::<Result<_, _>>()?;
        let (key, operator) = words.trim_end().rsplit_once(char::is_whitespace).ok_or_else(unknown)?;
        match operator {
            "in" => (key, Condition::In(values)),
            "notin" => (key, Condition::NotIn(values)),
            _ => return Err(unknown()),
        }
    } else if text.contains(|character: char| character.is_whitespace() || "<>)".contains(character)) {
        return Err(LabelSelectorError::Requirement(text.to_owned()));
    } else {
        (text, Condition::Exists)
    };
    Ok(Requirement { key: checked_key(key.trim())?, condition })
}

fn checked_key(key: &str) -> Result<String, LabelSelectorError> {
    let (prefix, name) = key.rsplit_once('/').unwrap_or(("a", key));
    let of_prefix = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let is_prefix = !prefix.is_empty() && prefix.len() <= MAX_PREFIX && prefix.bytes().all(of_prefix);
    match is_prefix && !name.is_empty() && is_name(name) {
        true => Ok(key.to_owned()),
        false => Err(LabelSelectorError::Key(key.to_owned())),
    }
}

fn checked_value(value: &str) -> Result<String, LabelSelectorError> {
    match is_name(value) {
        true => Ok(value.to_owned()),
        false => Err(LabelSelectorError::Value(value.to_owned())),
    }
}

/// Whether it may be a label's value, or, unless it is empty, the name in a key.
fn is_name(text: &str) -> bool {
    let at_end = |byte: Option<u8>| byte.is_none_or(|byte| byte.is_ascii_alphanumeric());
    text.len() <= MAX_NAME
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && at_end(text.bytes().next())
        && at_end(text.bytes().next_back())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn requirements_mean_what_they_mean_in_kubernetes() {
        let web = labels(&[("app", "web"), ("tier", "front"), ("app.kubernetes.io/name", "x"), ("empty", "")]);
        for (selector, is_selected) in [
            ("", true),
            ("  ", true),
            ("app=web", true),
            ("app == web , tier = front", true),
            ("app=web,tier=back", false),
            ("app!=web", false),
            ("app!=db", true),
            ("missing!=db", true),
            ("app in (db, web)", true),
            ("app in (db)", false),
            ("missing in (db)", false),
            ("app notin (db,cache),tier", true),
            ("app notin (web)", false),
            ("missing notin (web)", true),
            ("app", true),
            ("missing", false),
            ("!missing", true),
            ("! app", false),
            ("app.kubernetes.io/name=x", true),
            ("empty=", true),
            ("app=", false),
            ("empty in (,a)", true),
        ] {
            assert_eq!(selector.parse::<LabelSelector>().unwrap().matches(&web), is_selected, "{selector:?}");
        }
        assert!("".parse::<LabelSelector>().unwrap().selects_all());
        assert!(!"a".parse::<LabelSelector>().unwrap().selects_all());
    }

    #[test]
    fn a_wrong_selector_is_refused_with_what_is_wrong() {
        for (selector, said) in [
            ("app=web=x", "\"web=x\" is no label's value"),
            ("app=-x", "\"-x\" is no label's value"),
            ("=web", "\"\" is no label's key"),
            ("a b=c", "\"a b\" is no label's key"),
            ("A.b/c=d", "\"A.b/c\" is no label's key"),
            ("/c=d", "\"/c\" is no label's key"),
            ("app=web,", "\"\" is no label's key"),
            ("app in (a", "no closing parenthesis"),
            ("app in a", "is no requirement"),
            ("app of (a)", "is no requirement"),
            ("in (a)", "is no requirement"),
            ("app in (a) b", "is no requirement"),
            ("app>1", "is no requirement"),
            (&"a".repeat(64), "is no label's key"),
        ] {
            let error = selector.parse::<LabelSelector>().unwrap_err().to_string();
            assert!(error.contains(said), "{selector:?}: {error}");
        }
    }
}
