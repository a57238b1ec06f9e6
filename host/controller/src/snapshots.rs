//! The custom resources of snapshots (`snapshot.storage.k8s.io/v1`): the fields that are read.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::core::{ApiResource, GroupVersionKind, Object};
use serde::{Deserialize, Serialize};

/// A user's snapshot.
pub(crate) type VolumeSnapshot = Object<SnapshotSpec, SnapshotStatus>;
/// What a snapshot is bound to, as a claim is bound to a volume.
pub(crate) type VolumeSnapshotContent = Object<ContentSpec, ContentStatus>;

/// The API group.
pub(crate) const GROUP: &str = "snapshot.storage.k8s.io";

/// The resource of the group with this kind.
pub(crate) fn resource(kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1", kind))
}

/// What a user asks for: nothing of it is read.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct SnapshotSpec {}

/// How far it is.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SnapshotStatus {
    /// Its content.
    pub(crate) bound_volume_snapshot_content_name: Option<String>,
    /// Whether it can be restored.
    pub(crate) ready_to_use: Option<bool>,
    /// The least size of a volume that is made of it.
    pub(crate) restore_size: Option<Quantity>,
}

/// What the driver is asked for.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContentSpec {
    /// The snapshot.
    pub(crate) volume_snapshot_ref: ObjectReference,
    /// Whose it is.
    pub(crate) driver: String,
    /// The mode of the volume that it was made of.
    pub(crate) source_volume_mode: Option<String>,
}

/// What the driver has made.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContentStatus {
    /// The driver's name for it.
    pub(crate) snapshot_handle: Option<String>,
}
