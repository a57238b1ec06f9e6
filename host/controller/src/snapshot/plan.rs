//! What is to be done about a snapshot, decided from what is known and without any write.

use kube::Resource as _;

use super::failure::SnapshotError;
use super::names::{self, AS_SOURCE, BEING_DELETED, BOUND, IN_GROUP};
use crate::finalizers;
use crate::snapshots::{ContentSpec, DELETE, VolumeSnapshot, VolumeSnapshotContent};

/// Whose a snapshot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// This driver's.
    Ours,
    /// Another driver's, or another program's.
    Other,
    /// No object that is there says it.
    Unknown,
}

/// Decides whose a snapshot is from the drivers of its content, its class and its claim's volume,
/// where these are known. The class is not asked for a snapshot that has a content.
pub(super) fn owner(
    driver: &str,
    snapshot: &VolumeSnapshot,
    content: Option<&str>,
    class: Option<&str>,
    volume: Option<&str>,
) -> Owner {
    if is_in_group(snapshot) {
        return Owner::Other;
    }
    match content.or(class).or(volume) {
        Some(found) if found == driver => Owner::Ours,
        Some(_) => Owner::Other,
        None => Owner::Unknown,
    }
}

/// Whether it was made with a group. One that its user has made of a snapshot in a group, and that
/// the group owns, is as any other.
fn is_in_group(snapshot: &VolumeSnapshot) -> bool {
    let by_status = snapshot.status.get().is_ok_and(|status| status.volume_group_snapshot_name.is_some());
    by_status || finalizers::has(&snapshot.metadata, IN_GROUP)
}

/// The name of a snapshot's content, whether that exists or not.
pub(crate) fn content_name(snapshot: &VolumeSnapshot) -> String {
    let bound = snapshot.status.get().ok().and_then(|status| status.bound_volume_snapshot_content_name.clone());
    let source = || snapshot.spec.get().ok().and_then(|spec| spec.source.volume_snapshot_content_name.clone());
    let of_claim = || names::content(snapshot.metadata.uid.as_deref().unwrap_or_default());
    bound.filter(|name| !name.is_empty()).or_else(source).unwrap_or_else(of_claim)
}

/// What is to be done about a snapshot of this driver.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Nothing, until something changes.
    Nothing,
    /// It is to be taken of this claim.
    Content { claim: String },
    /// Its content is to have its UID.
    Binding,
    /// It has its content, and is to show its status. `deletes`: the content goes with it.
    Status { deletes: bool },
    /// It is deleted: its content is to be marked so, and deleted.
    ContentEnd { deletes: bool },
    /// It is deleted, and nothing has to keep it any more.
    Release,
}

/// Decides about a snapshot with this content, which has [`content_name`]. `is_restored`: a volume
/// may be being made of it; it is asked for a deleted snapshot alone.
///
/// # Errors
/// What the snapshot's user has to change, or has to wait for.
pub(super) fn wanted(
    snapshot: &VolumeSnapshot,
    content: Option<&VolumeSnapshotContent>,
    is_restored: impl FnOnce() -> bool,
) -> Result<Wanted, SnapshotError> {
    if snapshot.metadata.deletion_timestamp.is_some() {
        return end(snapshot, content, is_restored);
    }
    let (spec, status) = snapshot.read()?;
    let source = &spec.source;
    let claim = match (&source.persistent_volume_claim_name, &source.volume_snapshot_content_name) {
        (Some(claim), None) => Some(claim),
        (None, Some(_)) => None,
        _ => return Err(SnapshotError::Sources),
    };
    let is_bound = status.bound_volume_snapshot_content_name.as_ref().is_some_and(|name| !name.is_empty());
    let Some(content) = content else {
        return match claim {
            // One that was bound has been taken at its time: another one would have other data.
            Some(claim) if !is_bound && status.creation_time.is_none() => Ok(Wanted::Content { claim: claim.clone() }),
            _ => Err(SnapshotError::NoContent),
        };
    };
    let (spec, _) = content.read()?;
    let name = || content.metadata.name.clone().unwrap_or_default();
    let kind = |has, wanted| SnapshotError::Kind { content: name(), has, wanted };
    match claim {
        Some(_) if spec.source.volume_handle.is_none() => {
            return Err(kind("pre-provisioned", "dynamically provisioned"));
        }
        None if spec.source.snapshot_handle.is_none() => {
            return Err(kind("dynamically provisioned", "pre-provisioned"));
        }
        _ => {}
    }
    let deletes = spec.deletion_policy == DELETE;
    match reference(snapshot, spec) {
        Reference::This => Ok(Wanted::Status { deletes }),
        // That of a snapshot of a claim is written with the UID.
        Reference::Name if claim.is_none() => Ok(Wanted::Binding),
        _ if is_bound => Err(SnapshotError::Unbound),
        _ => Err(SnapshotError::OtherSnapshot(name())),
    }
}

