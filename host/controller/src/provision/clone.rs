//! A finalizer that keeps a claim while its volume is copied, as external-provisioner has.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};

use super::source::{self, SourceKind};
use crate::caches::Caches;
use crate::finalizers::{self, FIELD_MANAGER};

const FINALIZER: &str = "provisioner.storage.kubernetes.io/cloning-protection";

/// Adds the finalizer to the source.
///
/// # Errors
/// The API server's.
pub(crate) async fn protect(client: &Client, caches: &Caches, namespace: &str, name: &str) -> Result<(), kube::Error> {
    match caches.claim(namespace, name) {
        Some(claim) if !finalizers::has(&claim.metadata, FINALIZER) => {
            change(client, caches, &claim, &[], &[FINALIZER]).await
        }
        _ => Ok(()),
    }
}

/// Removes the finalizer once no claim waits to be a copy of this one.
///
/// # Errors
/// The API server's.
pub(crate) async fn release(
    client: &Client,
    caches: &Caches,
    claim: &PersistentVolumeClaim,
) -> Result<(), kube::Error> {
    let meta = &claim.metadata;
    if !finalizers::has(meta, FINALIZER) {
        return Ok(());
    }
    let is_waiting = |other: &PersistentVolumeClaim| {
        let is_bound = other.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
        let from = source::of(other).filter(|(kind, _)| *kind == SourceKind::Claim).map(|(_, from)| &from.name);
        !is_bound && from == meta.name.as_ref() && other.metadata.namespace == meta.namespace
    };
    if caches.has_claim(is_waiting) { Ok(()) } else { change(client, caches, claim, &[FINALIZER], &[]).await }
}

async fn change(
    client: &Client,
    caches: &Caches,
    claim: &PersistentVolumeClaim,
    remove: &[&str],
    add: &[&str],
) -> Result<(), kube::Error> {
    let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
    let api = Api::<PersistentVolumeClaim>::namespaced(client.clone(), namespace);
    let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let patch = Patch::Merge(finalizers::patch(&claim.metadata, remove, add));
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    caches.wrote_claim(api.patch(name, &parameters, &patch).await?);
    Ok(())
}

/// The source's name, of a claim that is a copy of another claim.
pub(crate) fn source_name(claim: &PersistentVolumeClaim) -> Option<&str> {
    source::of(claim).filter(|(kind, _)| *kind == SourceKind::Claim).map(|(_, from)| from.name.as_str())
}
