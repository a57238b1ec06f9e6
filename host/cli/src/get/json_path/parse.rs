//! The text of a template or a path to its parts.

use serde_json::Value;

use super::{Comparison, Filter, JsonPathError, Node, Operand, Path, Step, Template};

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// [`JsonPathError`] names the part that is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self, JsonPathError> {
        // The outermost list, and those of the ranges that are open, with their paths.
        let mut open: Vec<(Option<Path>, Vec<Node>)> = vec![(None, Vec::new())];
        let mut rest = text;
        while let Some((before, inside)) = rest.split_once('{') {
            let (inside, after) =
                split_at_end(inside, '}').ok_or_else(|| JsonPathError::OpenBrace(inside.to_owned()))?;
            let inside = inside.trim();
            let mut nodes = Vec::new();
            if !before.is_empty() {
                nodes.push(Node::Text(before.to_owned()));
            }
            let range = inside.strip_prefix("range").filter(|path| path.starts_with(char::is_whitespace));
            if inside == "end" {
                let (path, mut body) = open.pop().ok_or(JsonPathError::NoRange)?;
                body.append(&mut nodes);
                nodes.push(Node::Range(path.ok_or(JsonPathError::NoRange)?, body));
            } else if range.is_none() {
                nodes.push(if inside.starts_with(['"', '\'']) {
                    Node::Text(unquoted(inside)?)
                } else {
                    Node::Path(Path::parse(inside)?)
                });
            }
            if let Some((_, body)) = open.last_mut() {
                body.append(&mut nodes);
            }
            if let Some(path) = range {
                open.push((Some(Path::parse(path)?), Vec::new()));
            }
            rest = after;
        }
        let (path, mut nodes) = open.pop().unwrap_or_default();
        if path.is_some() {
            return Err(JsonPathError::NoEnd);
        }
        if nodes.is_empty() {
            return Err(JsonPathError::NoBraces(text.to_owned()));
        }
        if !rest.is_empty() {
            nodes.push(Node::Text(rest.to_owned()));
        }
        Ok(Self { nodes })
    }
}

impl Path {
    /// Reads a path, as `--sort-by` and columns have it too: `{.a.b}`, `.a.b` or `a.b`.
    ///
    /// # Errors
    /// [`JsonPathError`] names the part that is wrong.
    pub(crate) fn relaxed(text: &str) -> Result<Self, JsonPathError> {
        let text = text.trim();
        match text.strip_prefix('{') {
            Some(inside) => match inside.strip_suffix('}') {
                Some(inside) => Self::parse(inside.trim()),
                None => Err(JsonPathError::OpenBrace(inside.to_owned())),
            },
            None => Self::parse(text),
        }
    }

    fn parse(text: &str) -> Result<Self, JsonPathError> {
        let text = text.trim();
        let not_understood = |what: &str| JsonPathError::NotUnderstood { path: text.to_owned(), what: what.to_owned() };
        let from_root = text.starts_with('$');
        let mut rest = text.strip_prefix(['$', '@']).unwrap_or(text);
        let mut steps = Vec::new();
        let mut is_first = rest.len() == text.len();
        if text.is_empty() {
            return Err(not_understood(text));
        }
        while !rest.is_empty() {
            let is_descent = rest.starts_with("..");
            if is_descent {
                steps.push(Step::Descend);
                rest = rest.get(1..).unwrap_or_default();
            }
            if let Some(inside) = rest.strip_prefix("[").or_else(|| rest.strip_prefix(".[")) {
                let (inside, after) =
                    split_at_end(inside, ']').ok_or_else(|| JsonPathError::OpenBracket(inside.to_owned()))?;
                steps.push(bracket(inside.trim()).ok_or_else(|| not_understood(inside))??);
                rest = after;
            } else if let Some(after) = rest.strip_prefix('.').or_else(|| is_first.then_some(rest)) {
                let (name, after) = name(after);
                match name.as_str() {
                    // `{.}`, and the end of `{@.}`: the value itself.
                    "" if after.is_empty() && !is_descent => {}
                    "" => return Err(not_understood(rest)),
                    "*" => steps.push(Step::All),
                    _ if name.contains(char::is_whitespace) => return Err(not_understood(&name)),
                    _ => steps.push(Step::Fields(vec![name])),
                }
                rest = after;
            } else {
                return Err(not_understood(rest));
            }
            is_first = false;
        }
        Ok(Self { from_root, steps })
    }
}

/// The name at the beginning, with what `\` escapes, and the text after it.
fn name(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '.' | '[' => return (name, text.get(at..).unwrap_or_default()),
            '\\' => name.extend(letters.next().map(|(_, letter)| letter)),
            _ => name.push(letter),
        }
    }
    (name, "")
}