fn end(
    snapshot: &VolumeSnapshot,
    content: Option<&VolumeSnapshotContent>,
    is_restored: impl FnOnce() -> bool,
) -> Result<Wanted, SnapshotError> {
    if ![AS_SOURCE, BOUND].into_iter().any(|one| finalizers::has(&snapshot.metadata, one)) {
        return Ok(Wanted::Nothing);
    }
    let Some(content) = content else { return Ok(Wanted::Release) };
    // One that cannot be read may be for this one.
    let (spec, _) = content.read()?;
    if reference(snapshot, spec) != Reference::This {
        return Ok(Wanted::Release);
    }
    if is_restored() {
        return Err(SnapshotError::Restored);
    }
    let is_marked = content.has_annotation(BEING_DELETED);
    let is_deleted = content.meta().deletion_timestamp.is_some();
    Ok(match spec.deletion_policy.as_str() {
        DELETE if is_marked && is_deleted => Wanted::Nothing,
        DELETE => Wanted::ContentEnd { deletes: true },
        _ if is_marked => Wanted::Release,
        _ => Wanted::ContentEnd { deletes: false },
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Reference {
    This,
    /// Any one of its name.
    Name,
    Another,
}

fn reference(snapshot: &VolumeSnapshot, content: &ContentSpec) -> Reference {
    let (meta, to) = (&snapshot.metadata, &content.volume_snapshot_ref);
    if to.name != meta.name || to.namespace != meta.namespace {
        return Reference::Another;
    }
    match to.uid.as_deref().unwrap_or_default() {
        "" => Reference::Name,
        uid if meta.uid.as_deref() == Some(uid) => Reference::This,
        _ => Reference::Another,
    }
}

/// The finalizers that a snapshot that is not deleted lacks.
pub(super) fn missing_finalizers(snapshot: &VolumeSnapshot, deletes: bool) -> Vec<&'static str> {
    let wanted = [Some(AS_SOURCE), deletes.then_some(BOUND)];
    wanted.into_iter().flatten().filter(|one| !finalizers::has(&snapshot.metadata, one)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A snapshot of the claim `c`.
    fn snapshot(more: Value) -> VolumeSnapshot {
        let mut snapshot = json!({
            "metadata": { "name": "s", "namespace": "n", "uid": "u" },
            "spec": { "source": { "persistentVolumeClaimName": "c" } },
        });
        merge(&mut snapshot, more);
        serde_json::from_value(snapshot).unwrap()
    }

    fn content(more: Value) -> VolumeSnapshotContent {
        let mut content = json!({
            "metadata": { "name": "snapcontent-u" },
            "spec": {
                "driver": "ours",
                "deletionPolicy": "Delete",
                "source": { "volumeHandle": "v" },
                "volumeSnapshotRef": { "name": "s", "namespace": "n", "uid": "u" },
            },
        });
        merge(&mut content, more);
        serde_json::from_value(content).unwrap()
    }

    fn merge(into: &mut Value, more: Value) {
        match (into, more) {
            (Value::Object(into), Value::Object(more)) => {
                for (key, value) in more {
                    match into.get_mut(&key) {
                        Some(found) => merge(found, value),
                        None => drop(into.insert(key, value)),
                    }
                }
            }
            (into, more) => *into = more,
        }
    }

    fn of(snapshot: &VolumeSnapshot, content: Option<&VolumeSnapshotContent>) -> Result<Wanted, &'static str> {
        wanted(snapshot, content, || false).map_err(|error| error.reason().unwrap())
    }

    const DELETED: &str = "2026-01-01T00:00:00Z";

    fn deleted() -> VolumeSnapshot {
        snapshot(json!({ "metadata": { "deletionTimestamp": DELETED, "finalizers": [AS_SOURCE, BOUND] } }))
    }

    #[test]
    fn a_snapshot_of_a_claim_gets_a_content_once() {
        let new = snapshot(json!({}));
        assert_eq!(content_name(&new), "snapcontent-u");
        assert_eq!(of(&new, None), Ok(Wanted::Content { claim: "c".to_owned() }));
        assert_eq!(of(&new, Some(&content(json!({})))), Ok(Wanted::Status { deletes: true }));
        let kept = content(json!({ "spec": { "deletionPolicy": "Retain" } }));
        assert_eq!(of(&new, Some(&kept)), Ok(Wanted::Status { deletes: false }));
        // Its data is that of its time, and is not taken again.
        for status in [json!({ "boundVolumeSnapshotContentName": "b" }), json!({ "creationTime": DELETED })] {
            assert_eq!(of(&snapshot(json!({ "status": status })), None), Err("SnapshotContentMissing"));
        }
    }

    #[test]
    fn references_are_checked_both_ways() {
        let new = snapshot(json!({}));
        let other = content(json!({ "spec": { "volumeSnapshotRef": { "uid": "other" } } }));
        assert_eq!(of(&new, Some(&other)), Err("SnapshotContentMisbound"));
        let bound = snapshot(json!({ "status": { "boundVolumeSnapshotContentName": "snapcontent-u" } }));
        assert_eq!(of(&bound, Some(&other)), Err("SnapshotMisbound"));
        let unbound = content(json!({ "spec": { "volumeSnapshotRef": { "uid": "" } } }));
        assert_eq!(of(&new, Some(&unbound)), Err("SnapshotContentMisbound"));
        let made = json!({ "spec": { "source": { "volumeHandle": null, "snapshotHandle": "h" } } });
        assert_eq!(of(&new, Some(&content(made.clone()))), Err("SnapshotContentMismatch"));

        let source = json!({ "persistentVolumeClaimName": null, "volumeSnapshotContentName": "there" });
        let static_one = snapshot(json!({ "spec": { "source": source } }));
        assert_eq!(content_name(&static_one), "there");
        assert_eq!(of(&static_one, None), Err("SnapshotContentMissing"));
        assert_eq!(of(&static_one, Some(&content(json!({})))), Err("SnapshotContentMismatch"));
        let mut unbound = made.clone();
        merge(&mut unbound, json!({ "spec": { "volumeSnapshotRef": { "uid": null } } }));
        assert_eq!(of(&static_one, Some(&content(unbound))), Ok(Wanted::Binding));
        assert_eq!(of(&static_one, Some(&content(made))), Ok(Wanted::Status { deletes: true }));
        let both = snapshot(json!({ "spec": { "source": { "volumeSnapshotContentName": "there" } } }));
        assert_eq!(of(&both, None), Err("SnapshotValidationError"));
        let unreadable = snapshot(json!({ "spec": 7 }));
        assert_eq!(of(&unreadable, None), Err("SnapshotValidationError"));
    }

    #[test]
    fn a_deleted_snapshot_goes_after_its_content_unless_that_is_kept() {
        let marked = json!({ "metadata": { "annotations": { BEING_DELETED: "yes" }, "deletionTimestamp": DELETED } });
        assert_eq!(of(&deleted(), Some(&content(json!({})))), Ok(Wanted::ContentEnd { deletes: true }));
        assert_eq!(of(&deleted(), Some(&content(marked.clone()))), Ok(Wanted::Nothing));
        let kept = json!({ "spec": { "deletionPolicy": "Retain" } });
        assert_eq!(of(&deleted(), Some(&content(kept.clone()))), Ok(Wanted::ContentEnd { deletes: false }));
        let mut kept_and_marked = kept;
        merge(&mut kept_and_marked, json!({ "metadata": { "annotations": { BEING_DELETED: "yes" } } }));
        assert_eq!(of(&deleted(), Some(&content(kept_and_marked))), Ok(Wanted::Release));
        assert_eq!(of(&deleted(), None), Ok(Wanted::Release));
        let other = content(json!({ "spec": { "volumeSnapshotRef": { "uid": "other" } } }));
        assert_eq!(of(&deleted(), Some(&other)), Ok(Wanted::Release));
        // May be its own.
        let unreadable = content(json!({ "spec": 7 }));
        assert_eq!(of(&deleted(), Some(&unreadable)), Err("SnapshotValidationError"));
        let restored = wanted(&deleted(), Some(&content(json!({}))), || true).unwrap_err();
        assert_eq!(restored.reason(), Some("SnapshotDeletePending"));
        let free = snapshot(json!({ "metadata": { "deletionTimestamp": DELETED, "finalizers": ["other"] } }));
        assert_eq!(of(&free, Some(&content(json!({})))), Ok(Wanted::Nothing));
        let unreadable = snapshot(json!({
            "metadata": { "deletionTimestamp": DELETED, "finalizers": [AS_SOURCE] }, "spec": 7, "status": 7,
        }));
        assert_eq!(of(&unreadable, Some(&content(marked))), Ok(Wanted::Nothing));
    }

    #[test]
    fn a_snapshot_is_its_content_s_driver_s() {
        let new = snapshot(json!({}));
        assert_eq!(owner("ours", &new, Some("ours"), Some("other"), None), Owner::Ours);
        assert_eq!(owner("ours", &new, None, Some("other"), Some("ours")), Owner::Other);
        assert_eq!(owner("ours", &new, None, None, Some("ours")), Owner::Ours);
        assert_eq!(owner("ours", &new, None, None, None), Owner::Unknown);
        let grouped = snapshot(json!({ "status": { "volumeGroupSnapshotName": "g" } }));
        assert_eq!(owner("ours", &grouped, Some("ours"), None, None), Owner::Other);
    }

    #[test]
    fn a_snapshot_that_is_kept_needs_one_finalizer() {
        assert_eq!(missing_finalizers(&snapshot(json!({})), true), [AS_SOURCE, BOUND]);
        assert_eq!(missing_finalizers(&snapshot(json!({})), false), [AS_SOURCE]);
        assert!(missing_finalizers(&deleted(), true).is_empty());
    }
}
