//! Patches of the statuses of snapshots and contents: none where nothing would change.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use volhost_cluster_client::shortened;
use volhost_proto::csi::Snapshot;

use crate::snapshots::{ContentStatus, SnapshotStatus, StatusError};
use volhost_cluster_client::quantity;

/// What a patch of a snapshot's status says for the first time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// The driver has taken it.
    pub(super) is_created: bool,
    /// It can be restored.
    pub(super) is_ready: bool,
}

/// Makes a snapshot's status that of its content.
pub(super) fn of_snapshot(
    has: &SnapshotStatus,
    content_name: &str,
    content: &ContentStatus,
) -> Option<(Value, Progress)> {
    let mut patch = Map::new();
    let mut progress = Progress::default();
    if has.bound_volume_snapshot_content_name.as_deref().is_none_or(str::is_empty) {
        patch.insert("boundVolumeSnapshotContentName".to_owned(), json!(content_name));
    }
    if let (None, Some(time)) = (&has.creation_time, content.creation_time.and_then(time_of)) {
        patch.insert("creationTime".to_owned(), json!(time));
        progress.is_created = true;
    }
    let is_ready = content.ready_to_use.unwrap_or_default();
    if has.ready_to_use != Some(is_ready) {
        patch.insert("readyToUse".to_owned(), json!(is_ready));
        progress.is_ready = is_ready;
    }
    let size = has.restore_size.as_ref().and_then(|size| volhost_model::quantity::parse_bytes(&size.0).ok());
    let wanted = content.restore_size.and_then(|size| u64::try_from(size).ok());
    if let (None | Some(0), Some(wanted)) = (size, wanted)
        && size != Some(wanted)
    {
        patch.insert("restoreSize".to_owned(), json!(quantity::of_bytes(wanted)));
    }
    let error = content.error.as_ref().filter(|_| !is_ready);
    if has.error.as_ref() != error {
        patch.insert("error".to_owned(), json!(error));
    }
    (!patch.is_empty()).then_some((Value::Object(patch), progress))
}

/// Shows the driver's answer in a content's status.
pub(super) fn of_content(has: &ContentStatus, snapshot: &Snapshot, now: Timestamp) -> Option<Value> {
    let mut patch = Map::new();
    if has.snapshot_handle.is_none() {
        patch.insert("snapshotHandle".to_owned(), json!(snapshot.snapshot_id));
    }
    if has.volume_group_snapshot_handle.is_none() && !snapshot.group_snapshot_id.is_empty() {
        patch.insert("volumeGroupSnapshotHandle".to_owned(), json!(snapshot.group_snapshot_id));
    }
    if has.ready_to_use != Some(snapshot.ready_to_use) {
        patch.insert("readyToUse".to_owned(), json!(snapshot.ready_to_use));
    }
    if has.creation_time.is_none() {
        let taken = snapshot.creation_time.and_then(|time| {
            let seconds = time.seconds.checked_mul(1_000_000_000)?;
            seconds.checked_add(time.nanos.into())
        });
        let now = i64::try_from(now.as_nanosecond()).unwrap_or(i64::MAX);
        patch.insert("creationTime".to_owned(), json!(taken.unwrap_or(now)));
    }
    if has.restore_size.is_none() && snapshot.size_bytes > 0 {
        patch.insert("restoreSize".to_owned(), json!(snapshot.size_bytes));
    }
    if has.error.is_some() {
        patch.insert("error".to_owned(), Value::Null);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Shows an error.
pub(super) fn failed(has: Option<&StatusError>, message: &str, now: Timestamp) -> Option<Value> {
    let message = shortened(message);
    let is_shown = has.and_then(|error| error.message.as_deref()) == Some(message);
    let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    (!is_shown).then(|| json!({ "error": { "message": message, "time": time }, "readyToUse": false }))
}

fn time_of(nanoseconds: i64) -> Option<String> {
    let time = Timestamp::from_nanosecond(nanoseconds.into()).ok()?;
    Some(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(is_ready: bool) -> Snapshot {
        Snapshot {
            snapshot_id: "one".to_owned(),
            size_bytes: 16 << 20,
            ready_to_use: is_ready,
            creation_time: Some(Default::default()),
            ..Snapshot::default()
        }
    }

    fn content(patch: Value) -> ContentStatus {
        serde_json::from_value(patch).unwrap()
    }

    #[test]
    fn a_content_shows_the_driver_s_answer_once() {
        let now = Timestamp::UNIX_EPOCH;
        let first = of_content(&ContentStatus::default(), &answer(false), now).unwrap();
        assert_eq!(
            first,
            json!({ "snapshotHandle": "one", "readyToUse": false, "creationTime": 0, "restoreSize": 16 << 20 })
        );
        let shown = content(first);
        assert_eq!(of_content(&shown, &answer(false), now), None);
        assert_eq!(of_content(&shown, &answer(true), now), Some(json!({ "readyToUse": true })));
        let grouped = Snapshot { group_snapshot_id: "g".to_owned(), ..answer(false) };
        let handle = json!({ "volumeGroupSnapshotHandle": "g" });
        assert_eq!(of_content(&shown, &grouped, now), Some(handle));
        let failed = ContentStatus { error: Some(StatusError::default()), ..shown };
        assert_eq!(of_content(&failed, &answer(true), now), Some(json!({ "readyToUse": true, "error": null })));
    }

    #[test]
    fn a_snapshot_follows_its_content() {
        let status = |patch: Value| serde_json::from_value::<SnapshotStatus>(patch).unwrap();
        let (first, progress) = of_snapshot(&SnapshotStatus::default(), "c", &ContentStatus::default()).unwrap();
        assert_eq!(first, json!({ "boundVolumeSnapshotContentName": "c", "readyToUse": false }));
        assert_eq!(progress, Progress::default());
        let bound = status(first);
        assert!(of_snapshot(&bound, "c", &ContentStatus::default()).is_none());
        let made = json!({ "readyToUse": true, "creationTime": 1_000_000_000, "restoreSize": 3 << 20 });
        let (second, progress) = of_snapshot(&bound, "c", &content(made.clone())).unwrap();
        assert_eq!(second, json!({ "readyToUse": true, "creationTime": "1970-01-01T00:00:01Z", "restoreSize": "3Mi" }));
        assert_eq!(progress, Progress { is_created: true, is_ready: true });
        let error = StatusError { message: Some("no".to_owned()), time: None };
        let failed = ContentStatus { error: Some(error.clone()), ..ContentStatus::default() };
        let (third, _) = of_snapshot(&bound, "c", &failed).unwrap();
        assert_eq!(third, json!({ "error": { "message": "no", "time": null } }));
        let shown = SnapshotStatus { error: Some(error), ..bound };
        assert!(of_snapshot(&shown, "c", &failed).is_none());
        let (fourth, _) = of_snapshot(&shown, "c", &content(made)).unwrap();
        assert_eq!(fourth.get("error"), Some(&Value::Null));
    }

    #[test]
    fn an_error_is_written_once_and_is_short() {
        let long = "x".repeat(1 << 20);
        let patch = failed(None, &long, Timestamp::UNIX_EPOCH).unwrap();
        assert!(patch.to_string().len() < 2048);
        let shown: StatusError = serde_json::from_value(patch.get("error").unwrap().clone()).unwrap();
        assert_eq!(failed(Some(&shown), &long, Timestamp::UNIX_EPOCH), None);
        assert!(failed(Some(&shown), "another", Timestamp::UNIX_EPOCH).is_some());
    }
}
