//! What paths select, and what templates print.

use std::cmp::Ordering;

use serde_json::Value;

use super::{Comparison, Filter, Node, Operand, Path, Step, Template};

impl Template {
    /// The text for a document.
    pub(crate) fn render(&self, document: &Value) -> String {
        let mut text = String::new();
        render(&self.nodes, document, document, &mut text);
        text
    }
}

fn render(nodes: &[Node], root: &Value, current: &Value, text: &mut String) {
    for node in nodes {
        match node {
            Node::Text(literal) => text.push_str(literal),
            Node::Path(path) => {
                let shown: Vec<String> = path.select(root, current).into_iter().map(shown).collect();
                text.push_str(&shown.join(" "));
            }
            Node::Range(path, body) => {
                for value in path.select(root, current) {
                    render(body, root, value, text);
                }
            }
        }
    }
}

/// A value as text: strings as they are, everything else as JSON.
pub(crate) fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl Path {
    /// The values that it selects in a document.
    pub(crate) fn all<'a>(&self, document: &'a Value) -> Vec<&'a Value> {
        self.select(document, document)
    }

    fn select<'a>(&self, root: &'a Value, current: &'a Value) -> Vec<&'a Value> {
        let mut values = vec![if self.from_root { root } else { current }];
        for step in &self.steps {
            values = values.into_iter().flat_map(|value| step.select(root, value)).collect();
        }
        values
    }
}

impl Step {
    fn select<'a>(&self, root: &'a Value, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Fields(names) => names.iter().filter_map(|name| value.get(name)).collect(),
            Self::All => children(value),
            Self::Descend => {
                let mut found = vec![value];
                found.extend(children(value).into_iter().flat_map(|child| Self::Descend.select(root, child)));
                found
            }
            Self::Filter(filter) => children(value).into_iter().filter(|child| filter.accepts(root, child)).collect(),
            Self::Indexes(indexes) => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                indexes.iter().filter_map(|index| items.get(position(*index, items.len())?)).collect()
            }
            Self::Slice { from, to, step } => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let bound = |index: i64| position(index, items.len()).unwrap_or(0).min(items.len());
                let from = from.map_or(0, bound);
                let to = to.map_or(items.len(), bound);
                items.get(from..to).unwrap_or_default().iter().step_by(*step).collect()
            }
        }
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    }
}

/// The place that an index names; a negative one counts from the end. None before the beginning.
fn position(index: i64, length: usize) -> Option<usize> {
    match usize::try_from(index) {
        Ok(index) => Some(index),
        Err(_) => length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
    }
}

impl Filter {
    fn accepts(&self, root: &Value, current: &Value) -> bool {
        let left = self.left.values(root, current);
        let Some((comparison, right)) = &self.condition else {
            return !left.is_empty();
        };
        let right = right.values(root, current);
        match (left.first(), right.first()) {
            (Some(left), Some(right)) => comparison.holds(left, right),
            _ => false,
        }
    }
}

