//! YAML (and JSON, which is YAML) as a tree that remembers lines.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{DefaultMessageFormatter, Error, MessageFormatter as _, Spanned};

use super::error::ManifestError;

/// Nodes in one file. A pod has about a hundred; this leaves room for a list of ten thousand.
const MAX_NODES: usize = 2_000_000;
/// Nesting in one document. The deepest field of a pod is at about 15.
const MAX_DEPTH: usize = 64;
/// Documents in one file.
const MAX_DOCUMENTS: usize = 100_000;
/// Nodes that aliases (`*name`) may add to one file: enough for every honest use, and far from an
/// expansion bomb.
const MAX_ALIAS_NODES: usize = 100_000;

/// A value with the line it begins at.
#[derive(Debug, Clone)]
pub(super) struct TreeNode {
    /// From 1; 0 when unknown.
    pub(super) line: u32,
    pub(super) value: TreeValue,
}

/// The content of a node.
#[derive(Debug, Clone)]
pub(super) enum TreeValue {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<TreeNode>),
    Map(Vec<(String, TreeNode)>),
}

/// One step into a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PathStep {
    Key(String),
    Index(usize),
}

/// Reads every document of `text`; empty documents are left out. Numbers with a leading zero are
/// octal, as Kubernetes reads file modes; only `true` and `false` are booleans.
pub(super) fn read(file: &str, text: &str) -> Result<Vec<TreeNode>, ManifestError> {
    if let Some(document) = read_compact_json(text) {
        return Ok(vec![document]);
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_nodes: MAX_NODES,
            // Each node is at most a start and an end; documents add two each.
            max_events: 2 * MAX_NODES + 2 * MAX_DOCUMENTS,
            max_documents: MAX_DOCUMENTS,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_ALIAS_NODES },
        legacy_octal_numbers: true,
        strict_booleans: true,
        with_snippet: false,
        emit_comments: false,
    };
    serde_saphyr::from_multiple_with_options::<TreeNode>(text, options).map_err(|error| ManifestError::Syntax {
        file: file.to_owned(),
        line: error.location().map_or(0, |at| at.line()),
        column: error.location().map_or(0, |at| at.column()),
        message: describe(&error),
    })
}

/// JSON on one line, as programs write it: the same tree several times faster, and every line is
/// the first. What is wrong with it is left for the YAML parser to say.
fn read_compact_json(text: &str) -> Option<TreeNode> {
    let text = text.trim_end();
    if !text.starts_with('{') || text.contains('\n') {
        return None;
    }
    serde_json::from_str::<FirstLine>(text).ok().map(TreeNode::from)
}

/// A node of the first line.
struct FirstLine(TreeValue);

impl<'de> Deserialize<'de> for FirstLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor::<Self>(PhantomData)).map(Self)
    }
}

impl From<FirstLine> for TreeNode {
    fn from(FirstLine(value): FirstLine) -> Self {
        Self { line: 1, value }
    }
}

/// The parser's words, without a snippet of the file, which may be a Secret.
fn describe(error: &Error) -> String {
    match error {
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("duplicate key {key:?}; remove one of the two"),
        Error::AliasReplayLimitExceeded { .. } => {
            format!("its aliases (`*name`) add more than {MAX_ALIAS_NODES} values; write them out or use fewer")
        }
        Error::AliasError { error, .. } => describe(error),
        other => DefaultMessageFormatter.format_message(other).into_owned(),
    }
}

impl TreeNode {
    /// The entry of this key, if the node is a map and has it.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            TreeValue::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, node)| node),
            _ => None,
        }
    }

    /// The entry of this key as text.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        match &self.get(key)?.value {
            TreeValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The line of the node at `path`, or of the nearest one above it that exists.
    pub(super) fn line_of(&self, path: &[PathStep]) -> u32 {
        let mut node = self;
        for step in path {
            let next = match (step, &node.value) {
                (PathStep::Key(key), TreeValue::Map(_)) => node.get(key),
                (PathStep::Index(index), TreeValue::List(items)) => items.get(*index),
                _ => None,
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        node.line
    }

    /// The value without lines.
    pub(super) fn to_json(&self) -> Value {
        match &self.value {
            TreeValue::Null => Value::Null,
            TreeValue::Bool(value) => Value::Bool(*value),
            TreeValue::Number(value) => Value::Number(value.clone()),
            TreeValue::Text(value) => Value::String(value.clone()),
            TreeValue::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            TreeValue::Map(entries) => {
                Value::Object(entries.iter().map(|(key, node)| (key.clone(), node.to_json())).collect::<Map<_, _>>())
            }
        }
    }

    /// Names the kind of value, for a message.
    pub(super) fn kind(&self) -> &'static str {
        match self.value {
            TreeValue::Null => "nothing",
            TreeValue::Bool(_) => "a boolean",
            TreeValue::Number(_) => "a number",
            TreeValue::Text(_) => "a text",
            TreeValue::List(_) => "a list",
            TreeValue::Map(_) => "a map",
        }
    }
}

