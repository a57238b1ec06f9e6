//! What a user notices of manifests, by topic.

mod bad_input;
mod bindings;
mod examples;
mod pods;
mod random;
mod store;

use std::sync::Arc;

use super::{Object, PodObject, parse};

/// A pod with one disk emptyDir.
pub(crate) fn pod(name: &str) -> String {
    pod_with(name, "emptyDir: {}")
}

/// A pod whose one volume has this source.
pub(crate) fn pod_with(name: &str, source: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers:\n  - name: c\n    volumeMounts:\n    - {{name: v, mountPath: /v}}\n  volumes:\n  - name: v\n    {source}\n"
    )
}

pub(crate) fn objects(text: &str) -> Vec<Arc<Object>> {
    parse("test.yaml", text).unwrap().objects
}

pub(crate) fn only_pod(text: &str) -> Arc<PodObject> {
    Arc::clone(objects(text).first().unwrap().pod().unwrap())
}

pub(crate) fn refusal(text: &str) -> String {
    parse("test.yaml", text).unwrap_err().to_string()
}
