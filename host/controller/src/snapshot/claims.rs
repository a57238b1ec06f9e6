//! A finalizer that keeps a claim while a snapshot is taken of it, as upstream's snapshot-controller
//! has.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Client;

use super::names::{AS_SOURCE, CLAIM_AS_SOURCE};
use crate::caches::Caches;
use crate::snapshots::SnapshotCaches;
use crate::snapshots::VolumeSnapshot;
use crate::{data_source, finalizers};

/// Adds the finalizer to a claim of which a snapshot is taken.
///
/// # Errors
/// The API server's.
pub(super) async fn protect(
    client: &Client,
    caches: &Caches,
    claim: &PersistentVolumeClaim,
) -> Result<(), kube::Error> {
    if finalizers::has(&claim.metadata, CLAIM_AS_SOURCE) {
        return Ok(());
    }
    finalizers::change_claim(client, caches, claim, &[], &[CLAIM_AS_SOURCE]).await
}

/// Removes the finalizer from the claim of this snapshot, which is ready or about to go, unless
/// another snapshot is taken of that claim.
///
/// # Errors
/// The API server's.
pub(super) async fn release(
    client: &Client,
    caches: &Caches,
    known: &SnapshotCaches,
    snapshot: &VolumeSnapshot,
) -> Result<(), kube::Error> {
    let Some(name) = snapshot.claim() else { return Ok(()) };
    let meta = &snapshot.metadata;
    let claim = || caches.claim(meta.namespace.as_deref().unwrap_or_default(), name);
    let is_taken = |other: &VolumeSnapshot| {
        other.claim() == Some(name)
            && other.metadata.namespace == meta.namespace
            && other.metadata.uid != meta.uid
            && !other.is_ready()
            && finalizers::has(&other.metadata, AS_SOURCE)
    };
    let protected = claim().filter(|claim| finalizers::has(&claim.metadata, CLAIM_AS_SOURCE));
    if let Some(claim) = protected.filter(|_| !known.has_snapshot(is_taken)) {
        finalizers::change_claim(client, caches, &claim, &[CLAIM_AS_SOURCE], &[]).await?;
    } else {
        return Ok(());
    }
    // Another snapshot may have been begun meanwhile, and relied on the finalizer.
    match claim().filter(|claim| claim.metadata.deletion_timestamp.is_none() && known.has_snapshot(is_taken)) {
        Some(claim) => protect(client, caches, &claim).await,
        None => Ok(()),
    }
}

/// Whether a volume may be being made of the snapshot.
pub(crate) fn is_restored(caches: &Caches, snapshot: &VolumeSnapshot) -> bool {
    let meta = &snapshot.metadata;
    caches.has_claim(|claim| {
        let is_bound = claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
        !is_bound
            && claim.metadata.namespace == meta.namespace
            && data_source::snapshot_name(claim) == meta.name.as_deref()
    })
}
