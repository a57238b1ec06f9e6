//! The custom resources of snapshots (`snapshot.storage.k8s.io/v1`), and their caches.

mod known;
mod lenient;
mod objects;

pub(crate) use known::{KnownSnapshots, SnapshotCaches, SnapshotHandlers};
pub(crate) use objects::{
    ContentSpec, ContentStatus, DELETE, SnapshotStatus, StatusError, Unreadable, VolumeSnapshot, VolumeSnapshotClass,
    VolumeSnapshotContent,
};
