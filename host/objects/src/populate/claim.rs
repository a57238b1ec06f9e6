//! Volumes that a pod uses by a claim.

use std::sync::Arc;

use thiserror::Error;
use volhost_model::spec::PersistentVolume;
use volhost_model::{Fields, OuterName, SpecName, VolumeSpec};

use super::node::NodeIdentity;
use super::source::{self, SourceError};
use crate::binding::Unbound;
use crate::claim::ClaimObject;
use crate::migrated;
use crate::references::{CLAIM_SOURCE, EPHEMERAL_SOURCE, ephemeral_claim_name};
use crate::{Kind, ObjectContent, ObjectKey, ObjectStore, PersistentVolumeObject, PodObject, PodVolume};

/// A volume that its pod cannot use by its claim.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum ClaimError {
    /// The pod's volume names no claim.
    #[error("{file}:{line}: persistentVolumeClaim of volume \"{volume}\" has no claimName")]
    NoClaimName { file: Arc<str>, line: u32, volume: OuterName },
    /// The claim has no volume for the pod.
    #[error("error processing PVC {claim}: {problem}")]
    Claim {
        claim: String,
        #[source]
        problem: ClaimProblem,
    },
    /// The volume's node affinity excludes this node.
    #[error("PersistentVolume {volume} can only be used on nodes where {required}; this node, {node}, has {labels}")]
    OtherNodes { volume: SpecName, required: String, node: String, labels: String },
    /// The PersistentVolume's source cannot be used.
    #[error(transparent)]
    Source(#[from] SourceError),
}

/// A claim that has no volume for a pod. Begins with the kubelet's words where it has some.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum ClaimProblem {
    /// No source has the claim.
    #[error(
        "failed to fetch PVC: there is no PersistentVolumeClaim of that name; add its manifest or correct claimName"
    )]
    Unknown,
    /// The claim of a generic ephemeral volume belongs to another owner.
    #[error("PVC {claim} was not created for pod {pod} (pod is not owner)")]
    NotOwned { claim: String, pod: String },
    /// The claim has a deletion timestamp.
    #[error("PVC is being deleted")]
    Deleted,
    /// No volume has been made for the claim.
    #[error("PVC is not bound: {0}")]
    NotMade(String),
    /// The claim is not bound.
    #[error(transparent)]
    Unbound(#[from] Unbound),
}

/// Returns the volume of the claim that `persistentVolumeClaim` names.
pub(super) fn named(
    pod: &PodObject,
    volume: &PodVolume,
    source: &Fields,
    store: &ObjectStore,
    node: &NodeIdentity,
) -> Result<VolumeSpec, ClaimError> {
    let name = source.get("claimName").and_then(|name| name.as_str()).unwrap_or_default();
    if name.is_empty() {
        let PodVolume { line, name, .. } = volume;
        return Err(ClaimError::NoClaimName { file: Arc::clone(&pod.file), line: *line, volume: name.clone() });
    }
    through(pod, name, source::is_read_only(source), store, node, |_| Ok(()))
}

/// Returns the claim of the pod's volume, `namespace/name`; none for other volumes.
pub(super) fn name_of(pod: &PodObject, name: &OuterName) -> Option<String> {
    let (index, volume) = pod.volume(name)?;
    let claim = match source::of_pod_volume(pod, index, volume).ok()? {
        (CLAIM_SOURCE, source) => source.get("claimName")?.as_str()?.to_owned(),
        (EPHEMERAL_SOURCE, _) => ephemeral_claim_name(&pod.pod.name, volume.name.as_str()),
        _ => return None,
    };
    Some(format!("{}/{claim}", pod.pod.namespace))
}

/// Returns the volume of the claim that was made for a generic ephemeral volume.
pub(super) fn ephemeral(
    pod: &PodObject,
    volume: &PodVolume,
    store: &ObjectStore,
    node: &NodeIdentity,
) -> Result<VolumeSpec, ClaimError> {
    let name = ephemeral_claim_name(&pod.pod.name, volume.name.as_str());
    through(pod, &name, false, store, node, |claim| {
        let owned = claim.controllers.iter().any(|owner| {
            // An owner reference cannot contain a uid that was derived here.
            let uid_fits = owner.uid == pod.pod.uid.as_str() || !pod.uid_given;
            owner.kind == "Pod" && owner.name == pod.pod.name && uid_fits
        });
        if owned { Ok(()) } else { Err(ClaimProblem::NotOwned { claim: claim.full_name(), pod: pod.pod.full_name() }) }
    })
}

