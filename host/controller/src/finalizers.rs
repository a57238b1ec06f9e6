//! Changes to an object's list of finalizers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

/// The field manager of every write.
pub(crate) const FIELD_MANAGER: &str = "volhost-controller";

/// Whether the object has the finalizer.
pub(crate) fn has(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.finalizers.iter().flatten().any(|one| one == finalizer)
}

/// Makes the merge patch that removes some finalizers and adds others. The API server refuses it if
/// the object has changed since, because the list is replaced as a whole.
pub(crate) fn patch(meta: &ObjectMeta, remove: &[&str], add: &[&str]) -> Value {
    let kept = meta.finalizers.iter().flatten().map(String::as_str).filter(|one| !remove.contains(one));
    let added = add.iter().copied().filter(|one| !has(meta, one));
    let finalizers: Vec<&str> = kept.chain(added).collect();
    json!({ "metadata": { "finalizers": finalizers, "resourceVersion": meta.resource_version, "uid": meta.uid } })
}
