//! The custom resources of groups of snapshots (`groupsnapshot.storage.k8s.io/v1beta2`): the fields
//! that are used.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::Resource as _;
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use serde::{Deserialize, Serialize};

use super::lenient::Lenient;
use super::objects::{StatusError, Unreadable, resource};

/// Their API group.
const GROUP_SNAPSHOT_GROUP: &str = "groupsnapshot.storage.k8s.io";
/// Its version.
const GROUP_SNAPSHOT_VERSION: &str = "v1beta2";

/// The names of the definitions of these resources.
pub(super) const GROUP_DEFINITIONS: [&str; 3] = [
    "volumegroupsnapshots.groupsnapshot.storage.k8s.io",
    "volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io",
    "volumegroupsnapshotclasses.groupsnapshot.storage.k8s.io",
];

/// A user's group of snapshots.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct VolumeGroupSnapshot {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Lenient<GroupSpec>,
    pub(crate) status: Lenient<GroupStatus>,
}

/// What a group is bound to.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeGroupSnapshotContent {
    /// The API server wants both with an object that it is to make.
    api_version: String,
    kind: String,
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Lenient<GroupContentSpec>,
    pub(crate) status: Lenient<GroupContentStatus>,
}

/// How groups are taken. Its fields are not in a `spec`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeGroupSnapshotClass {
    pub(crate) metadata: ObjectMeta,
    driver: Lenient<String>,
    deletion_policy: Lenient<String>,
    parameters: Lenient<BTreeMap<String, String>>,
}

resource!(
    VolumeGroupSnapshot,
    "volumegroupsnapshots",
    NamespaceResourceScope,
    GROUP_SNAPSHOT_GROUP,
    GROUP_SNAPSHOT_VERSION
);
resource!(
    VolumeGroupSnapshotContent,
    "volumegroupsnapshotcontents",
    ClusterResourceScope,
    GROUP_SNAPSHOT_GROUP,
    GROUP_SNAPSHOT_VERSION
);
resource!(
    VolumeGroupSnapshotClass,
    "volumegroupsnapshotclasses",
    ClusterResourceScope,
    GROUP_SNAPSHOT_GROUP,
    GROUP_SNAPSHOT_VERSION
);

/// What a user asks for.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GroupSpec {
    pub(crate) source: GroupSource,
    pub(crate) volume_group_snapshot_class_name: Option<String>,
}

/// The claims that snapshots are taken of, or where the snapshots are already: one of both.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GroupSource {
    pub(crate) selector: Option<LabelSelector>,
    pub(crate) volume_group_snapshot_content_name: Option<String>,
}

/// How far a group is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GroupStatus {
    pub(crate) bound_volume_group_snapshot_content_name: Option<String>,
    pub(crate) creation_time: Option<String>,
    pub(crate) ready_to_use: Option<bool>,
    pub(crate) error: Option<StatusError>,
}

/// What the driver is asked for.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GroupContentSpec {
    pub(crate) volume_group_snapshot_ref: ObjectReference,
    pub(crate) driver: String,
    /// `Delete`, or `Retain`: the driver keeps its snapshots.
    pub(crate) deletion_policy: String,
    pub(crate) source: GroupContentSource,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) volume_group_snapshot_class_name: Option<String>,
}

/// The volumes that snapshots are taken of, or the group if it is there already: one of both.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GroupContentSource {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) volume_handles: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) group_snapshot_handles: Option<GroupHandles>,
}

/// A group that the driver has already.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GroupHandles {
    pub(crate) volume_group_snapshot_handle: String,
    pub(crate) volume_snapshot_handles: Vec<String>,
}

/// What the driver has made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GroupContentStatus {
    /// The driver's name for it.
    pub(crate) volume_group_snapshot_handle: Option<String>,
    pub(crate) creation_time: Option<String>,
    pub(crate) ready_to_use: Option<bool>,
    pub(crate) error: Option<StatusError>,
    pub(crate) volume_snapshot_info_list: Option<Vec<SnapshotInfo>>,
}

/// One snapshot of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SnapshotInfo {
    /// The volume that it was taken of.
    pub(crate) volume_handle: String,
    /// The driver's name for it.
    pub(crate) snapshot_handle: String,
    /// Nanoseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) creation_time: Option<i64>,
    pub(crate) ready_to_use: bool,
    /// In bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) restore_size: Option<i64>,
}

impl VolumeGroupSnapshot {
    /// What is asked for, and how far it is.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub(crate) fn read(&self) -> Result<(&GroupSpec, &GroupStatus), Unreadable> {
        let unreadable = |part| move |reason: &str| Unreadable::new("VolumeGroupSnapshot", part, reason);
        Ok((self.spec.get().map_err(unreadable("spec"))?, self.status.get().map_err(unreadable("status"))?))
    }
}

impl VolumeGroupSnapshotContent {
    /// A content that is to be made.
    pub(crate) fn new(metadata: ObjectMeta, spec: GroupContentSpec) -> Self {
        let (api_version, kind) = (Self::api_version(&()).into_owned(), Self::kind(&()).into_owned());
        Self { api_version, kind, metadata, spec: spec.into(), ..Self::default() }
    }

    /// Whether it is the driver's, and has its snapshot of this handle.
    pub(crate) fn has(&self, driver: &str, handle: &str) -> bool {
        let Ok((spec, status)) = self.read() else { return false };
        let given = spec.source.group_snapshot_handles.iter().flat_map(|group| &group.volume_snapshot_handles);
        let made = status.volume_snapshot_info_list.iter().flatten().map(|info| &info.snapshot_handle);
        spec.driver == driver && given.chain(made).any(|found| found == handle)
    }

    /// What is asked for, and what the driver has made.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub(crate) fn read(&self) -> Result<(&GroupContentSpec, &GroupContentStatus), Unreadable> {
        let unreadable = |part| move |reason: &str| Unreadable::new("VolumeGroupSnapshotContent", part, reason);
        Ok((self.spec.get().map_err(unreadable("spec"))?, self.status.get().map_err(unreadable("status"))?))
    }

    /// Whether it has the annotation.
    pub(crate) fn has_annotation(&self, key: &str) -> bool {
        self.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(key))
    }
}

impl VolumeGroupSnapshotClass {
    /// Whose it is: no driver's if that cannot be read.
    pub(crate) fn driver(&self) -> &str {
        self.driver.get().map(String::as_str).unwrap_or_default()
    }

    /// `Delete` or `Retain`.
    pub(crate) fn deletion_policy(&self) -> &str {
        self.deletion_policy.get().map(String::as_str).unwrap_or_default()
    }

    /// For the driver, and names of Secrets.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub(crate) fn parameters(&self) -> Result<&BTreeMap<String, String>, Unreadable> {
        self.parameters.get().map_err(|reason| Unreadable::new("VolumeGroupSnapshotClass", "parameters", reason))
    }
}
