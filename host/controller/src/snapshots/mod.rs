//! The custom resources of snapshots (`snapshot.storage.k8s.io/v1`) and of groups of them
//! (`groupsnapshot.storage.k8s.io/v1beta2`), and their caches.

mod caches;
mod group_caches;
mod group_objects;
mod known;
mod lenient;
mod objects;

pub(crate) use caches::{SnapshotCaches, SnapshotHandlers};
pub(crate) use group_caches::{GroupCaches, GroupHandlers};
pub(crate) use group_objects::{
    GroupContentSpec, SnapshotInfo, VolumeGroupSnapshot, VolumeGroupSnapshotClass, VolumeGroupSnapshotContent,
};
pub(crate) use known::Known;
pub(crate) use objects::resource;
pub(crate) use objects::{
    ContentSpec, ContentStatus, DELETE, SnapshotStatus, StatusError, Unreadable, VolumeSnapshot, VolumeSnapshotClass,
    VolumeSnapshotContent,
};
