//! Volumes that come by a claim.

use std::sync::Arc;

use volhost_model::spec::PersistentVolume;
use volhost_model::{OuterName, VolumeSpec};

use super::node::NodeIdentity;
use super::source::{self, Fields};
use crate::binding::Unbound;
use crate::claim::ClaimObject;
use crate::references::{CLAIM_SOURCE, EPHEMERAL_SOURCE, ephemeral_claim_name};
use crate::{Content, Kind, ObjectKey, ObjectStore, PersistentVolumeObject, PodObject, PodVolume};

/// The volume of the claim that `persistentVolumeClaim` names.
pub(super) fn named(
    pod: &PodObject,
    volume: &PodVolume,
    source: &Fields,
    store: &ObjectStore,
    node: &NodeIdentity,
) -> Result<VolumeSpec, String> {
    let name = source.get("claimName").and_then(|name| name.as_str()).unwrap_or_default();
    if name.is_empty() {
        return Err(format!(
            "{}:{}: persistentVolumeClaim of volume \"{}\" has no claimName",
            pod.file, volume.line, volume.name
        ));
    }
    through(pod, name, source::is_read_only(source), store, node, |_| Ok(()))
}

/// The claim that the pod's volume comes by, `namespace/name`; none for other volumes.
pub(super) fn name_of(pod: &PodObject, name: &OuterName) -> Option<String> {
    let (index, volume) = pod.volume(name)?;
    let claim = match source::of_pod_volume(pod, index, volume).ok()? {
        (CLAIM_SOURCE, source) => source.get("claimName")?.as_str()?.to_owned(),
        (EPHEMERAL_SOURCE, _) => ephemeral_claim_name(&pod.pod.name, volume.name.as_str()),
        _ => return None,
    };
    Some(format!("{}/{claim}", pod.pod.namespace))
}

/// The volume of the claim that was made for a generic ephemeral volume.
pub(super) fn ephemeral(
    pod: &PodObject,
    volume: &PodVolume,
    store: &ObjectStore,
    node: &NodeIdentity,
) -> Result<VolumeSpec, String> {
    let name = ephemeral_claim_name(&pod.pod.name, volume.name.as_str());
    through(pod, &name, false, store, node, |claim| {
        let owned = claim.controllers.iter().any(|owner| {
            // Nobody can have written a uid that we derived.
            let uid_fits = owner.uid == pod.pod.uid.as_str() || !pod.uid_given;
            owner.kind == "Pod" && owner.name == pod.pod.name && uid_fits
        });
        if owned {
            Ok(())
        } else {
            Err(format!("PVC {} was not created for pod {} (pod is not owner)", claim.full_name(), pod.pod.full_name()))
        }
    })
}

fn through(
    pod: &PodObject,
    claim_name: &str,
    read_only: bool,
    store: &ObjectStore,
    node: &NodeIdentity,
    check: impl FnOnce(&ClaimObject) -> Result<(), String>,
) -> Result<VolumeSpec, String> {
    let key = ObjectKey::new(Kind::PersistentVolumeClaim, &pod.pod.namespace, claim_name);
    let (claim, volume) = bound_volume(&key, store, check)
        .map_err(|reason| format!("error processing PVC {}: {reason}", key.full_name()))?;
    check_node(volume, node)?;
    let mut spec = spec_of(volume, key.full_name(), read_only)?;
    if let Some(persistent_volume) = &mut spec.persistent_volume {
        persistent_volume.claim_capacity = claim.capacity;
    }
    Ok(spec)
}

/// What the PersistentVolume is, for the claim of this full name.
pub(super) fn spec_of(volume: &PersistentVolumeObject, claim: String, read_only: bool) -> Result<VolumeSpec, String> {
    let (field, fields) = source::of_persistent_volume(volume)?;
    Ok(VolumeSpec {
        selinux_label: None,
        name: volume.name.clone(),
        source: field.to_owned(),
        read_only: read_only || source::is_read_only(fields),
        fields: fields.clone(),
        persistent_volume: Some(PersistentVolume {
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
        }),
    })
}

fn bound_volume<'a>(
    key: &ObjectKey,
    store: &'a ObjectStore,
    check: impl FnOnce(&ClaimObject) -> Result<(), String>,
) -> Result<(&'a ClaimObject, &'a Arc<PersistentVolumeObject>), String> {
    const UNKNOWN: &str =
        "failed to fetch PVC: there is no PersistentVolumeClaim of that name; add its manifest or correct claimName";
    let Some(Content::Claim(claim)) = store.get(key).map(|object| &object.content) else {
        return Err(UNKNOWN.to_owned());
    };
    check(claim)?;
    if claim.deleted {
        return Err("PVC is being deleted".to_owned());
    }
    match store.volume_of_claim(key) {
        Some(Ok(volume)) => Ok((claim, volume)),
        Some(Err(unbound @ Unbound::NoMatch { .. })) => Err(match store.note_of(key) {
            Some(note) => format!("PVC is not bound: {note}"),
            None => unbound.to_string(),
        }),
        Some(Err(unbound)) => Err(unbound.to_string()),
        None => Err(UNKNOWN.to_owned()),
    }
}

fn check_node(volume: &PersistentVolumeObject, node: &NodeIdentity) -> Result<(), String> {
    match &volume.node_affinity {
        Some(affinity) if !affinity.matches(&node.name, &node.all_labels()) => Err(format!(
            "PersistentVolume {} can only be used on nodes where {}; this node, {}, has {}",
            volume.name,
            super::node::describe(affinity),
            node.name,
            node.describe_labels(affinity)
        )),
        _ => Ok(()),
    }
}
