//! VolumeGroupSnapshots and their contents: snapshots of several volumes at one moment, as
//! upstream's snapshot-controller and csi-snapshotter take them.
//!
//! ```text
//!  VolumeGroupSnapshot --Grouper--> VolumeGroupSnapshotContent --GroupSnapshotter--> CreateVolumeGroupSnapshot
//!       ^                               |      ^                                            |
//!       '--- status <--- a VolumeSnapshot      '------------------- status ----------------'
//!                        and its content
//!                        for each volume
//!
//!  deleted --Grouper--> snapshots, then content deleted --GroupSnapshotter--> DeleteVolumeGroupSnapshot
//! ```
//!
//! # Guarantees
//! - The content, with its finalizer, exists before the driver is asked: what the driver may have
//!   taken is found by a name of the group's UID, also by the next leader.
//! - A group whose content is lost is not taken again: it would have other data.
//! - A group that is deleted stays while a volume is being made of one of its snapshots.
//! - Names, finalizers and annotations are upstream's.

mod content;
mod failure;
mod grouper;
mod members;
mod names;
mod plan;
mod select;

use kube::api::PatchParams;

pub(crate) use content::{GroupSnapshotter, group_of};
pub(crate) use grouper::Grouper;
pub(crate) use names::BEING_CREATED as GROUP_BEING_CREATED;

use crate::finalizers::FIELD_MANAGER;

/// How many steps of one object are done at once. More than any object needs: a bound for objects
/// that do not stay as they were written.
const STEPS: usize = 8;

/// What follows a step.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Nothing until something changes.
    Done,
    /// The next step, from what was written.
    Again,
    /// The same after a while: the driver is not ready.
    Later,
}

/// Of every merge patch.
fn parameters() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

/// A time as Kubernetes writes it.
fn time_text(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The patch of a status that shows this error. None if it is shown already.
fn failed_status(shown: Option<&crate::snapshots::StatusError>, text: &str) -> Option<serde_json::Value> {
    let is_shown = shown.and_then(|error| error.message.as_deref()) == Some(text);
    let error = || serde_json::json!({ "message": text, "time": time_text(jiff::Timestamp::now()) });
    (!is_shown).then(|| serde_json::json!({ "error": error(), "readyToUse": false }))
}
