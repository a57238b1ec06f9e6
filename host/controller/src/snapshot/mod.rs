//! VolumeSnapshots and their contents, as upstream's snapshot-controller and csi-snapshotter do.
//!
//! ```text
//!  VolumeSnapshot --Binder--> VolumeSnapshotContent --Snapshotter--> CreateSnapshot
//!       ^                        |        ^                             |
//!       '------- status ---------'        '---------- status -----------'
//!
//!  deleted --Binder--> content marked and deleted --Snapshotter--> DeleteSnapshot
//!       ^                                                             |
//!       '------------- finalizers removed: both are gone -------------'
//! ```
//!
//! # Guarantees
//! - The content, with its finalizer, exists before the driver is asked: what the driver may have
//!   taken is found by a name of the snapshot's UID, also by the next leader.
//! - A snapshot whose content is lost is not taken again: it would have other data.
//! - The driver's snapshot is deleted only when the deletion of its content was asked for, its
//!   policy is `Delete`, and no snapshot that is not deleted is bound to it.
//! - Names, finalizers and annotations are upstream's: either goes on with what the other began.
//!
//! Snapshots of other drivers are left alone, and those of groups: see [`crate::group`].

mod binder;
mod claims;
mod class;
mod content_plan;
mod failure;
mod names;
mod plan;
mod snapshotter;
mod status;

pub(crate) use binder::Binder;
pub(crate) use claims::is_restored;
pub(crate) use names::{BEING_CREATED, GROUP_HANDLE, IN_GROUP};
pub(crate) use plan::content_name;
pub(crate) use snapshotter::{Snapshotter, snapshot_of};

/// How many steps of one object are done at once. More than any object needs: a bound for objects
/// that do not stay as they were written.
const STEPS: usize = 8;
