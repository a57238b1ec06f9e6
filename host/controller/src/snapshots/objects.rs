//! The custom resources of snapshots (`snapshot.storage.k8s.io/v1`): the fields that are used.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::lenient::Lenient;
use crate::data_source::SNAPSHOT_GROUP;

/// The version of the group.
const VERSION: &str = "v1";

/// A user's snapshot.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct VolumeSnapshot {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Lenient<SnapshotSpec>,
    pub(crate) status: Lenient<SnapshotStatus>,
}

/// What a snapshot is bound to, as a claim is bound to a volume.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeSnapshotContent {
    /// The API server wants both with an object that it is to make.
    api_version: String,
    kind: String,
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Lenient<ContentSpec>,
    pub(crate) status: Lenient<ContentStatus>,
}

/// How snapshots are taken. Its fields are not in a `spec`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeSnapshotClass {
    pub(crate) metadata: ObjectMeta,
    driver: Lenient<String>,
    deletion_policy: Lenient<String>,
    parameters: Lenient<BTreeMap<String, String>>,
}

/// The names of a custom resource.
macro_rules! resource {
    ($type:ident, $plural:literal, $scope:ty, $group:expr, $version:expr) => {
        impl kube::Resource for $type {
            type DynamicType = ();
            type Scope = $scope;

            fn kind(&(): &()) -> std::borrow::Cow<'_, str> {
                stringify!($type).into()
            }

            fn group(&(): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version(&(): &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn plural(&(): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}
pub(crate) use resource;

resource!(VolumeSnapshot, "volumesnapshots", NamespaceResourceScope, SNAPSHOT_GROUP, VERSION);
resource!(VolumeSnapshotContent, "volumesnapshotcontents", ClusterResourceScope, SNAPSHOT_GROUP, VERSION);
resource!(VolumeSnapshotClass, "volumesnapshotclasses", ClusterResourceScope, SNAPSHOT_GROUP, VERSION);

/// The names of the definitions of these resources.
pub(crate) const DEFINITIONS: [&str; 3] = [
    "volumesnapshots.snapshot.storage.k8s.io",
    "volumesnapshotcontents.snapshot.storage.k8s.io",
    "volumesnapshotclasses.snapshot.storage.k8s.io",
];

/// What a user asks for.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SnapshotSpec {
    pub(crate) source: SnapshotSource,
    pub(crate) volume_snapshot_class_name: Option<String>,
}

/// What a snapshot is taken of, or where it is already: one of both.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SnapshotSource {
    pub(crate) persistent_volume_claim_name: Option<String>,
    pub(crate) volume_snapshot_content_name: Option<String>,
}

/// How far a snapshot is.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SnapshotStatus {
    pub(crate) bound_volume_snapshot_content_name: Option<String>,
    pub(crate) creation_time: Option<String>,
    pub(crate) ready_to_use: Option<bool>,
    /// The least size of a volume that is made of it.
    pub(crate) restore_size: Option<Quantity>,
    pub(crate) error: Option<StatusError>,
    pub(crate) volume_group_snapshot_name: Option<String>,
}

/// Why a snapshot or a content is not ready.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StatusError {
    pub(crate) message: Option<String>,
    pub(crate) time: Option<String>,
}

/// What the driver is asked for.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContentSpec {
    /// The snapshot. Without a UID, the first one of this name is bound to it.
    pub(crate) volume_snapshot_ref: ObjectReference,
    pub(crate) driver: String,
    /// `Delete`, or `Retain`: the driver keeps its snapshot.
    pub(crate) deletion_policy: String,
    pub(crate) source: ContentSource,
    /// The mode of the volume that it was made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source_volume_mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) volume_snapshot_class_name: Option<String>,
}

/// The volume that a snapshot is taken of, or the snapshot if it is there already: one of both.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContentSource {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) volume_handle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) snapshot_handle: Option<String>,
}

/// What the driver has made.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContentStatus {
    /// The driver's name for it.
    pub(crate) snapshot_handle: Option<String>,
    /// Nanoseconds since 1970.
    pub(crate) creation_time: Option<i64>,
    /// In bytes.
    pub(crate) restore_size: Option<i64>,
    pub(crate) ready_to_use: Option<bool>,
    pub(crate) error: Option<StatusError>,
    pub(crate) volume_group_snapshot_handle: Option<String>,
}

/// A part of an object cannot be read.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{part} of the {kind} cannot be read: {reason}")]
pub(crate) struct Unreadable {
    kind: &'static str,
    part: &'static str,
    reason: String,
}

