//! An object of a source.

use std::fmt;
use std::sync::Arc;

use super::claim::ClaimObject;
use super::key::{ObjectKey, Origin};
use super::persistent_volume::PersistentVolumeObject;
use super::pod::PodObject;
use super::snapshot::{SnapshotContentObject, SnapshotObject};
use super::storage_class::StorageClassObject;
use super::volume_attachment::VolumeAttachmentObject;
use k8s_openapi::api::certificates::v1beta1::ClusterTrustBundle;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::api::storage::v1::CSIDriver;

/// A checked object.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// Its key.
    pub key: ObjectKey,
    /// Its place in the manifest.
    pub origin: Origin,
    /// `metadata.uid`, or the one derived from the key.
    pub uid: String,
    /// The uid was given, not derived.
    pub uid_given: bool,
    /// `metadata.resourceVersion`: an API server has given it to this content. Empty for an object
    /// that comes from elsewhere.
    pub resource_version: String,
    /// Its content.
    pub content: ObjectContent,
}

/// The content of an object, as far as volhost uses it.
#[derive(Clone, PartialEq)]
pub enum ObjectContent {
    /// A pod.
    Pod(Arc<PodObject>),
    /// A PersistentVolume.
    PersistentVolume(Arc<PersistentVolumeObject>),
    /// A PersistentVolumeClaim.
    Claim(Arc<ClaimObject>),
    /// A config map.
    ConfigMap(Arc<ConfigMap>),
    /// A secret. Never printed.
    Secret(Arc<Secret>),
    /// A service account.
    ServiceAccount(Arc<ServiceAccount>),
    /// Certificates to trust.
    ClusterTrustBundle(Arc<ClusterTrustBundle>),
    /// The requirements of a CSI driver.
    CsiDriver(Arc<CSIDriver>),
    /// An attachment by a controller.
    VolumeAttachment(Arc<VolumeAttachmentObject>),
    /// A class of volumes to make.
    StorageClass(Arc<StorageClassObject>),
    /// A snapshot, by its content's name.
    VolumeSnapshot(Arc<SnapshotObject>),
    /// A snapshot that exists, by its handle.
    VolumeSnapshotContent(Arc<SnapshotContentObject>),
}

impl fmt::Debug for ObjectContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(pod) => pod.fmt(f),
            Self::PersistentVolume(volume) => volume.fmt(f),
            Self::Claim(claim) => claim.fmt(f),
            Self::ConfigMap(map) => map.fmt(f),
            Self::Secret(_) => f.write_str("Secret(not shown)"),
            Self::ServiceAccount(account) => account.fmt(f),
            Self::ClusterTrustBundle(bundle) => bundle.fmt(f),
            Self::CsiDriver(driver) => driver.fmt(f),
            Self::VolumeAttachment(attachment) => attachment.fmt(f),
            Self::StorageClass(class) => class.fmt(f),
            Self::VolumeSnapshot(snapshot) => snapshot.fmt(f),
            Self::VolumeSnapshotContent(content) => content.fmt(f),
        }
    }
}

impl Object {
    /// Returns the pod, if the object is one.
    pub fn pod(&self) -> Option<&Arc<PodObject>> {
        match &self.content {
            ObjectContent::Pod(pod) => Some(pod),
            _ => None,
        }
    }
}
