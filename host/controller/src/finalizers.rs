//! Finalizers, and changes to an object's list of them.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::caches::Caches;

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

/// Removes some finalizers of a claim and adds others.
///
/// # Errors
/// The API server's.
pub(crate) async fn change_claim(
    client: &Client,
    caches: &Caches,
    claim: &PersistentVolumeClaim,
    remove: &[&str],
    add: &[&str],
) -> Result<(), kube::Error> {
    let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
    let api = Api::<PersistentVolumeClaim>::namespaced(client.clone(), namespace);
    let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let patch = Patch::Merge(patch(&claim.metadata, remove, add));
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    caches.wrote_claim(api.patch(name, &parameters, &patch).await?);
    Ok(())
}

/// The finalizer of attachments of this driver and of their volumes.
pub(crate) fn of_attachments(driver: &str) -> String {
    let name: String =
        driver.chars().map(|one| if one.is_ascii_alphanumeric() || one == '-' { one } else { '-' }).collect();
    // A finalizer's name may not end with a dash.
    let end = if name.ends_with('-') { "X" } else { "" };
    format!("external-attacher/{name}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_finalizer_is_that_of_the_upstream_attacher() {
        assert_eq!(of_attachments("loop.volhost.io"), "external-attacher/loop-volhost-io");
        assert_eq!(of_attachments("a.b_"), "external-attacher/a-b-X");
    }
}