impl VolumeSnapshot {
    /// What is asked for, and how far it is.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub(crate) fn read(&self) -> Result<(&SnapshotSpec, &SnapshotStatus), Unreadable> {
        let unreadable = |part| move |reason: &str| Unreadable::new("VolumeSnapshot", part, reason);
        Ok((self.spec.get().map_err(unreadable("spec"))?, self.status.get().map_err(unreadable("status"))?))
    }

    /// The name of the claim that it is taken of, where that can be read.
    pub(crate) fn claim(&self) -> Option<&str> {
        self.spec.get().ok()?.source.persistent_volume_claim_name.as_deref()
    }

    /// Whether it can be restored.
    pub(crate) fn is_ready(&self) -> bool {
        self.status.get().is_ok_and(|status| status.ready_to_use == Some(true))
    }
}

impl VolumeSnapshotContent {
    /// A content that is to be made.
    pub(crate) fn new(metadata: ObjectMeta, spec: ContentSpec) -> Self {
        let (api_version, kind) = (Self::api_version(&()).into_owned(), Self::kind(&()).into_owned());
        Self { api_version, kind, metadata, spec: spec.into(), ..Self::default() }
    }

    /// What is asked for, and what the driver has made.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub(crate) fn read(&self) -> Result<(&ContentSpec, &ContentStatus), Unreadable> {
        let unreadable = |part| move |reason: &str| Unreadable::new("VolumeSnapshotContent", part, reason);
        Ok((self.spec.get().map_err(unreadable("spec"))?, self.status.get().map_err(unreadable("status"))?))
    }

    /// Whether it has the annotation.
    pub(crate) fn has_annotation(&self, key: &str) -> bool {
        self.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(key))
    }
}

impl VolumeSnapshotClass {
    /// Whose it is: no driver's if that cannot be read.
    pub(crate) fn driver(&self) -> &str {
        self.driver.get().map(String::as_str).unwrap_or_default()
    }

    /// Whether snapshots that are deleted are deleted by the driver, too.
    pub(crate) fn deletes(&self) -> bool {
        self.deletion_policy() == DELETE
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
        self.parameters.get().map_err(|reason| Unreadable::new("VolumeSnapshotClass", "parameters", reason))
    }
}

impl Unreadable {
    /// Why this part of an object of this kind cannot be read.
    pub(super) fn new(kind: &'static str, part: &'static str, reason: &str) -> Self {
        Self { kind, part, reason: reason.to_owned() }
    }
}

/// The deletion policy by which the driver deletes its snapshot.
pub(crate) const DELETE: &str = "Delete";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_any_shape_are_read_as_far_as_they_can_be() {
        let read = |text: &str| serde_json::from_str::<VolumeSnapshot>(text).unwrap();
        let sound = read(
            r#"{"metadata": {"name": "a"}, "spec": {"source": {"persistentVolumeClaimName": "c"}, "new": 1},
                "status": {"restoreSize": 7, "readyToUse": true}}"#,
        );
        assert_eq!(sound.claim(), Some("c"));
        assert_eq!(sound.read().unwrap().1.restore_size, Some(Quantity("7".to_owned())));
        assert!(sound.is_ready());
        let wrong = read(r#"{"metadata": {"name": "a"}, "spec": {"source": "c"}, "status": {"readyToUse": "yes"}}"#);
        assert_eq!((wrong.claim(), wrong.is_ready()), (None, false));
        assert!(wrong.read().unwrap_err().to_string().starts_with("spec of the VolumeSnapshot"));
        let empty = read(r#"{"metadata": {"name": "a"}, "status": null}"#);
        assert!(empty.read().is_ok());
        let class = r#"{"metadata": {"name": "a"}, "driver": 1, "parameters": [1]}"#;
        let class = serde_json::from_str::<VolumeSnapshotClass>(class).unwrap();
        assert_eq!((class.driver(), class.deletes(), class.parameters().is_err()), ("", false, true));
    }

    #[test]
    fn a_content_that_is_to_be_made_says_what_it_is() {
        let content = VolumeSnapshotContent::new(ObjectMeta::default(), ContentSpec::default());
        let content = serde_json::to_value(content).unwrap();
        assert_eq!(
            (&content["apiVersion"], &content["kind"]),
            (&"snapshot.storage.k8s.io/v1".into(), &"VolumeSnapshotContent".into())
        );
        assert_eq!(content["spec"]["source"], serde_json::json!({}));
    }
}
