//! A PersistentVolumeClaim's manifest, checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as k8s;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use volhost_model::spec::VolumeMode;

use super::error::FieldError;
use super::persistent_volume::{access_modes, storage, volume_mode};

/// While a claim has it, a claim that is being deleted may still be used.
const PROTECTION_FINALIZER: &str = "kubernetes.io/pvc-protection";

/// A PersistentVolumeClaim of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimObject {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The uid was given, not derived.
    pub uid_given: bool,
    /// The file it was read from, for messages.
    pub file: Arc<str>,
    /// `spec.volumeName`; empty when it names none.
    pub volume_name: String,
    /// `status.phase`, when given.
    pub phase: Option<String>,
    /// `status.capacity.storage` in bytes, when given.
    pub capacity: Option<u64>,
    /// `spec.storageClassName`; empty when absent.
    pub storage_class: String,
    /// `spec.storageClassName` is there, if only as an empty text: the default class does not
    /// count.
    pub names_class: bool,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// `spec.resources.limits.storage` in bytes.
    pub limit: Option<u64>,
    /// `spec.dataSourceRef`, or `spec.dataSource`: what its volume begins with.
    pub data_source: Option<DataSource>,
    /// `spec.accessModes`.
    pub access_modes: Vec<String>,
    /// `spec.resources.requests.storage` in bytes.
    pub request: u64,
    /// `spec.volumeMode`.
    pub volume_mode: VolumeMode,
    /// `spec.selector` on the PersistentVolume's labels.
    pub selector: Option<LabelSelector>,
    /// It is being deleted, and no pod may use it any more.
    pub deleted: bool,
    /// The owners that control it.
    pub controllers: Vec<Owner>,
}

/// The initial content of a claim's volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataSource {
    /// The API group; empty for the core's.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The namespace, if it names another.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

/// An owner in `metadata.ownerReferences`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl ClaimObject {
    /// `namespace/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Whether the selector, if there is one, accepts these labels. An operator that Kubernetes
    /// lacks accepts nothing.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        let Some(selector) = &self.selector else { return true };
        let equal = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
        equal
            && selector.match_expressions.iter().flatten().all(|one| {
                let value = labels.get(&one.key);
                let listed = value.is_some_and(|value| one.values.iter().flatten().any(|wanted| wanted == value));
                match one.operator.as_str() {
                    "In" => listed,
                    "NotIn" => !listed,
                    "Exists" => value.is_some(),
                    "DoesNotExist" => value.is_none(),
                    _ => false,
                }
            })
    }
}

/// Checks a claim.
pub(super) fn check(
    typed: k8s::PersistentVolumeClaim,
    uid: String,
    uid_given: bool,
    namespace: String,
    file: &Arc<str>,
) -> Result<ClaimObject, FieldError> {
    let k8s::PersistentVolumeClaim { metadata, spec, status } = typed;
    let spec = spec.ok_or_else(|| FieldError::other("spec", "is missing"))?;
    let volume_name = spec.volume_name.unwrap_or_default();
    if !volume_name.is_empty() {
        volhost_model::names::check_dns_subdomain("PersistentVolume name", &volume_name)
            .map_err(|e| FieldError::new("spec.volumeName", e))?;
    }
    let protected = metadata.finalizers.iter().flatten().any(|finalizer| finalizer == PROTECTION_FINALIZER);
    let owners = metadata.owner_references.unwrap_or_default().into_iter();
    let (requests, limits) = spec.resources.map(|all| (all.requests, all.limits)).unwrap_or_default();
    let data_source = match (spec.data_source_ref, spec.data_source) {
        (Some(source), _) => Some(DataSource {
            group: source.api_group.unwrap_or_default(),
            kind: source.kind,
            namespace: source.namespace.filter(|namespace| !namespace.is_empty()),
            name: source.name,
        }),
        (None, Some(source)) => Some(DataSource {
            group: source.api_group.unwrap_or_default(),
            kind: source.kind,
            namespace: None,
            name: source.name,
        }),
        (None, None) => None,
    };
    Ok(ClaimObject {
        namespace,
        name: metadata.name.unwrap_or_default(),
        uid,
        uid_given,
        file: Arc::clone(file),
        volume_name,
        capacity: storage(status.as_ref().and_then(|status| status.capacity.as_ref()), "status.capacity.storage")?,
        phase: status.and_then(|status| status.phase).filter(|phase| !phase.is_empty()),
        names_class: spec.storage_class_name.is_some(),
        storage_class: spec.storage_class_name.unwrap_or_default(),
        labels: metadata.labels.unwrap_or_default(),
        annotations: metadata.annotations.unwrap_or_default(),
        limit: storage(limits.as_ref(), "spec.resources.limits.storage")?,
        data_source,
        access_modes: access_modes(spec.access_modes.unwrap_or_default(), "spec.accessModes")?,
        request: storage(requests.as_ref(), "spec.resources.requests.storage")?.unwrap_or(0),
        volume_mode: volume_mode(spec.volume_mode.as_deref())?,
        selector: spec.selector,
        deleted: metadata.deletion_timestamp.is_some() && !protected,
        controllers: owners
            .filter(|owner| owner.controller == Some(true))
            .map(|owner| Owner { kind: owner.kind, name: owner.name, uid: owner.uid })
            .collect(),
    })
}
