//! What is to be done about a group and its content, decided from what is known and without any
//! write.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::failure::GroupError;
use super::names::{self, BEING_CREATED, BEING_DELETED, BOUND, CONTENT_BOUND};
use crate::finalizers;
use crate::snapshots::{DELETE, VolumeGroupSnapshot, VolumeGroupSnapshotContent};

/// The name of a group's content, whether that exists or not.
pub(super) fn content_name(group: &VolumeGroupSnapshot) -> String {
    let status = group.status.get().ok();
    let bound = status.and_then(|status| status.bound_volume_group_snapshot_content_name.clone());
    let source = || group.spec.get().ok().and_then(|spec| spec.source.volume_group_snapshot_content_name.clone());
    let of_claims = || names::content(group.metadata.uid.as_deref().unwrap_or_default());
    bound.filter(|name| !name.is_empty()).or_else(source).unwrap_or_else(of_claims)
}

/// What is to be done about a group of this driver.
#[derive(Debug, PartialEq)]
pub(super) enum GroupStep {
    /// Nothing, until something changes.
    Nothing,
    /// It is to be kept until its content is gone.
    Finalizer,
    /// It is to be taken of these claims.
    Content { selector: LabelSelector },
    /// Its content is to have its UID.
    Binding,
    /// It has its content: its snapshots are to exist, and it is to show its status.
    Members,
    /// It is deleted: its snapshots are to go, and then its content, if that `deletes`.
    End { deletes: bool },
    /// It is deleted, and nothing has to keep it any more.
    Release,
}

/// Decides about a group with this content, which has [`content_name`].
///
/// # Errors
/// What the group's user has to change.
pub(super) fn of_group(
    group: &VolumeGroupSnapshot,
    content: Option<&VolumeGroupSnapshotContent>,
) -> Result<GroupStep, GroupError> {
    let has_finalizer = finalizers::has(&group.metadata, BOUND);
    if group.metadata.deletion_timestamp.is_some() {
        let Some(content) = content else {
            return Ok(if has_finalizer { GroupStep::Release } else { GroupStep::Nothing });
        };
        // One that cannot be read may be for this one.
        let (spec, _) = content.read()?;
        return Ok(match (has_finalizer, is_for(group, content)?) {
            (false, _) => GroupStep::Nothing,
            (true, false) => GroupStep::Release,
            (true, true) => GroupStep::End { deletes: spec.deletion_policy == DELETE },
        });
    }
    let (spec, status) = group.read()?;
    let selector = match (&spec.source.selector, &spec.source.volume_group_snapshot_content_name) {
        (Some(selector), None) => Some(selector),
        (None, Some(_)) => None,
        _ => return Err(GroupError::Sources),
    };
    if !has_finalizer {
        return Ok(GroupStep::Finalizer);
    }
    let is_bound = status.bound_volume_group_snapshot_content_name.as_ref().is_some_and(|name| !name.is_empty());
    let Some(content) = content else {
        return match selector {
            // One that was bound has been taken at its time: another one would have other data.
            Some(selector) if !is_bound => Ok(GroupStep::Content { selector: selector.clone() }),
            _ => Err(GroupError::NoContent),
        };
    };
    let (content_spec, _) = content.read()?;
    let to = &content_spec.volume_group_snapshot_ref;
    let is_unbound = to.uid.as_deref().unwrap_or_default().is_empty();
    let is_of_name = to.name == group.metadata.name && to.namespace == group.metadata.namespace;
    if is_for(group, content)? {
        Ok(GroupStep::Members)
    } else if selector.is_none() && is_unbound && is_of_name {
        Ok(GroupStep::Binding)
    } else {
        Err(GroupError::OtherGroup(content.metadata.name.clone().unwrap_or_default()))
    }
}

/// Whether the content is bound to this group.
fn is_for(group: &VolumeGroupSnapshot, content: &VolumeGroupSnapshotContent) -> Result<bool, GroupError> {
    let (spec, _) = content.read()?;
    let to = &spec.volume_group_snapshot_ref;
    Ok(to.name == group.metadata.name
        && to.namespace == group.metadata.namespace
        && to.uid.is_some()
        && to.uid == group.metadata.uid)
}

/// What is to be done about a content of this driver.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ContentStep {
    /// Nothing, until something changes.
    Nothing,
    /// It has to wait for the driver once it is deleted.
    Finalizer,
    /// The driver is to take the group, or to say how far it is.
    Creation,
    /// The driver is to say whether the group of this handle is there.
    Check { handle: String, snapshots: Vec<String> },
    /// The annotation of a call is left over.
    NoAnnotation,
    /// The driver is to delete the group of this handle.
    Deletion { handle: String, snapshots: Vec<String> },
    /// It need not wait for the driver any more.
    Release,
}

