//! An object of a source, and what names it.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::certificates::v1beta1::ClusterTrustBundle;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::api::storage::v1::CSIDriver;
use sha2::{Digest as _, Sha256};

use volhost_model::text::lower_hex;

use super::claim::ClaimObject;
use super::persistent_volume::PersistentVolumeObject;
use super::pod::PodObject;
use super::snapshot::{SnapshotContentObject, SnapshotObject};
use super::storage_class::StorageClassObject;
use super::volume_attachment::VolumeAttachmentObject;

/// The kinds of object that volhost uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `Pod`
    Pod,
    /// `PersistentVolume`
    PersistentVolume,
    /// `PersistentVolumeClaim`
    PersistentVolumeClaim,
    /// `ConfigMap`
    ConfigMap,
    /// `Secret`
    Secret,
    /// `ServiceAccount`
    ServiceAccount,
    /// `ClusterTrustBundle`
    ClusterTrustBundle,
    /// `CSIDriver`
    CsiDriver,
    /// `VolumeAttachment`
    VolumeAttachment,
    /// `StorageClass`
    StorageClass,
    /// `VolumeSnapshot`
    VolumeSnapshot,
    /// `VolumeSnapshotContent`
    VolumeSnapshotContent,
}

impl Kind {
    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "Pod" => Self::Pod,
            "PersistentVolume" => Self::PersistentVolume,
            "PersistentVolumeClaim" => Self::PersistentVolumeClaim,
            "ConfigMap" => Self::ConfigMap,
            "Secret" => Self::Secret,
            "ServiceAccount" => Self::ServiceAccount,
            "ClusterTrustBundle" => Self::ClusterTrustBundle,
            "CSIDriver" => Self::CsiDriver,
            "VolumeAttachment" => Self::VolumeAttachment,
            "StorageClass" => Self::StorageClass,
            "VolumeSnapshot" => Self::VolumeSnapshot,
            "VolumeSnapshotContent" => Self::VolumeSnapshotContent,
            _ => return None,
        })
    }

    /// Kubernetes' name of it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::PersistentVolume => "PersistentVolume",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::ServiceAccount => "ServiceAccount",
            Self::ClusterTrustBundle => "ClusterTrustBundle",
            Self::CsiDriver => "CSIDriver",
            Self::VolumeAttachment => "VolumeAttachment",
            Self::StorageClass => "StorageClass",
            Self::VolumeSnapshot => "VolumeSnapshot",
            Self::VolumeSnapshotContent => "VolumeSnapshotContent",
        }
    }

    /// The API version that its objects are written for.
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::ClusterTrustBundle => "certificates.k8s.io/v1beta1",
            Self::CsiDriver | Self::VolumeAttachment | Self::StorageClass => "storage.k8s.io/v1",
            Self::VolumeSnapshot | Self::VolumeSnapshotContent => "snapshot.storage.k8s.io/v1",
            _ => "v1",
        }
    }

    /// Whether objects of it live in a namespace.
    pub const fn is_namespaced(self) -> bool {
        !matches!(
            self,
            Self::PersistentVolume
                | Self::ClusterTrustBundle
                | Self::CsiDriver
                | Self::VolumeAttachment
                | Self::StorageClass
                | Self::VolumeSnapshotContent
        )
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What names an object. Shown as `Pod default/web`, `PersistentVolume disk1`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Kind.
    pub kind: Kind,
    /// Namespace; empty for kinds without one.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectKey {
    /// The key of a namespaced object.
    pub fn new(kind: Kind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind, namespace: if kind.is_namespaced() { namespace.into() } else { String::new() }, name: name.into() }
    }

    /// The key of a PersistentVolume.
    pub fn persistent_volume(name: impl Into<String>) -> Self {
        Self::new(Kind::PersistentVolume, "", name)
    }

    /// The name of a file for the object, without an ending: a digest, since a name can be longer than a file's.
    pub fn file_stem(&self) -> String {
        let digest = Sha256::digest(self.to_string());
        lower_hex(digest.iter().take(16))
    }

    /// `namespace/name`, or the name alone.
    pub fn full_name(&self) -> String {
        if self.namespace.is_empty() { self.name.clone() } else { format!("{}/{}", self.namespace, self.name) }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.full_name())
    }
}

/// Where an object was read: `pods.yaml:12`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The file's name, or what stands for it.
    pub file: Arc<str>,
    /// The line the object begins at.
    pub line: u32,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// An object, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// What names it.
    pub key: ObjectKey,
    /// Where it was read.
    pub origin: Origin,
    /// `metadata.uid`, or the one derived from the key.
    pub uid: String,
    /// The uid was given, not derived.
    pub uid_given: bool,
    /// What it says.
    pub content: Content,
}

/// What an object says, as far as volhost uses it.
#[derive(Clone, PartialEq)]
pub enum Content {
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
    /// How a CSI driver wants its volumes treated.
    CsiDriver(Arc<CSIDriver>),
    /// What a controller attaches.
    VolumeAttachment(Arc<VolumeAttachmentObject>),
    /// How volumes are made.
    StorageClass(Arc<StorageClassObject>),
    /// A snapshot, by its content's name.
    VolumeSnapshot(Arc<SnapshotObject>),
    /// A snapshot that exists, by its handle.
    VolumeSnapshotContent(Arc<SnapshotContentObject>),
}

impl fmt::Debug for Content {
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
    /// The pod, if it is one.
    pub fn pod(&self) -> Option<&Arc<PodObject>> {
        match &self.content {
            Content::Pod(pod) => Some(pod),
            _ => None,
        }
    }
}

/// A uid for an object whose manifest gives none: the same for the same kind, namespace and name, on every node and after every
/// restart, whatever the object says. Formed like a version 8 UUID (RFC 9562), which is made for values of one's own.
pub fn derived_uid(key: &ObjectKey) -> String {
    let digest = Sha256::new()
        .chain_update("volhost manifest uid v1\0")
        .chain_update(key.kind.name())
        .chain_update("\0")
        .chain_update(&key.namespace)
        .chain_update("\0")
        .chain_update(&key.name)
        .finalize();
    let high = digest.iter().take(8).fold(0_u64, |bits, byte| (bits << 8) | u64::from(*byte));
    let low = digest.iter().skip(8).take(8).fold(0_u64, |bits, byte| (bits << 8) | u64::from(*byte));
    let high = (high & !0xf000) | 0x8000;
    let low = (low & !(0b11 << 62)) | (0b10 << 62);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_derived_uid_depends_on_the_key_alone_and_looks_like_a_uuid() {
        let uid = derived_uid(&ObjectKey::new(Kind::Pod, "default", "web"));
        assert_eq!(uid, derived_uid(&ObjectKey::new(Kind::Pod, "default", "web")));
        assert_ne!(uid, derived_uid(&ObjectKey::new(Kind::Pod, "other", "web")));
        assert_ne!(uid, derived_uid(&ObjectKey::new(Kind::PersistentVolumeClaim, "default", "web")));
        assert_eq!(uid.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert!(uid.split('-').nth(2).unwrap().starts_with('8'), "{uid}");
    }
}
