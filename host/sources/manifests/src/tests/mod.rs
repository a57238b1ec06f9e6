//! Tests of a manifest folder as a user notices it, by topic.

mod folder;
mod random;
mod watching;

use std::fs;
use std::path::Path;

use volhost_objects::Changes;

/// A pod with one disk emptyDir.
fn pod(name: &str) -> String {
    pod_with(name, "emptyDir: {}")
}

/// A pod whose one volume has this source.
fn pod_with(name: &str, source: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers:\n  - name: c\n    volumeMounts:\n    - {{name: v, mountPath: /v}}\n  volumes:\n  - name: v\n    {source}\n"
    )
}

fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).unwrap();
}

fn upserted(changes: &Changes) -> Vec<String> {
    changes.upserted.iter().map(|object| object.key.to_string()).collect()
}

fn removed(changes: &Changes) -> Vec<String> {
    changes.removed.iter().map(|object| object.key.to_string()).collect()
}

fn problems(changes: &Changes) -> String {
    changes.problems.iter().flat_map(|problem| problem.messages.clone()).collect::<Vec<_>>().join("\n")
}
