//! The kind, the name and the place of an object.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use volhost_model::text::lower_hex;

/// The namespace of an object that names none.
pub const DEFAULT_NAMESPACE: &str = "default";

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
    /// Every kind.
    pub const ALL: [Self; 12] = [
        Self::Pod,
        Self::PersistentVolume,
        Self::PersistentVolumeClaim,
        Self::ConfigMap,
        Self::Secret,
        Self::ServiceAccount,
        Self::ClusterTrustBundle,
        Self::CsiDriver,
        Self::VolumeAttachment,
        Self::StorageClass,
        Self::VolumeSnapshot,
        Self::VolumeSnapshotContent,
    ];

    /// Returns the kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns Kubernetes' name of it.
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

    /// Returns the API version of its objects.
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

/// The key of an object. Shown as `Pod default/web`, `PersistentVolume disk1`.
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
    /// Creates the key of an object. The namespace is dropped for kinds without one.
    pub fn new(kind: Kind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind, namespace: if kind.is_namespaced() { namespace.into() } else { String::new() }, name: name.into() }
    }

    /// Creates the key of a PersistentVolume.
    pub fn persistent_volume(name: impl Into<String>) -> Self {
        Self::new(Kind::PersistentVolume, "", name)
    }

    /// Returns the name of a file for the object, without an ending: a digest, since a name can be
    /// longer than a file's.
    pub fn file_stem(&self) -> String {
        let digest = Sha256::digest(self.to_string());
        lower_hex(digest.iter().take(16))
    }

    /// Returns `namespace/name`, or the name alone.
    pub fn full_name(&self) -> String {
        if self.namespace.is_empty() { self.name.clone() } else { format!("{}/{}", self.namespace, self.name) }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.full_name())
    }
}

/// The place of an object in a manifest: `pods.yaml:12`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The file's name, or the name of another source.
    pub file: Arc<str>,
    /// The line the object begins at.
    pub line: u32,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Returns a uid for an object whose manifest gives none. It depends on kind, namespace and name
/// alone, so it is the same on every node and after every restart. It has the form of a version 8
/// UUID (RFC 9562), which is for values of any origin.
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
