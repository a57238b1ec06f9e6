//! What a claim's volume is to be a copy of, by the claim.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, TypedLocalObjectReference};

/// The API group of snapshots.
pub(crate) const SNAPSHOT_GROUP: &str = "snapshot.storage.k8s.io";

/// What kind of source a claim has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceKind {
    /// Another claim.
    Claim,
    /// A snapshot.
    Snapshot,
    /// A populator makes the volume.
    Populator,
}

/// The source of a claim, if any.
pub(crate) fn of(claim: &PersistentVolumeClaim) -> Option<(SourceKind, &TypedLocalObjectReference)> {
    let source = claim.spec.as_ref()?.data_source.as_ref();
    if let Some(source) = source {
        let group = source.api_group.as_deref().unwrap_or_default();
        let kind = match (group, source.kind.as_str()) {
            ("", "PersistentVolumeClaim") => SourceKind::Claim,
            (SNAPSHOT_GROUP, "VolumeSnapshot") => SourceKind::Snapshot,
            _ => SourceKind::Populator,
        };
        return Some((kind, source));
    }
    None
}

/// Whether a populator is to make the claim's volume, by either field.
pub(crate) fn is_for_populator(claim: &PersistentVolumeClaim) -> bool {
    let by_reference = claim.spec.as_ref().and_then(|spec| spec.data_source_ref.as_ref()).is_some();
    match of(claim) {
        Some((kind, _)) => kind == SourceKind::Populator,
        None => by_reference,
    }
}

/// The name of the claim that the claim is to be a copy of, if any.
pub(crate) fn claim_name(claim: &PersistentVolumeClaim) -> Option<&str> {
    name(claim, SourceKind::Claim)
}

/// The name of the snapshot that the claim is to be a copy of, if any.
pub(crate) fn snapshot_name(claim: &PersistentVolumeClaim) -> Option<&str> {
    name(claim, SourceKind::Snapshot)
}

fn name(claim: &PersistentVolumeClaim, wanted: SourceKind) -> Option<&str> {
    of(claim).filter(|(kind, _)| *kind == wanted).map(|(_, from)| from.name.as_str())
}
