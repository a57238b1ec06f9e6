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
/// Nodes that aliases (`*name`) may add to one file: enough for every honest use, and far from an expansion bomb.
const MAX_ALIAS_NODES: usize = 100_000;

/// A value with the line it begins at.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// From 1; 0 when unknown.
    pub(super) line: u32,
    pub(super) value: Tree,
}

/// The content of a node.
#[derive(Debug, Clone)]
pub(super) enum Tree {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// One step into a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// Reads every document of `text`; empty documents are left out. Numbers with a leading zero are octal, as Kubernetes reads file
/// modes; only `true` and `false` are booleans.
pub(super) fn read(file: &str, text: &str) -> Result<Vec<Node>, ManifestError> {
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
    serde_saphyr::from_multiple_with_options::<Node>(text, options).map_err(|error| ManifestError::Syntax {
        file: file.to_owned(),
        line: error.location().map_or(0, |at| at.line()),
        column: error.location().map_or(0, |at| at.column()),
        message: describe(&error),
    })
}

/// JSON on one line, as programs write it: the same tree several times faster, and every line is the first. What is wrong with it is
/// left for the YAML parser to say.
fn read_compact_json(text: &str) -> Option<Node> {
    let text = text.trim_end();
    if !text.starts_with('{') || text.contains('\n') {
        return None;
    }
    serde_json::from_str::<FirstLine>(text).ok().map(Node::from)
}

/// A node of the first line.
struct FirstLine(Tree);

impl<'de> Deserialize<'de> for FirstLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor::<Self>(PhantomData)).map(Self)
    }
}

impl From<FirstLine> for Node {
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

impl Node {
    /// The entry of this key, if the node is a map and has it.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Tree::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, node)| node),
            _ => None,
        }
    }

    /// The entry of this key as text.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        match &self.get(key)?.value {
            Tree::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The line of the node at `path`, or of the nearest one above it that exists.
    pub(super) fn line_of(&self, path: &[Step]) -> u32 {
        let mut node = self;
        for step in path {
            let next = match (step, &node.value) {
                (Step::Key(key), Tree::Map(_)) => node.get(key),
                (Step::Index(index), Tree::List(items)) => items.get(*index),
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
            Tree::Null => Value::Null,
            Tree::Bool(value) => Value::Bool(*value),
            Tree::Number(value) => Value::Number(value.clone()),
            Tree::Text(value) => Value::String(value.clone()),
            Tree::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Tree::Map(entries) => {
                Value::Object(entries.iter().map(|(key, node)| (key.clone(), node.to_json())).collect::<Map<_, _>>())
            }
        }
    }

    /// Names the kind of value, for a message.
    pub(super) fn kind(&self) -> &'static str {
        match self.value {
            Tree::Null => "nothing",
            Tree::Bool(_) => "a boolean",
            Tree::Number(_) => "a number",
            Tree::Text(_) => "a text",
            Tree::List(_) => "a list",
            Tree::Map(_) => "a map",
        }
    }
}

/// `spec.volumes[0].emptyDir`, from the steps.
pub(super) fn path_text(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => text.extend([".", key]),
            Step::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

/// The steps of `spec.volumes[0].emptyDir`. Keys of our own making: no dots or brackets within them.
pub(super) fn steps(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for part in path.split('.') {
        let mut pieces = part.split('[');
        steps.extend(pieces.next().filter(|key| !key.is_empty()).map(|key| Step::Key(key.to_owned())));
        steps.extend(pieces.filter_map(|piece| piece.trim_end_matches(']').parse().ok()).map(Step::Index));
    }
    steps
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Tree>::deserialize(deserializer)?;
        Ok(Self { line: u32::try_from(spanned.referenced.line()).unwrap_or(u32::MAX), value: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor::<Node>(PhantomData))
    }
}

/// Reads a tree whose nodes are read as `N`.
struct TreeVisitor<N>(PhantomData<N>);

impl<'de, N: Deserialize<'de> + Into<Node>> Visitor<'de> for TreeVisitor<N> {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON has too")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Tree, E> {
        Number::from_f64(value).map(Tree::Number).ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Tree, E> {
        Ok(Tree::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element::<N>()? {
            items.push(item.into());
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut entries: Vec<(String, Node)> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            // The parser refuses equal keys; `1` and `"1"` differ in YAML and are one key in JSON.
            if !seen.insert(key.clone()) {
                return Err(A::Error::custom(format!("duplicate key {key:?}")));
            }
            let value = map.next_value::<N>()?;
            entries.push((key, value.into()));
        }
        Ok(Tree::Map(entries))
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
        assert_eq!(fast.line_of(&[Step::Key("a".into()), Step::Key("b".into()), Step::Index(1)]), 1);
    }

    #[test]
    fn what_is_wrong_with_json_on_one_line_is_said() {
        let twice = read("f", r#"{"a": 1, "a": 2}"#).unwrap_err().to_string();
        assert!(twice.contains("f:1:") && twice.contains("duplicate key"), "{twice}");
        let open = read("f", r#"{"a": [1}"#).unwrap_err().to_string();
        assert!(open.starts_with("f:1:"), "{open}");
    }
}
