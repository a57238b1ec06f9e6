//! What a volume is a copy of: the volume of another claim, or a snapshot.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use thiserror::Error;
use volhost_proto::csi::VolumeContentSource;
use volhost_proto::csi::volume_content_source::{SnapshotSource, Type, VolumeSource};

use crate::caches::Caches;
use crate::migrated;
use crate::snapshots::{Unreadable, VolumeSnapshotContent};
use volhost_cluster_client::quantity;

/// Why a source cannot be used now.
#[derive(Debug, Error)]
pub(crate) enum SourceError {
    /// The claim is not there.
    #[error("the source claim {0} is not found")]
    NoClaim(String),
    /// It cannot be copied now.
    #[error("the source claim {claim} cannot be cloned: {reason}")]
    Claim {
        /// The claim.
        claim: String,
        /// Why.
        reason: &'static str,
    },
    /// Copies cannot shrink.
    #[error("the claim asks for less than its source {0} has")]
    Smaller(String),
    /// The snapshot is not there, or the cluster has no snapshots.
    #[error("the snapshot {0} is not found")]
    NoSnapshot(String),
    /// The snapshot, or what it is bound to, is no such object.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// It cannot be restored now.
    #[error("the snapshot {name} cannot be restored: {reason}")]
    Snapshot {
        /// The snapshot.
        name: String,
        /// Why.
        reason: &'static str,
    },
}

/// The volume of the source claim.
///
/// # Errors
/// [`SourceError`].
pub(crate) fn volume_of_claim(
    caches: &Caches,
    driver: &str,
    claim: &PersistentVolumeClaim,
    name: &str,
) -> Result<VolumeContentSource, SourceError> {
    let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
    let source = caches.claim(namespace, name).ok_or_else(|| SourceError::NoClaim(name.to_owned()))?;
    let not = |reason| SourceError::Claim { claim: name.to_owned(), reason };
    if source.metadata.deletion_timestamp.is_some() {
        return Err(not("it is being deleted"));
    }
    if source.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Bound") {
        return Err(not("it is not bound"));
    }
    let (wanted, spec) = (claim.spec.clone().unwrap_or_default(), source.spec.clone().unwrap_or_default());
    let size = |resources: Option<&k8s_openapi::api::core::v1::VolumeResourceRequirements>| {
        quantity::storage(resources.and_then(|resources| resources.requests.as_ref()))
    };
    if size(wanted.resources.as_ref()) < size(spec.resources.as_ref()) {
        return Err(SourceError::Smaller(name.to_owned()));
    }
    let volume =
        spec.volume_name.as_deref().and_then(|volume| caches.volume(volume)).ok_or_else(|| not("it has no volume"))?;
    let csi = migrated::source_of(&volume, driver).ok_or_else(|| not("another driver has its volume"))?;
    let spec = volume.spec.clone().unwrap_or_default();
    let bound = spec.claim_ref.and_then(|claim| claim.uid);
    if bound.is_none() || bound != source.metadata.uid || phase(&volume) != "Bound" {
        return Err(not("its volume is bound to another claim"));
    }
    let mode = |mode: Option<String>| mode.unwrap_or_else(|| "Filesystem".to_owned());
    if mode(wanted.volume_mode) != mode(spec.volume_mode) {
        return Err(not("its volume has another volume mode"));
    }
    Ok(VolumeContentSource { r#type: Some(Type::Volume(VolumeSource { volume_id: csi.volume_handle })) })
}

fn phase(volume: &PersistentVolume) -> &str {
    volume.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// The snapshot's handle.
///
/// # Errors
/// [`SourceError`].
pub(crate) fn snapshot(
    caches: &Caches,
    driver: &str,
    claim: &PersistentVolumeClaim,
    name: &str,
) -> Result<VolumeContentSource, SourceError> {
    let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
    let not = |reason| SourceError::Snapshot { name: name.to_owned(), reason };
    let known = caches.snapshots();
    let found = known.as_ref().and_then(|known| Some((known, known.snapshot(namespace, name)?)));
    let (known, snapshot) = found.ok_or_else(|| SourceError::NoSnapshot(name.to_owned()))?;
    if snapshot.metadata.deletion_timestamp.is_some() {
        return Err(not("it is being deleted"));
    }
    let (_, status) = snapshot.read()?;
    if status.ready_to_use != Some(true) {
        return Err(not("it is not ready"));
    }
    let content = status.bound_volume_snapshot_content_name.as_deref().ok_or_else(|| not("it is not bound"))?;
    let content = known.content(content).ok_or_else(|| not("its content is missing"))?;
    let (spec, made) = content.read()?;
    if spec.volume_snapshot_ref.uid != snapshot.metadata.uid {
        return Err(not("its content is bound to another snapshot"));
    }
    if spec.driver != driver {
        return Err(not("another driver has it"));
    }
    let restored = status.restore_size.as_ref().and_then(|size| volhost_model::quantity::parse_bytes(&size.0).ok());
    let wanted = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()).and_then(|all| all.requests.as_ref());
    if quantity::storage(wanted) < restored {
        return Err(SourceError::Smaller(name.to_owned()));
    }
    check_mode(&content, spec.source_volume_mode.as_deref(), claim).map_err(not)?;
    let handle = made.snapshot_handle.clone().ok_or_else(|| not("its content has no handle"))?;
    Ok(VolumeContentSource { r#type: Some(Type::Snapshot(SnapshotSource { snapshot_id: handle })) })
}

/// A file system that its user wrote as a block device may attack the kernel that mounts it.
fn check_mode(
    content: &VolumeSnapshotContent,
    source: Option<&str>,
    claim: &PersistentVolumeClaim,
) -> Result<(), &'static str> {
    const ALLOWED: &str = "snapshot.storage.kubernetes.io/allow-volume-mode-change";
    let is_allowed =
        content.metadata.annotations.as_ref().and_then(|all| all.get(ALLOWED)).is_some_and(|value| value == "true");
    let Some(source) = source else { return Ok(()) };
    let wanted = claim.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref()).unwrap_or("Filesystem");
    if source == wanted || is_allowed { Ok(()) } else { Err("its volume had another volume mode") }
}
