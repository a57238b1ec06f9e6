//! JSONPath templates as kubectl has them:
//! `{range .items[*]}{.metadata.name}{"\t"}{.status.phase}{"\n"}{end}`.
//!
//! Supported: text outside of braces, `{"text"}`, `{range PATH}...{end}`, and paths of `$`, `@`,
//! `.name`, `..name`, `['name','other']`, `[0]`, `[-1]`, `[0,2]`, `[1:3]`, `[::2]`, `[*]`, `.*` and
//! `[?(@.field == "value")]` with `==`, `!=`, `<`, `<=`, `>`, `>=` or none. A dot in a name is
//! written `\.`. A field that does not exist is nothing, no error.

mod evaluate;
mod parse;

pub(crate) use evaluate::shown;
pub(crate) use parse::split_at_commas;

use serde_json::Value;
use thiserror::Error;

/// A template.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Template {
    nodes: Vec<Node>,
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Text(String),
    Path(Path),
    Range(Path, Vec<Node>),
}

/// A path, which selects values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Path {
    /// It begins at the whole document, also inside of a range.
    from_root: bool,
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// `.name`, `['a','b']`.
    Fields(Vec<String>),
    /// `[0]`, `[-1,2]`.
    Indexes(Vec<i64>),
    /// `[from:to:step]`.
    Slice { from: Option<i64>, to: Option<i64>, step: usize },
    /// `.*`, `[*]`.
    All,
    /// `..`: the value and everything below it.
    Descend,
    /// `[?(...)]`.
    Filter(Filter),
}

#[derive(Debug, Clone, PartialEq)]
struct Filter {
    left: Operand,
    /// None: the left one exists.
    condition: Option<(Comparison, Operand)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Path(Path),
    Literal(Value),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

/// A text that is no template or no path.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum JsonPathError {
    #[error("{0:?} has no path; write it in braces: {{.items[*].metadata.name}}")]
    NoBraces(String),
    #[error("{{{0} has no closing brace")]
    OpenBrace(String),
    #[error("[{0} has no closing bracket")]
    OpenBracket(String),
    #[error("{0} has no closing quotation mark")]
    OpenQuote(String),
    #[error("a {{range}} has no {{end}}")]
    NoEnd,
    #[error("an {{end}} has no {{range}}")]
    NoRange,
    #[error(
        "{path:?}: {what:?} is not understood; paths are of .NAME, ..NAME, [INDEX], [FROM:TO], [*], ['NAME'] and [?(@.NAME==\"VALUE\")]"
    )]
    NotUnderstood { path: String, what: String },
    #[error("{0:?}: JSONPath as kubectl has it knows no && and no ||")]
    Logic(String),
}
