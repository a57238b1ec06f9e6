//! A finalizer that keeps a claim while its volume is copied, as external-provisioner has.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Client;

use crate::caches::Caches;
use crate::data_source;
use crate::finalizers;

const FINALIZER: &str = "provisioner.storage.kubernetes.io/cloning-protection";

/// Adds the finalizer to the source.
///
/// # Errors
/// The API server's.
pub(crate) async fn protect(client: &Client, caches: &Caches, namespace: &str, name: &str) -> Result<(), kube::Error> {
    match caches.claim(namespace, name) {
        Some(claim) if !finalizers::has(&claim.metadata, FINALIZER) => {
            finalizers::change_claim(client, caches, &claim, &[], &[FINALIZER]).await
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
        !is_bound
            && data_source::claim_name(other) == meta.name.as_deref()
            && other.metadata.namespace == meta.namespace
    };
    if caches.has_claim(is_waiting) {
        return Ok(());
    }
    finalizers::change_claim(client, caches, claim, &[FINALIZER], &[]).await
}