/// Decides about a content of `driver`. `has_group`: the group that it is for exists.
///
/// # Errors
/// The content is no content that anything can be done with.
pub(super) fn of_content(
    driver: &str,
    content: &VolumeGroupSnapshotContent,
    has_group: bool,
) -> Result<ContentStep, GroupError> {
    let (spec, status) = content.read()?;
    if spec.driver != driver {
        return Ok(ContentStep::Nothing);
    }
    let is_bound = spec.volume_group_snapshot_ref.uid.as_ref().is_some_and(|uid| !uid.is_empty());
    let is_protected = finalizers::has(&content.metadata, CONTENT_BOUND);
    let may_be_created = content.has_annotation(BEING_CREATED);
    let shown = status.volume_group_snapshot_handle.clone();
    let is_ready = status.ready_to_use == Some(true) && shown.is_some();
    let source = &spec.source;
    let snapshots = || {
        let infos = status.volume_snapshot_info_list.iter().flatten();
        let mut handles: Vec<String> = infos.map(|info| info.snapshot_handle.clone()).collect();
        if let (true, Some(known)) = (handles.is_empty(), &source.group_snapshot_handles) {
            handles.clone_from(&known.volume_snapshot_handles);
        }
        handles
    };
    if content.metadata.deletion_timestamp.is_some() {
        let known = source.group_snapshot_handles.as_ref().map(|known| known.volume_group_snapshot_handle.clone());
        return Ok(if !is_protected || (has_group && !content.has_annotation(BEING_DELETED)) {
            ContentStep::Nothing
        } else if spec.deletion_policy != DELETE {
            ContentStep::Release
        } else if let Some(handle) = shown.or(known) {
            ContentStep::Deletion { handle, snapshots: snapshots() }
        } else if may_be_created && is_bound && source.volume_handles.is_some() {
            // By its name, the driver finds what it may have taken.
            ContentStep::Creation
        } else {
            ContentStep::Release
        });
    }
    match (&source.volume_handles, &source.group_snapshot_handles) {
        (Some(_), None) if !is_bound => Err(GroupError::Invalid(
            "a content with volumeHandles has to name the UID of its VolumeGroupSnapshot; it is made by a controller",
        )),
        (Some(_), None) if !is_protected => Ok(ContentStep::Finalizer),
        (Some(_), None) if !is_ready => Ok(ContentStep::Creation),
        (Some(_), None) if may_be_created => Ok(ContentStep::NoAnnotation),
        (Some(_), None) => Ok(ContentStep::Nothing),
        (None, Some(_)) if is_bound && !is_protected => Ok(ContentStep::Finalizer),
        (None, Some(known)) if !is_ready => Ok(ContentStep::Check {
            handle: known.volume_group_snapshot_handle.clone(),
            snapshots: known.volume_snapshot_handles.clone(),
        }),
        (None, Some(_)) => Ok(ContentStep::Nothing),
        _ => Err(GroupError::Invalid("exactly one of volumeHandles and groupSnapshotHandles has to be given")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const DELETED: &str = "2026-01-01T00:00:00Z";

    fn group(source: Value, metadata: Value, status: Value) -> VolumeGroupSnapshot {
        let mut all = json!({ "name": "g", "namespace": "n", "uid": "u", "finalizers": [BOUND] });
        all.as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        serde_json::from_value(json!({ "metadata": all, "spec": { "source": source }, "status": status })).unwrap()
    }

    fn selected() -> Value {
        json!({ "selector": { "matchLabels": { "app": "db" } } })
    }

    fn content(source: Value, metadata: Value, status: Value, uid: &str) -> VolumeGroupSnapshotContent {
        let spec = json!({
            "driver": "ours",
            "deletionPolicy": "Delete",
            "source": source,
            "volumeGroupSnapshotRef": { "name": "g", "namespace": "n", "uid": uid },
        });
        serde_json::from_value(json!({ "metadata": metadata, "spec": spec, "status": status })).unwrap()
    }

    fn volumes() -> Value {
        json!({ "volumeHandles": ["v", "w"] })
    }

    fn of(group: &VolumeGroupSnapshot, content: Option<&VolumeGroupSnapshotContent>) -> Result<GroupStep, String> {
        of_group(group, content).map_err(|error| error.to_string())
    }

    #[test]
    fn a_group_is_taken_once() {
        let new = group(selected(), json!({}), Value::Null);
        assert_eq!(content_name(&new), "groupsnapcontent-u");
        assert!(matches!(of(&new, None), Ok(GroupStep::Content { .. })));
        assert_eq!(of(&group(selected(), json!({ "finalizers": [] }), Value::Null), None), Ok(GroupStep::Finalizer));
        let bound = group(selected(), json!({}), json!({ "boundVolumeGroupSnapshotContentName": "c" }));
        assert!(of(&bound, None).unwrap_err().contains("missing"));
        let own = content(volumes(), json!({}), Value::Null, "u");
        assert_eq!(of(&new, Some(&own)), Ok(GroupStep::Members));
        let other = content(volumes(), json!({}), Value::Null, "other");
        assert!(of(&new, Some(&other)).is_err());
        let unbound = content(volumes(), json!({}), Value::Null, "");
        assert!(of(&new, Some(&unbound)).is_err());
        let static_one = group(json!({ "volumeGroupSnapshotContentName": "c" }), json!({}), Value::Null);
        assert_eq!(content_name(&static_one), "c");
        assert_eq!(of(&static_one, Some(&unbound)), Ok(GroupStep::Binding));
        assert!(of(&group(json!({}), json!({}), Value::Null), None).is_err());
    }

    #[test]
    fn a_deleted_group_goes_after_its_snapshots() {
        let deleted = group(selected(), json!({ "deletionTimestamp": DELETED }), Value::Null);
        let own = content(volumes(), json!({}), Value::Null, "u");
        assert_eq!(of(&deleted, Some(&own)), Ok(GroupStep::End { deletes: true }));
        assert_eq!(of(&deleted, None), Ok(GroupStep::Release));
        let other = content(volumes(), json!({}), Value::Null, "other");
        assert_eq!(of(&deleted, Some(&other)), Ok(GroupStep::Release));
        let free = group(selected(), json!({ "deletionTimestamp": DELETED, "finalizers": [] }), Value::Null);
        assert_eq!(of(&free, Some(&own)), Ok(GroupStep::Nothing));
    }

    fn step(content: &VolumeGroupSnapshotContent, has_group: bool) -> ContentStep {
        of_content("ours", content, has_group).unwrap()
    }

    #[test]
    fn the_driver_is_asked_until_the_group_is_ready_and_again_when_its_answer_was_lost() {
        let protected = json!({ "finalizers": [CONTENT_BOUND] });
        let ready = json!({ "volumeGroupSnapshotHandle": "h", "readyToUse": true,
            "volumeSnapshotInfoList": [{ "volumeHandle": "v", "snapshotHandle": "s" }] });
        assert_eq!(step(&content(volumes(), json!({}), Value::Null, "u"), true), ContentStep::Finalizer);
        assert_eq!(step(&content(volumes(), protected.clone(), Value::Null, "u"), true), ContentStep::Creation);
        assert_eq!(step(&content(volumes(), protected, ready.clone(), "u"), true), ContentStep::Nothing);
        let deleted = |annotations: &[&str]| {
            let annotations: serde_json::Map<_, _> =
                annotations.iter().map(|key| ((*key).to_owned(), json!("yes"))).collect();
            json!({ "finalizers": [CONTENT_BOUND], "deletionTimestamp": DELETED, "annotations": annotations })
        };
        let of = |annotations: &[&str], status: &Value, has_group| {
            step(&content(volumes(), deleted(annotations), status.clone(), "u"), has_group)
        };
        let deletion = ContentStep::Deletion { handle: "h".to_owned(), snapshots: vec!["s".to_owned()] };
        assert_eq!(of(&[], &ready, true), ContentStep::Nothing);
        assert_eq!(of(&[BEING_DELETED], &ready, true), deletion);
        assert_eq!(of(&[], &ready, false), deletion);
        assert_eq!(of(&[BEING_CREATED], &Value::Null, false), ContentStep::Creation);
        assert_eq!(of(&[], &Value::Null, false), ContentStep::Release);
        let other = content(volumes(), json!({}), Value::Null, "u");
        assert_eq!(of_content("other", &other, true).unwrap(), ContentStep::Nothing);
        assert!(of_content("ours", &content(volumes(), json!({}), Value::Null, ""), true).is_err());
        assert!(of_content("ours", &content(json!({}), json!({}), Value::Null, "u"), true).is_err());
    }
}
