//! A PersistentVolume's manifest, checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as k8s;
use serde_json::{Map, Value};
use volhost_csi_translation::{AZURE_RESOURCE_GROUP_ANNOTATION, PORTWORX_ANNOTATIONS};
use volhost_model::SpecName;
use volhost_model::quantity::parse_bytes;
use volhost_model::spec::{ANNOTATION_PREFIX, NodeAffinity, NodeRequirement, NodeSelectorTerm, VolumeMode};

use super::error::{FieldError, shorten};
use super::written_source::WrittenSource;

/// Annotation for a supplemental group of every pod that uses the volume.
const GID_ANNOTATION: &str = "pv.beta.kubernetes.io/gid";

/// Annotation for mount options, older than `spec.mountOptions`, which it takes the place of.
const MOUNT_OPTIONS_ANNOTATION: &str = "volume.beta.kubernetes.io/mount-options";

/// Annotation of a volume that was made for a claim: by whom.
pub const PROVISIONED_ANNOTATION: &str = "pv.kubernetes.io/provisioned-by";

/// The fields of `spec` that are not the volume's source.
const SPEC_FIELDS: [&str; 8] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeMode",
];
/// A newer one of those.
const ATTRIBUTES_CLASS_FIELD: &str = "volumeAttributesClassName";

/// A PersistentVolume of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct PersistentVolumeObject {
    /// Its name.
    pub name: SpecName,
    /// The file it was read from, for messages.
    pub file: Arc<str>,
    /// The line of its `spec`.
    pub line: u32,
    /// `metadata.labels`, for claims with a selector.
    pub labels: BTreeMap<String, String>,
    /// The rest of `spec`: the source, or by mistake none or several.
    pub source: WrittenSource,
    /// `spec.capacity.storage` in bytes.
    pub capacity: Option<u64>,
    /// `spec.accessModes`.
    pub access_modes: Vec<String>,
    /// `spec.mountOptions`, or those of the older annotation; each by itself, and none that a
    /// volume may not ask for.
    pub mount_options: Vec<String>,
    /// `spec.volumeMode`.
    pub volume_mode: VolumeMode,
    /// `spec.nodeAffinity.required`.
    pub node_affinity: Option<NodeAffinity>,
    /// `spec.storageClassName`; empty when absent.
    pub storage_class: String,
    /// `spec.claimRef`.
    pub claim: Option<ClaimReference>,
    /// The group of its gid annotation, when that is a number.
    pub gid: Option<i64>,
    /// Its annotations that are meant for volhost.
    pub annotations: BTreeMap<String, String>,
    /// Its annotations that belong to a former in-tree source.
    pub source_annotations: BTreeMap<String, String>,
    /// `spec.persistentVolumeReclaimPolicy`; `Retain` when absent, as Kubernetes' default.
    pub reclaim_policy: &'static str,
    /// It was made for the claim that it is kept for, which need not fit otherwise: it may ask for
    /// more meanwhile, or have named no class.
    pub provisioned: bool,
    /// It is on offer: not deleted, released or failed.
    pub available: bool,
}

/// The claim that a PersistentVolume is kept for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimReference {
    /// The claim's namespace.
    pub namespace: String,
    /// The claim's name.
    pub name: String,
    /// The claim's uid, when given.
    pub uid: Option<String>,
}

/// Checks a PersistentVolume. `raw_spec` is `spec` as written; `line_of` finds a field's line.
pub(super) fn check(
    typed: k8s::PersistentVolume,
    name: SpecName,
    file: &Arc<str>,
    mut raw_spec: Map<String, Value>,
    line_of: &dyn Fn(&str) -> u32,
) -> Result<PersistentVolumeObject, FieldError> {
    let k8s::PersistentVolume { metadata, spec, status } = typed;
    let spec = spec.ok_or_else(|| FieldError::other("spec", "is missing"))?;
    for field in SPEC_FIELDS.iter().chain([&ATTRIBUTES_CLASS_FIELD]) {
        raw_spec.remove(*field);
    }
    raw_spec.retain(|_, value| !value.is_null());
    let gid = metadata
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(GID_ANNOTATION))
        .and_then(|gid| gid.parse().ok());
    let by_annotation = metadata.annotations.as_ref().and_then(|all| all.get(MOUNT_OPTIONS_ANNOTATION));
    let mount_options = mount_options(by_annotation, &spec.mount_options.unwrap_or_default())?;
    let mut annotations = metadata.annotations.unwrap_or_default();
    let provisioned = annotations.contains_key(PROVISIONED_ANNOTATION);
    let mut source_annotations = annotations.clone();
    source_annotations.retain(|key, _| is_of_source(key));
    annotations.retain(|key, _| key.starts_with(ANNOTATION_PREFIX));
    let phase = status.and_then(|status| status.phase).unwrap_or_default();
    Ok(PersistentVolumeObject {
        name,
        file: Arc::clone(file),
        line: line_of("spec"),
        labels: metadata.labels.unwrap_or_default(),
        source: WrittenSource::new(raw_spec),
        capacity: storage(spec.capacity.as_ref(), "spec.capacity.storage")?,
        access_modes: access_modes(spec.access_modes.unwrap_or_default(), "spec.accessModes")?,
        mount_options,
        volume_mode: volume_mode(spec.volume_mode.as_deref())?,
        node_affinity: spec.node_affinity.and_then(|affinity| affinity.required).map(node_affinity),
        storage_class: spec.storage_class_name.unwrap_or_default(),
        claim: spec.claim_ref.map(claim_reference).transpose()?,
        gid,
        annotations,
        source_annotations,
        reclaim_policy: reclaim_policy(spec.persistent_volume_reclaim_policy.as_deref())?,
        provisioned,
        available: metadata.deletion_timestamp.is_none() && !matches!(phase.as_str(), "Released" | "Failed"),
    })
}