fn through(
    pod: &PodObject,
    claim_name: &str,
    read_only: bool,
    store: &ObjectStore,
    node: &NodeIdentity,
    check: impl FnOnce(&ClaimObject) -> Result<(), ClaimProblem>,
) -> Result<VolumeSpec, ClaimError> {
    let key = ObjectKey::new(Kind::PersistentVolumeClaim, &pod.pod.namespace, claim_name);
    let (claim, volume) =
        bound_volume(&key, store, check).map_err(|problem| ClaimError::Claim { claim: key.full_name(), problem })?;
    let mut spec = spec_of(volume, key.full_name(), read_only)?;
    check_node(&spec, node)?;
    if let Some(persistent_volume) = &mut spec.persistent_volume {
        persistent_volume.claim_capacity = claim.capacity;
    }
    Ok(spec)
}

/// Returns the spec of a PersistentVolume for the claim of this full name.
pub(super) fn spec_of(
    volume: &PersistentVolumeObject,
    claim: String,
    read_only: bool,
) -> Result<VolumeSpec, SourceError> {
    let (field, fields) = source::of_persistent_volume(volume)?;
    if let Some(migrated) = migrated::persistent_volume(volume, field, fields, namespace_of(&claim)) {
        let migrated = migrated.map_err(|error| source::untranslatable_volume(volume, field, error))?;
        let read_only = read_only || source::is_read_only(fields);
        return Ok(migrated.spec(volume.name.clone(), read_only, persistent_volume(volume, claim)));
    }
    Ok(VolumeSpec {
        selinux_label: None,
        name: volume.name.clone(),
        source: field.to_owned(),
        read_only: read_only || source::is_read_only(fields),
        fields: fields.clone(),
        persistent_volume: Some(Box::new(persistent_volume(volume, claim))),
    })
}

/// Returns what matters of a PersistentVolume for the claim of this full name.
fn persistent_volume(volume: &PersistentVolumeObject, claim: String) -> PersistentVolume {
    PersistentVolume {
        name: volume.name.to_string(),
        claim,
        capacity: volume.capacity,
        claim_capacity: None,
        access_modes: volume.access_modes.clone(),
        mount_options: volume.mount_options.clone(),
        volume_mode: volume.volume_mode,
        node_affinity: volume.node_affinity.clone(),
        gid: volume.gid,
        annotations: volume.annotations.clone(),
    }
}

fn namespace_of(claim: &str) -> Option<&str> {
    claim.split_once('/').map(|(namespace, _)| namespace)
}

fn bound_volume<'a>(
    key: &ObjectKey,
    store: &'a ObjectStore,
    check: impl FnOnce(&ClaimObject) -> Result<(), ClaimProblem>,
) -> Result<(&'a ClaimObject, &'a Arc<PersistentVolumeObject>), ClaimProblem> {
    let Some(ObjectContent::Claim(claim)) = store.get(key).map(|object| &object.content) else {
        return Err(ClaimProblem::Unknown);
    };
    check(claim)?;
    if claim.deleted {
        return Err(ClaimProblem::Deleted);
    }
    match store.volume_of_claim(key) {
        Some(Ok(volume)) => Ok((claim, volume)),
        Some(Err(unbound @ Unbound::NoMatch { .. })) => Err(match store.note_of(key) {
            Some(note) => ClaimProblem::NotMade(note.to_owned()),
            None => unbound.clone().into(),
        }),
        Some(Err(unbound)) => Err(unbound.clone().into()),
        None => Err(ClaimProblem::Unknown),
    }
}

/// By the affinity that the volume's driver knows: a former in-tree volume names other keys.
fn check_node(spec: &VolumeSpec, node: &NodeIdentity) -> Result<(), ClaimError> {
    match spec.persistent_volume.as_ref().and_then(|volume| volume.node_affinity.as_ref()) {
        Some(affinity) if !affinity.matches(&node.name, &node.all_labels()) => Err(ClaimError::OtherNodes {
            volume: spec.name.clone(),
            required: super::node::describe(affinity),
            node: node.name.clone(),
            labels: node.describe_labels(affinity),
        }),
        _ => Ok(()),
    }
}
