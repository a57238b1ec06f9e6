//! What is to be done about a content, decided from what is known and without any write.

use super::failure::ContentError;
use super::names::{BEING_CREATED, BEING_DELETED, CONTENT_BOUND, GROUP_HANDLE};
use crate::finalizers;
use crate::snapshots::{DELETE, VolumeSnapshotContent};

/// What is to be done about a content of this driver.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Nothing, until something changes.
    Nothing,
    /// It has to wait for the driver once it is deleted.
    Finalizer,
    /// The driver is to take the snapshot, or to say how far it is.
    Creation,
    /// The driver is to say whether the snapshot of this handle is there.
    Check { handle: String },
    /// The annotation of a call is left over.
    NoAnnotation,
    /// The driver is to delete the snapshot of this handle.
    Deletion { handle: String },
    /// It need not wait for the driver any more.
    Release,
}

/// Decides about a content of `driver`. `has_snapshot`: the snapshot that it is for exists.
/// `is_grouped`: a group has the snapshot of this handle, which not every driver says; it is asked for
/// a deleted content alone.
///
/// # Errors
/// The content is no content that anything can be done with.
pub(super) fn wanted(
    driver: &str,
    content: &VolumeSnapshotContent,
    has_snapshot: bool,
    is_grouped: impl FnOnce(&str) -> bool,
) -> Result<Wanted, ContentError> {
    let (spec, status) = content.read()?;
    let is_in_group = status.volume_group_snapshot_handle.is_some() || content.has_annotation(GROUP_HANDLE);
    if spec.driver != driver {
        return Ok(Wanted::Nothing);
    }
    let is_bound = spec.volume_snapshot_ref.uid.as_ref().is_some_and(|uid| !uid.is_empty());
    let is_protected = finalizers::has(&content.metadata, CONTENT_BOUND);
    let may_be_created = content.has_annotation(BEING_CREATED);
    let is_ready = status.ready_to_use == Some(true) && status.snapshot_handle.is_some();
    let (taken_of, known) = (spec.source.volume_handle.as_ref(), spec.source.snapshot_handle.as_ref());
    if content.metadata.deletion_timestamp.is_some() {
        let handle = status.snapshot_handle.as_ref().or(known);
        return Ok(if !is_protected || (has_snapshot && !content.has_annotation(BEING_DELETED)) {
            Wanted::Nothing
        } else if spec.deletion_policy != DELETE || is_in_group || handle.is_some_and(|handle| is_grouped(handle)) {
            // The driver deletes the snapshots of a group together.
            Wanted::Release
        } else if let Some(handle) = handle {
            Wanted::Deletion { handle: handle.clone() }
        } else if may_be_created && is_bound && taken_of.is_some() {
            // By its name, the driver finds what it may have taken.
            Wanted::Creation
        } else {
            Wanted::Release
        });
    }
    match (taken_of, known) {
        // It was made with the group, as it is.
        (Some(_), None) if is_in_group => Ok(Wanted::Nothing),
        (Some(_), None) if !is_bound => Err(ContentError::Invalid(
            "a content with a VolumeHandle has to name the UID of its VolumeSnapshot; it is made by a controller",
        )),
        (Some(_), None) if !is_protected => Ok(Wanted::Finalizer),
        (Some(_), None) if !is_ready => Ok(Wanted::Creation),
        (Some(_), None) if may_be_created => Ok(Wanted::NoAnnotation),
        (Some(_), None) => Ok(Wanted::Nothing),
        (None, Some(_)) if is_bound && !is_protected => Ok(Wanted::Finalizer),
        (None, Some(handle)) if !is_ready => Ok(Wanted::Check { handle: handle.clone() }),
        (None, Some(_)) => Ok(Wanted::Nothing),
        _ => Err(ContentError::Invalid("Exactly one of VolumeHandle and SnapshotHandle should be specified")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const DELETED: &str = "2026-01-01T00:00:00Z";

    fn content(source: Value, metadata: Value, status: Value) -> VolumeSnapshotContent {
        let spec = json!({
            "driver": "ours",
            "deletionPolicy": "Delete",
            "source": source,
            "volumeSnapshotRef": { "name": "s", "namespace": "n", "uid": "u" },
        });
        serde_json::from_value(json!({ "metadata": metadata, "spec": spec, "status": status })).unwrap()
    }

    fn of(content: &VolumeSnapshotContent, has_snapshot: bool) -> Wanted {
        wanted("ours", content, has_snapshot, |_| false).unwrap()
    }

    fn volume() -> Value {
        json!({ "volumeHandle": "v" })
    }

    fn handle() -> Value {
        json!({ "snapshotHandle": "h" })
    }

    fn metadata(annotations: &[&str], is_deleted: bool) -> Value {
        let annotations: serde_json::Map<_, _> =
            annotations.iter().map(|key| ((*key).to_owned(), json!("yes"))).collect();
        let deleted = if is_deleted { json!(DELETED) } else { Value::Null };
        json!({ "annotations": annotations, "finalizers": [CONTENT_BOUND], "deletionTimestamp": deleted })
    }

    #[test]
    fn the_driver_is_asked_until_the_snapshot_is_ready() {
        assert_eq!(of(&content(volume(), json!({}), Value::Null), true), Wanted::Finalizer);
        let new = metadata(&[BEING_CREATED], false);
        assert_eq!(of(&content(volume(), new.clone(), Value::Null), true), Wanted::Creation);
        let cut = json!({ "snapshotHandle": "h", "readyToUse": false });
        assert_eq!(of(&content(volume(), new.clone(), cut), true), Wanted::Creation);
        let ready = json!({ "snapshotHandle": "h", "readyToUse": true });
        assert_eq!(of(&content(volume(), new, ready.clone()), true), Wanted::NoAnnotation);
        assert_eq!(of(&content(volume(), metadata(&[], false), ready.clone()), true), Wanted::Nothing);
        let found = Wanted::Check { handle: "h".to_owned() };
        assert_eq!(of(&content(handle(), metadata(&[], false), Value::Null), true), found);
        assert_eq!(of(&content(handle(), json!({}), Value::Null), true), Wanted::Finalizer);
        assert_eq!(of(&content(handle(), metadata(&[], false), ready), true), Wanted::Nothing);
    }

    #[test]
    fn a_deleted_content_waits_for_its_snapshot_and_then_for_the_driver() {
        let gone = Wanted::Deletion { handle: "h".to_owned() };
        let made = json!({ "snapshotHandle": "h" });
        let marked = metadata(&[BEING_DELETED], true);
        assert_eq!(of(&content(volume(), metadata(&[], true), made.clone()), true), Wanted::Nothing);
        assert_eq!(of(&content(volume(), metadata(&[], true), made.clone()), false), gone);
        assert_eq!(of(&content(volume(), marked.clone(), made.clone()), true), gone);
        assert_eq!(of(&content(handle(), marked.clone(), Value::Null), true), gone);
        assert_eq!(of(&content(volume(), marked.clone(), Value::Null), true), Wanted::Release);
        // The driver may have it.
        let unknown = metadata(&[BEING_DELETED, BEING_CREATED], true);
        assert_eq!(of(&content(volume(), unknown, Value::Null), true), Wanted::Creation);
        let free = json!({ "deletionTimestamp": DELETED });
        assert_eq!(of(&content(volume(), free, made.clone()), false), Wanted::Nothing);
        let mut kept = serde_json::to_value(content(volume(), marked, made)).unwrap();
        kept["spec"]["deletionPolicy"] = json!("Retain");
        assert_eq!(of(&serde_json::from_value(kept).unwrap(), true), Wanted::Release);
    }

    #[test]
    fn contents_of_other_drivers_and_of_groups_are_left_alone() {
        let new = content(volume(), json!({}), Value::Null);
        assert_eq!(wanted("other", &new, true, |_| false).unwrap(), Wanted::Nothing);
        let grouped = content(volume(), metadata(&[GROUP_HANDLE], false), Value::Null);
        assert_eq!(of(&grouped, true), Wanted::Nothing);
        // Its user has made it for a snapshot that is in a group, as the driver answers.
        let of_group = |metadata, is_ready: bool| {
            let status = json!({ "snapshotHandle": "h", "volumeGroupSnapshotHandle": "g", "readyToUse": is_ready });
            of(&content(handle(), metadata, status), false)
        };
        assert_eq!(of_group(metadata(&[], false), false), Wanted::Check { handle: "h".to_owned() });
        assert_eq!(of_group(metadata(&[], false), true), Wanted::Nothing);
        assert_eq!(of_group(metadata(&[], true), true), Wanted::Release);
        // As the content of a group says.
        let deleted = content(handle(), metadata(&[], true), Value::Null);
        assert_eq!(wanted("ours", &deleted, false, |handle| handle == "h").unwrap(), Wanted::Release);
    }

    #[test]
    fn a_content_without_one_source_is_refused() {
        assert!(wanted("ours", &content(json!({}), json!({}), Value::Null), true, |_| false).is_err());
        let both = json!({ "volumeHandle": "v", "snapshotHandle": "h" });
        assert!(wanted("ours", &content(both, json!({}), Value::Null), true, |_| false).is_err());
        let mut unbound = serde_json::to_value(content(volume(), json!({}), Value::Null)).unwrap();
        unbound["spec"]["volumeSnapshotRef"]["uid"] = Value::Null;
        assert!(wanted("ours", &serde_json::from_value(unbound).unwrap(), true, |_| false).is_err());
    }
}
