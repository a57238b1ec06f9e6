//! Snapshots.

mod types;

pub(crate) use types::{GROUP, VolumeSnapshot, VolumeSnapshotContent, resource};
