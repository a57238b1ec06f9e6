//! VolumeSnapshot and VolumeSnapshotContent, checked: snapshots that exist, as what a new volume
//! begins with.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use volhost_model::names::check_dns_subdomain;

use super::error::FieldError;

/// The API group of both.
pub const SNAPSHOT_GROUP: &str = "snapshot.storage.k8s.io";

/// A VolumeSnapshot as it is written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VolumeSnapshot {
    #[serde(default)]
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    spec: SnapshotSpec,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SnapshotSpec {
    source: SnapshotSource,
    #[serde(skip_serializing_if = "Option::is_none")]
    volume_snapshot_class_name: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SnapshotSource {
    #[serde(skip_serializing_if = "Option::is_none")]
    volume_snapshot_content_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    persistent_volume_claim_name: Option<String>,
}

/// A VolumeSnapshotContent as it is written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VolumeSnapshotContent {
    #[serde(default)]
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    spec: ContentSpec,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContentSpec {
    driver: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    deletion_policy: Option<String>,
    source: ContentSource,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_volume_mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    volume_snapshot_class_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    volume_snapshot_ref: Option<serde_json::Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContentSource {
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot_handle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    volume_handle: Option<String>,
}

/// A VolumeSnapshot of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotObject {
    /// `spec.source.volumeSnapshotContentName`; none for a snapshot that is to be made of a claim.
    pub content: Option<String>,
}

/// A VolumeSnapshotContent of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotContentObject {
    /// `spec.driver`.
    pub driver: String,
    /// `spec.source.snapshotHandle`; none for a snapshot that is to be made of a volume.
    pub handle: Option<String>,
}

/// Checks a VolumeSnapshot.
pub(super) fn check(typed: VolumeSnapshot) -> Result<SnapshotObject, FieldError> {
    let source = typed.spec.source;
    if source.volume_snapshot_content_name.is_none() && source.persistent_volume_claim_name.is_none() {
        let why = "names nothing; write volumeSnapshotContentName or persistentVolumeClaimName";
        return Err(FieldError::other("spec.source", why));
    }
    if let Some(content) = &source.volume_snapshot_content_name {
        check_dns_subdomain("VolumeSnapshotContent name", content)
            .map_err(|error| FieldError::new("spec.source.volumeSnapshotContentName", error))?;
    }
    Ok(SnapshotObject { content: source.volume_snapshot_content_name })
}

/// Checks a VolumeSnapshotContent.
pub(super) fn check_content(typed: VolumeSnapshotContent) -> Result<SnapshotContentObject, FieldError> {
    let ContentSpec { driver, source, .. } = typed.spec;
    if driver.is_empty() {
        return Err(FieldError::other("spec.driver", "is missing; name the CSI driver that has the snapshot"));
    }
    if source.snapshot_handle.is_none() && source.volume_handle.is_none() {
        return Err(FieldError::other("spec.source", "names nothing; write snapshotHandle or volumeHandle"));
    }
    Ok(SnapshotContentObject { driver, handle: source.snapshot_handle.filter(|handle| !handle.is_empty()) })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{objects, refusal};

    const HEAD: &str = "apiVersion: snapshot.storage.k8s.io/v1\nmetadata: { name: s }\n";

    #[test]
    fn a_snapshot_names_a_content_and_that_a_handle() {
        for (kind, spec) in [
            ("VolumeSnapshot", "source: { volumeSnapshotContentName: c }"),
            ("VolumeSnapshot", "source: { persistentVolumeClaimName: c }"),
            (
                "VolumeSnapshotContent",
                "driver: d, deletionPolicy: Retain, source: { snapshotHandle: h }, volumeSnapshotRef: { name: s }",
            ),
        ] {
            assert_eq!(objects(&format!("{HEAD}kind: {kind}\nspec: {{ {spec} }}\n")).len(), 1);
        }
        for (kind, spec, words) in [
            ("VolumeSnapshot", "source: {}", "spec.source"),
            ("VolumeSnapshot", "source: { volumeSnapshotContentName: A_b }", "spec.source.volumeSnapshotContentName"),
            ("VolumeSnapshotContent", "source: { snapshotHandle: h }", "spec.driver"),
            ("VolumeSnapshotContent", "driver: d", "spec.source"),
        ] {
            let refused = refusal(&format!("{HEAD}kind: {kind}\nspec: {{ {spec} }}\n"));
            assert!(refused.contains(words), "{refused}");
        }
    }
}