/// The text before the first `end` outside of quotation marks and brackets, and the text after it.
fn split_at_end(text: &str, end: char) -> Option<(&str, &str)> {
    let (mut quote, mut is_escaped, mut depth) = (None, false, 0_usize);
    for (at, letter) in text.char_indices() {
        if std::mem::take(&mut is_escaped) {
            continue;
        }
        match (quote, letter) {
            (_, '\\') => is_escaped = true,
            (Some(open), _) if open == letter => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(letter),
            (None, _) if letter == end && depth == 0 => {
                return Some((text.get(..at)?, text.get(at + letter.len_utf8()..)?));
            }
            (None, '[' | '(') => depth += 1,
            (None, ']' | ')') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
    }
    None
}

/// The parts between the commas outside of quotation marks and brackets.
pub(crate) fn split_at_commas(text: &str) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some((part, after)) = split_at_end(rest, ',') {
        parts.push(part);
        rest = after;
    }
    parts.push(rest);
    parts
}

/// The content of brackets; none if it is not understood.
fn bracket(text: &str) -> Option<Result<Step, JsonPathError>> {
    if text == "*" {
        return Some(Ok(Step::All));
    }
    if let Some(condition) = text.strip_prefix("?(") {
        return Some(filter(condition.strip_suffix(')')?));
    }
    let parts: Vec<&str> = split_at_commas(text).into_iter().map(str::trim).collect();
    if parts.iter().all(|part| part.starts_with(['\'', '"'])) {
        return Some(parts.into_iter().map(unquoted).collect::<Result<_, _>>().map(Step::Fields));
    }
    if let [slice] = parts.as_slice()
        && slice.contains(':')
    {
        let mut bounds = slice.split(':').map(str::trim);
        let mut bound = || match bounds.next() {
            None | Some("") => Some(None),
            Some(number) => number.parse::<i64>().ok().map(Some),
        };
        let (from, to, step) = (bound()?, bound()?, bound()?);
        let step = usize::try_from(step.unwrap_or(1)).ok().filter(|step| *step > 0)?;
        return bounds.next().is_none().then_some(Ok(Step::Slice { from, to, step }));
    }
    parts.into_iter().map(|part| part.parse().ok()).collect::<Option<_>>().map(|all| Ok(Step::Indexes(all)))
}

fn filter(text: &str) -> Result<Step, JsonPathError> {
    const OPERATORS: [(&str, Comparison); 6] = [
        ("==", Comparison::Equal),
        ("!=", Comparison::NotEqual),
        ("<=", Comparison::AtMost),
        (">=", Comparison::AtLeast),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    for logic in ['&', '|'] {
        if split_at_end(text, logic).is_some() {
            return Err(JsonPathError::Logic(text.to_owned()));
        }
    }
    let at = ['=', '!', '<', '>'].iter().filter_map(|sign| split_at_end(text, *sign)).map(|(left, _)| left.len()).min();
    let Some((left, rest)) = at.and_then(|at| text.split_at_checked(at)) else {
        return Ok(Step::Filter(Filter { left: operand(text)?, condition: None }));
    };
    let found = OPERATORS.iter().find_map(|(sign, comparison)| Some((*comparison, rest.strip_prefix(sign)?)));
    let (comparison, right) =
        found.ok_or_else(|| JsonPathError::NotUnderstood { path: text.to_owned(), what: rest.to_owned() })?;
    Ok(Step::Filter(Filter { left: operand(left)?, condition: Some((comparison, operand(right)?)) }))
}

fn operand(text: &str) -> Result<Operand, JsonPathError> {
    let text = text.trim();
    if text.starts_with(['@', '$', '.']) {
        return Path::parse(text).map(Operand::Path);
    }
    if text.starts_with(['"', '\'']) {
        return Ok(Operand::Literal(unquoted(text)?.into()));
    }
    match serde_json::from_str::<Value>(text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_) | Value::Null)) => Ok(Operand::Literal(value)),
        _ => Err(JsonPathError::NotUnderstood { path: text.to_owned(), what: text.to_owned() }),
    }
}

/// The text between quotation marks, with `\n`, `\t` and the like.
fn unquoted(text: &str) -> Result<String, JsonPathError> {
    let open = || JsonPathError::OpenQuote(text.to_owned());
    let quote = text.chars().next().ok_or_else(open)?;
    let inside = text.get(1..).and_then(|rest| rest.strip_suffix(quote)).ok_or_else(open)?;
    let mut unquoted = String::new();
    let mut letters = inside.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => unquoted.push(match letters.next().ok_or_else(open)? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                other => other,
            }),
            _ if letter == quote => return Err(open()),
            _ => unquoted.push(letter),
        }
    }
    Ok(unquoted)
}
