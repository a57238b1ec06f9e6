//! `subPathExpr`: references to a container's variables, `$(NAME)`, replaced by their values as the
//! kubelet replaces them. `$$` is a dollar sign; other text stays as it is.

use std::collections::HashMap;

use thiserror::Error;
use volhost_model::Pod;
use volhost_model::pod_fields::PodFieldError;

use crate::environment::{ContainerEnvironment, VariableValue};

/// A variable without a known value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the variable {name} {problem}")]
pub(super) struct ExpansionError {
    name: String,
    #[source]
    problem: VariableProblem,
}

/// The reason why a variable has no known value. The text follows its name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
enum VariableProblem {
    /// The container does not set it.
    #[error("is not in the container's env")]
    Unset,
    /// The container may set it in `envFrom`.
    #[error("is not in the container's env, and volhost reads no envFrom; give it in env with a value or a fieldRef")]
    EnvFrom,
    /// Its value comes from an object that volhost does not read for paths.
    #[error("comes from {0}, which volhost does not read for paths; give it a value or a fieldRef")]
    ValueFrom(&'static str),
    /// Its value is a field of the pod's status.
    #[error("comes from the field {0}, which volhost does not know")]
    Status(String),
    /// Its value is a field that a variable cannot have.
    #[error("comes from a fieldRef that cannot be used: {0}")]
    Field(#[source] PodFieldError),
}

/// A variable's value, or why it is not known.
type Value = Result<String, VariableProblem>;

/// Expands `expression` for a container with this environment, of `pod` on the node of this name.
///
/// # Errors
/// The first variable without a known value.
pub(super) fn expand(
    expression: &str,
    environment: &ContainerEnvironment,
    pod: &Pod,
    node_name: &str,
) -> Result<String, ExpansionError> {
    let values = values(environment, pod, node_name);
    replace(expression, &|name| {
        let problem = match values.get(name) {
            Some(Ok(value)) => return Ok(Some(value.clone())),
            Some(Err(problem)) => problem.clone(),
            None if environment.has_more => VariableProblem::EnvFrom,
            None => VariableProblem::Unset,
        };
        Err(ExpansionError { name: name.to_owned(), problem })
    })
}

fn values<'a>(environment: &'a ContainerEnvironment, pod: &Pod, node_name: &str) -> HashMap<&'a str, Value> {
    let mut values: HashMap<&str, Value> = HashMap::new();
    for variable in &environment.variables {
        let value = match &variable.value {
            // A reference to no earlier variable stays as it is written.
            VariableValue::Text(text) => replace(text, &|name| values.get(name).cloned().transpose()),
            VariableValue::Field(path) => field(path, pod, node_name),
            VariableValue::ValueFrom(source) => Err(VariableProblem::ValueFrom(source)),
        };
        values.insert(&variable.name, value);
    }
    values
}

/// Returns a field of the pod, if it is known before the containers run.
fn field(path: &str, pod: &Pod, node_name: &str) -> Value {
    match path {
        "spec.nodeName" => Ok(node_name.to_owned()),
        "spec.serviceAccountName" if pod.service_account.is_empty() => Ok("default".to_owned()),
        "spec.serviceAccountName" => Ok(pod.service_account.clone()),
        path if path.starts_with("status.") => Err(VariableProblem::Status(path.to_owned())),
        path => pod.field(path).map_err(VariableProblem::Field),
    }
}

/// Replaces each `$(NAME)` by its `value`; without a value it stays.
fn replace<E>(text: &str, value: &dyn Fn(&str) -> Result<Option<String>, E>) -> Result<String, E> {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        replaced.push_str(before);
        rest = after;
        if let Some(after) = rest.strip_prefix('$') {
            replaced.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match value(name)? {
                Some(value) => replaced.push_str(&value),
                None => replaced.extend(["$(", name, ")"]),
            }
            rest = after;
        } else {
            replaced.push('$');
        }
    }
    replaced.push_str(rest);
    Ok(replaced)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::ContainerVariable;
    use crate::tests::{only_pod, pod};

    fn environment(variables: &[(&str, VariableValue)]) -> ContainerEnvironment {
        let variables =
            variables.iter().map(|(name, value)| ContainerVariable { name: (*name).to_owned(), value: value.clone() });
        ContainerEnvironment { variables: variables.collect(), has_more: false }
    }

    fn text(text: &str) -> VariableValue {
        VariableValue::Text(text.to_owned())
    }

    fn field(path: &str) -> VariableValue {
        VariableValue::Field(path.to_owned())
    }

    fn expanded(expression: &str, environment: &ContainerEnvironment) -> Result<String, String> {
        let expanded = expand(expression, environment, &only_pod(&pod("web")).pod, "node-1");
        expanded.map_err(|error| error.to_string())
    }

    #[test]
    fn references_are_replaced_and_dollars_doubled() {
        let environment = environment(&[("A", text("1")), ("B", text("$(A)-$(LATER)-$$(A)")), ("LATER", text("x"))]);
        for (expression, result) in [
            ("plain", "plain"),
            ("$(A)", "1"),
            ("a/$(A)/$(A)b", "a/1/1b"),
            ("$(B)", "1-$(LATER)-$(A)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$A", "$A"),
            ("$(A", "$(A"),
            ("cost$", "cost$"),
            ("$$", "$"),
        ] {
            assert_eq!(expanded(expression, &environment).as_deref(), Ok(result), "{expression}");
        }
    }

    #[test]
    fn a_later_variable_replaces_an_earlier_one_and_may_refer_to_it() {
        let environment = environment(&[("A", text("1")), ("A", text("$(A)2"))]);
        assert_eq!(expanded("$(A)", &environment).as_deref(), Ok("12"));
    }

    #[test]
    fn fields_of_the_pod_have_values() {
        let environment = environment(&[
            ("NAME", field("metadata.name")),
            ("SPACE", field("metadata.namespace")),
            ("NODE", field("spec.nodeName")),
            ("ACCOUNT", field("spec.serviceAccountName")),
            ("IP", field("status.podIP")),
            ("ODD", field("spec.hostname")),
        ]);
        let all = expanded("$(SPACE)/$(NAME)/$(NODE)/$(ACCOUNT)", &environment);
        assert_eq!(all.as_deref(), Ok("default/web/node-1/default"));
        let unknown = expanded("$(IP)", &environment).unwrap_err();
        assert!(unknown.contains("variable IP") && unknown.contains("status.podIP"), "{unknown}");
        let odd = expanded("$(ODD)", &environment).unwrap_err();
        assert!(odd.contains("variable ODD") && odd.contains("spec.hostname"), "{odd}");
    }

    #[test]
    fn a_variable_without_a_known_value_is_named_with_the_reason() {
        let mut environment =
            environment(&[("KEY", VariableValue::ValueFrom("a config map")), ("FROM_KEY", text("x-$(KEY)"))]);
        assert_eq!(expanded("$(NONE)", &environment).unwrap_err(), "the variable NONE is not in the container's env");
        for expression in ["$(KEY)", "$(FROM_KEY)"] {
            let why = expanded(expression, &environment).unwrap_err();
            assert!(why.contains("comes from a config map"), "{why}");
        }
        assert_eq!(expanded("unused", &environment).as_deref(), Ok("unused"));
        environment.has_more = true;
        assert!(expanded("$(NONE)", &environment).unwrap_err().contains("envFrom"));
    }
}