/// `spec.volumes[0].emptyDir`, from the steps.
pub(super) fn path_text(path: &[PathStep]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            PathStep::Key(key) if text.is_empty() => text.push_str(key),
            PathStep::Key(key) => text.extend([".", key]),
            PathStep::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

/// The steps of `spec.volumes[0].emptyDir`. Keys of our own making: no dots or brackets within
/// them.
pub(super) fn steps(path: &str) -> Vec<PathStep> {
    let mut steps = Vec::new();
    for part in path.split('.') {
        let mut pieces = part.split('[');
        steps.extend(pieces.next().filter(|key| !key.is_empty()).map(|key| PathStep::Key(key.to_owned())));
        steps.extend(pieces.filter_map(|piece| piece.trim_end_matches(']').parse().ok()).map(PathStep::Index));
    }
    steps
}

impl<'de> Deserialize<'de> for TreeNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<TreeValue>::deserialize(deserializer)?;
        Ok(Self { line: u32::try_from(spanned.referenced.line()).unwrap_or(u32::MAX), value: spanned.value })
    }
}

impl<'de> Deserialize<'de> for TreeValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor::<TreeNode>(PhantomData))
    }
}

/// Reads a tree whose nodes are read as `N`.
struct TreeVisitor<N>(PhantomData<N>);

impl<'de, N: Deserialize<'de> + Into<TreeNode>> Visitor<'de> for TreeVisitor<N> {
    type Value = TreeValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON has too")
    }

    fn visit_unit<E>(self) -> Result<TreeValue, E> {
        Ok(TreeValue::Null)
    }

    fn visit_none<E>(self) -> Result<TreeValue, E> {
        Ok(TreeValue::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<TreeValue, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<TreeValue, E> {
        Ok(TreeValue::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<TreeValue, E> {
        Ok(TreeValue::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<TreeValue, E> {
        Ok(TreeValue::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<TreeValue, E> {
        Number::from_f64(value).map(TreeValue::Number).ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<TreeValue, E> {
        Ok(TreeValue::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<TreeValue, E> {
        Ok(TreeValue::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<TreeValue, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element::<N>()? {
            items.push(item.into());
        }
        Ok(TreeValue::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TreeValue, A::Error> {
        let mut entries: Vec<(String, TreeNode)> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            // The parser refuses equal keys; `1` and `"1"` differ in YAML and are one key in JSON.
            if !seen.insert(key.clone()) {
                return Err(A::Error::custom(format!("duplicate key {key:?}")));
            }
            let value = map.next_value::<N>()?;
            entries.push((key, value.into()));
        }
        Ok(TreeValue::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_on_one_line_gives_the_same_tree_as_yaml() {
        let json = r#"{"a": {"b": [1, -2, 1.5, "x", true, null]}, "c": "\u00e9"}"#;
        let fast = read_compact_json(json).unwrap();
        // A line break sends the same text through the YAML parser.
        let slow = read("f", &format!("\n{json}")).unwrap();
        assert_eq!(fast.to_json(), slow[0].to_json());
        assert_eq!(fast.line_of(&[PathStep::Key("a".into()), PathStep::Key("b".into()), PathStep::Index(1)]), 1);
    }

    #[test]
    fn what_is_wrong_with_json_on_one_line_is_said() {
        let twice = read("f", r#"{"a": 1, "a": 2}"#).unwrap_err().to_string();
        assert!(twice.contains("f:1:") && twice.contains("duplicate key"), "{twice}");
        let open = read("f", r#"{"a": [1}"#).unwrap_err().to_string();
        assert!(open.starts_with("f:1:"), "{open}");
    }
}