/// Whether the annotation is a part of a former in-tree source.
fn is_of_source(key: &str) -> bool {
    key == AZURE_RESOURCE_GROUP_ANNOTATION || PORTWORX_ANNOTATIONS.contains(&key)
}

/// `storage` of a list of quantities, in bytes.
pub(super) fn storage(
    quantities: Option<&BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>,
    path: &str,
) -> Result<Option<u64>, FieldError> {
    quantities
        .and_then(|all| all.get("storage"))
        .map(|text| parse_bytes(&text.0).map_err(|e| FieldError::new(path, e)))
        .transpose()
}

/// The access mode of a volume for one pod alone.
pub(super) const SINGLE_POD_MODE: &str = "ReadWriteOncePod";

/// Only the four modes that Kubernetes has, and `ReadWriteOncePod` without others, as in
/// Kubernetes.
pub(super) fn access_modes(modes: Vec<String>, path: &str) -> Result<Vec<String>, FieldError> {
    const MODES: [&str; 4] = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", SINGLE_POD_MODE];
    if modes.iter().any(|mode| mode == SINGLE_POD_MODE) && modes.iter().any(|mode| mode != SINGLE_POD_MODE) {
        return Err(FieldError::other(path, format!("may not use {SINGLE_POD_MODE} with other access modes")));
    }
    match modes.iter().enumerate().find(|(_, mode)| !MODES.contains(&mode.as_str())) {
        Some((index, mode)) => Err(FieldError::other(
            format!("{path}[{index}]"),
            format!("{:?} is no access mode; there are {}", shorten(mode), MODES.join(", ")),
        )),
        None => Ok(modes),
    }
}

/// `spec.volumeMode`; absent is `Filesystem`, as Kubernetes' default.
pub(super) fn volume_mode(mode: Option<&str>) -> Result<VolumeMode, FieldError> {
    match mode {
        None | Some("Filesystem") => Ok(VolumeMode::Filesystem),
        Some("Block") => Ok(VolumeMode::Block),
        Some(other) => Err(FieldError::other(
            "spec.volumeMode",
            format!("{:?} is no volume mode; there are Filesystem and Block", shorten(other)),
        )),
    }
}

fn reclaim_policy(policy: Option<&str>) -> Result<&'static str, FieldError> {
    match policy.unwrap_or_default() {
        "" | "Retain" => Ok("Retain"),
        "Delete" => Ok("Delete"),
        "Recycle" => Ok("Recycle"),
        other => Err(FieldError::other(
            "spec.persistentVolumeReclaimPolicy",
            format!("{:?} is no reclaim policy; there are Retain, Delete and Recycle", shorten(other)),
        )),
    }
}

/// The annotation counts where there is one, as with the kubelet.
fn mount_options(annotation: Option<&String>, of_spec: &[String]) -> Result<Vec<String>, FieldError> {
    let split = volhost_model::mount_options::split;
    match annotation.filter(|text| !text.is_empty()) {
        Some(text) => split(std::slice::from_ref(text))
            .map_err(|(_, why)| FieldError::new(format!("metadata.annotations.{MOUNT_OPTIONS_ANNOTATION}"), why)),
        None => split(of_spec).map_err(|(index, why)| FieldError::new(format!("spec.mountOptions[{index}]"), why)),
    }
}

fn claim_reference(reference: k8s::ObjectReference) -> Result<ClaimReference, FieldError> {
    let name = reference.name.unwrap_or_default();
    volhost_model::names::check_dns_subdomain("claim name", &name)
        .map_err(|e| FieldError::new("spec.claimRef.name", e))?;
    let namespace = reference.namespace.unwrap_or_else(|| super::key::DEFAULT_NAMESPACE.to_owned());
    volhost_model::names::check_dns_label("namespace", &namespace)
        .map_err(|e| FieldError::new("spec.claimRef.namespace", e))?;
    Ok(ClaimReference { namespace, name, uid: reference.uid.filter(|uid| !uid.is_empty()) })
}

/// `nodeAffinity.required` as the model has it.
pub(super) fn node_affinity(selector: k8s::NodeSelector) -> NodeAffinity {
    let requirements = |list: Option<Vec<k8s::NodeSelectorRequirement>>| {
        let all = list.unwrap_or_default().into_iter();
        all.map(|one| NodeRequirement { key: one.key, operator: one.operator, values: one.values.unwrap_or_default() })
            .collect()
    };
    let terms = selector.node_selector_terms.into_iter();
    NodeAffinity {
        terms: terms
            .map(|term| NodeSelectorTerm {
                labels: requirements(term.match_expressions),
                fields: requirements(term.match_fields),
            })
            .collect(),
    }
}
