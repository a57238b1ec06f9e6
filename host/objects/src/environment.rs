//! The environment of a container, as far as `subPathExpr` can refer to it.

use k8s_openapi::api::core::v1 as k8s;

/// The variables of one container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerEnvironment {
    /// `env`, in its order: a later one may refer to an earlier one, and replaces one of the same
    /// name.
    pub variables: Vec<ContainerVariable>,
    /// It has `envFrom`: there are variables whose names are not in the manifest.
    pub has_more: bool,
}

/// One variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerVariable {
    /// Its name.
    pub name: String,
    /// Where its value comes from.
    pub value: VariableValue,
}

/// Where a variable's value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VariableValue {
    /// The manifest; may refer to earlier variables.
    Text(String),
    /// A field of the pod, by its path.
    Field(String),
    /// An object that volhost does not read for paths: `a config map`.
    ValueFrom(&'static str),
}

impl ContainerEnvironment {
    /// The environment that `env` and `envFrom` make.
    pub(super) fn new(env: Option<&[k8s::EnvVar]>, env_from: Option<&[k8s::EnvFromSource]>) -> Self {
        let variables =
            env.unwrap_or_default().iter().map(|one| ContainerVariable { name: one.name.clone(), value: value(one) });
        Self { variables: variables.collect(), has_more: env_from.is_some_and(|from| !from.is_empty()) }
    }
}

fn value(one: &k8s::EnvVar) -> VariableValue {
    let Some(from) = &one.value_from else {
        return VariableValue::Text(one.value.clone().unwrap_or_default());
    };
    match from {
        k8s::EnvVarSource { field_ref: Some(field), .. } => VariableValue::Field(field.field_path.clone()),
        k8s::EnvVarSource { resource_field_ref: Some(_), .. } => VariableValue::ValueFrom("resourceFieldRef"),
        k8s::EnvVarSource { config_map_key_ref: Some(_), .. } => VariableValue::ValueFrom("a config map"),
        k8s::EnvVarSource { secret_key_ref: Some(_), .. } => VariableValue::ValueFrom("a secret"),
        _ => VariableValue::ValueFrom("a source that volhost does not know"),
    }
}