impl Operand {
    fn values<'a>(&'a self, root: &'a Value, current: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Path(path) => path.select(root, current),
            Self::Literal(value) => vec![value],
        }
    }
}

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> bool {
        let order = match (left, right) {
            (Value::Number(left), Value::Number(right)) => {
                left.as_f64().zip(right.as_f64()).and_then(|(left, right)| left.partial_cmp(&right))
            }
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            _ => (left == right).then_some(Ordering::Equal),
        };
        match self {
            Self::Equal => order == Some(Ordering::Equal),
            Self::NotEqual => order != Some(Ordering::Equal),
            Self::Less => order == Some(Ordering::Less),
            Self::AtMost => order.is_some_and(Ordering::is_le),
            Self::Greater => order == Some(Ordering::Greater),
            Self::AtLeast => order.is_some_and(Ordering::is_ge),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::JsonPathError;
    use super::*;

    fn list() -> Value {
        json!({"kind": "List", "items": [
            {"metadata": {"name": "web", "labels": {"app.kubernetes.io/name": "x"}}, "status": {"phase": "Mounted", "ready": 2}},
            {"metadata": {"name": "db"}, "status": {"phase": "Mounting", "ready": 0, "volumes": [{"name": "a"}, {"name": "b"}]}},
            {"metadata": {"name": "log"}, "status": {"phase": "Mounted", "ready": 10}},
        ]})
    }

    #[test]
    fn templates_print_what_kubectl_prints() {
        for (template, text) in [
            ("{.items[*].metadata.name}", "web db log"),
            ("{$.items[0].metadata.name}", "web"),
            ("{.items[-1].metadata.name}", "log"),
            ("{.items[0,2].metadata.name}", "web log"),
            ("{.items[0:2].metadata.name}", "web db"),
            ("{.items[1:].metadata.name}", "db log"),
            ("{.items[::2].metadata.name}", "web log"),
            ("{.items[-2:].metadata.name}", "db log"),
            ("{.items[7].metadata.name}", ""),
            ("{.items[0]['metadata','status']['name','phase']}", "web Mounted"),
            ("{.items[0].metadata.labels.app\\.kubernetes\\.io/name}", "x"),
            ("{.items[0].metadata.labels['app.kubernetes.io/name']}", "x"),
            ("{.items[?(@.status.phase==\"Mounted\")].metadata.name}", "web log"),
            ("{.items[?(@.status.phase != 'Mounted')].metadata.name}", "db"),
            ("{.items[?(@.status.ready>2)].metadata.name}", "log"),
            ("{.items[?(@.status.ready<=2)].metadata.name}", "web db"),
            ("{.items[?(@.status.volumes)].metadata.name}", "db"),
            ("{.items[?(@.status.ready>=2)][?(@.status.phase)].metadata.name}", ""),
            ("{..volumes[*].name}", "a b"),
            ("{.items[1]..name}", "db a b"),
            ("{range .items[*]}{.metadata.name}{\"\\t\"}{.status.ready}{'\\n'}{end}", "web\t2\ndb\t0\nlog\t10\n"),
            ("{range .items[*]}{range .status.volumes[*]}{.name}-{$.kind};{end}{end}", "a-List;b-List;"),
            ("names: {.items[*].metadata.name}!", "names: web db log!"),
            ("{.items[0].status}", "{\"phase\":\"Mounted\",\"ready\":2}"),
            ("{.items[*].missing.field}", ""),
            ("{.kind}", "List"),
            ("{kind}", "List"),
            ("{@.kind}", "List"),
        ] {
            let parsed = Template::parse(template).unwrap_or_else(|error| panic!("{template}: {error}"));
            assert_eq!(parsed.render(&list()), text, "{template}");
        }
        assert_eq!(Template::parse("{.}").unwrap().render(&json!(1)), "1");
    }

    #[test]
    fn a_path_may_be_written_without_braces() {
        for text in ["{.items[0].metadata.name}", ".items[0].metadata.name", "items[0].metadata.name"] {
            assert_eq!(Path::relaxed(text).unwrap().all(&list()), [&json!("web")], "{text}");
        }
    }

    #[test]
    fn a_wrong_template_is_refused_with_the_part_that_is_wrong() {
        for (template, said) in [
            ("metadata.name", "write it in braces"),
            ("", "write it in braces"),
            ("{.a", "no closing brace"),
            ("{.a[0}", "no closing brace"),
            ("{.a[x]}", "\"x\" is not understood"),
            ("{.a[0:1:0]}", "\"0:1:0\" is not understood"),
            ("{.a[?(@.b=1)]}", "\"=1\" is not understood"),
            ("{.a[?(@.b==c)]}", "\"c\" is not understood"),
            ("{.a[?(@.b && @.c)]}", "no && and no ||"),
            ("{.a b}", "\"a b\" is not understood"),
            ("{.a...b}", "is not understood"),
            ("{range .items[*]}{.a}", "no {end}"),
            ("{.a}{end}", "no {range}"),
            ("{\"a}", "no closing brace"),
            ("{}", "is not understood"),
        ] {
            let error = Template::parse(template).expect_err(template);
            assert!(error.to_string().contains(said), "{template}: {error}");
        }
        assert!(matches!(Path::relaxed("a[0"), Err(JsonPathError::OpenBracket(_))));
    }
}
