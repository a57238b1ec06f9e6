//! Volumes of former in-tree sources, as volumes of the CSI drivers that serve them.
//!
//! An object keeps the source that its author wrote; each use of it is translated, as every
//! program of Kubernetes does.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as k8s;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use volhost_csi_translation::{Migration, TranslationError, inline_to_csi, to_csi};
use volhost_model::spec::{NodeAffinity, NodeRequirement, PersistentVolume, VolumeMode};
use volhost_model::{Fields, OuterName, SpecName, VolumeSpec};

use super::key::ObjectKey;
use super::persistent_volume::{PersistentVolumeObject, node_affinity};
use super::pod::PodObject;
use super::references::{CLAIM_SOURCE, EPHEMERAL_SOURCE, ephemeral_claim_name, with_namespaces};
use crate::{Kind, ObjectStore};

/// The field of a CSI source.
const CSI: &str = "csi";

/// A CSI driver and its id of a volume, as Kubernetes names the volume by them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsiVolumeName {
    /// The driver.
    pub driver: String,
    /// `volumeHandle`.
    pub handle: String,
}

impl CsiVolumeName {
    fn of(fields: &Fields) -> Option<Self> {
        let text = |field: &str| fields.get(field)?.as_str().map(str::to_owned);
        Some(Self { driver: text("driver")?, handle: text("volumeHandle")? })
    }
}

impl PersistentVolumeObject {
    /// The CSI volume behind it, also behind a former in-tree source; none for other kinds.
    pub fn csi_volume(&self) -> Option<CsiVolumeName> {
        match of_object(self) {
            Some(migrated) => CsiVolumeName::of(&migrated.ok()?.fields),
            None => CsiVolumeName::of(self.source.fields_of(CSI)?),
        }
    }
}

impl PodObject {
    /// The CSI volumes behind former in-tree sources that the pod names itself.
    pub fn inline_csi_volumes(&self) -> impl Iterator<Item = CsiVolumeName> {
        let sources =
            self.volumes.iter().flat_map(|volume| volume.source.all().into_iter().map(move |source| (volume, source)));
        sources.filter_map(|(volume, (field, fields))| {
            let migrated = inline(&volume.name, field, &fields, &self.pod.namespace)?;
            CsiVolumeName::of(&migrated.ok()?.fields)
        })
    }
}

/// Whether a CSI driver serves this source in place of an in-tree plugin.
pub(super) fn is_migrated(source: &str) -> bool {
    Migration::of_source(source).is_some()
}

/// A volume as its CSI driver gets it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MigratedVolume {
    /// Its name: of the PersistentVolume, or the one that Kubernetes gives a pod's own.
    name: String,
    /// The fields of `csi`.
    fields: Fields,
    access_modes: Vec<String>,
    node_affinity: Option<NodeAffinity>,
}

impl MigratedVolume {
    fn of(volume: k8s::PersistentVolume) -> Option<Self> {
        let spec = volume.spec?;
        let Ok(Value::Object(fields)) = serde_json::to_value(spec.csi?) else { return None };
        Some(Self {
            name: volume.metadata.name.unwrap_or_default(),
            fields: fields.into(),
            access_modes: spec.access_modes.unwrap_or_default(),
            node_affinity: spec.node_affinity.and_then(|affinity| affinity.required).map(node_affinity),
        })
    }

    /// The spec of a PersistentVolume that has this source. `original`: as its author wrote it.
    pub(super) fn spec(self, name: SpecName, read_only: bool, original: PersistentVolume) -> VolumeSpec {
        VolumeSpec {
            selinux_label: None,
            name,
            source: CSI.to_owned(),
            read_only,
            fields: self.fields,
            persistent_volume: Some(Box::new(PersistentVolume {
                access_modes: self.access_modes,
                node_affinity: self.node_affinity,
                ..original
            })),
        }
    }

    /// The spec of a pod's own volume. It has the form of a PersistentVolume's, because its disk is
    /// one that exists without the pod.
    pub(super) fn inline_spec(self, name: SpecName, read_only: bool) -> VolumeSpec {
        let original = PersistentVolume {
            name: self.name.clone(),
            claim: String::new(),
            capacity: None,
            claim_capacity: None,
            access_modes: Vec::new(),
            mount_options: Vec::new(),
            volume_mode: VolumeMode::Filesystem,
            node_affinity: None,
            gid: None,
            annotations: BTreeMap::new(),
        };
        self.spec(name, read_only, original)
    }

    /// The secrets that the driver gets with it.
    pub(super) fn secrets(&self) -> impl Iterator<Item = ObjectKey> {
        with_namespaces(&self.fields)
    }
}

/// Translates a PersistentVolume with this source; none for a source that is not a former in-tree
/// one. `claim_namespace`: of the claim that has it, where the volume itself names none.
pub(super) fn persistent_volume(
    volume: &PersistentVolumeObject,
    source: &str,
    fields: &Fields,
    claim_namespace: Option<&str>,
) -> Option<Result<MigratedVolume, TranslationError>> {
    Migration::of_source(source)?;
    let namespace = volume.claim.as_ref().map(|claim| claim.namespace.as_str()).or(claim_namespace);
    // It was read as one before.
    let spec: k8s::PersistentVolumeSpec = serde_json::from_value(json!({ source: fields })).ok()?;
    let given = k8s::PersistentVolume {
        metadata: ObjectMeta {
            name: Some(volume.name.to_string()),
            labels: Some(volume.labels.clone()),
            annotations: Some(volume.source_annotations.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(k8s::PersistentVolumeSpec {
            access_modes: Some(volume.access_modes.clone()).filter(|modes| !modes.is_empty()),
            claim_ref: namespace.map(|namespace| k8s::ObjectReference {
                namespace: Some(namespace.to_owned()),
                ..k8s::ObjectReference::default()
            }),
            node_affinity: volume.node_affinity.as_ref().map(kubernetes_affinity),
            ..spec
        }),
        status: None,
    };
    to_csi(&given).map(MigratedVolume::of).transpose()
}

/// As [`persistent_volume`], by what the object itself says.
pub(super) fn of_object(volume: &PersistentVolumeObject) -> Option<Result<MigratedVolume, TranslationError>> {
    let (source, fields) = volume.source.all().into_iter().find(|(source, _)| is_migrated(source))?;
    persistent_volume(volume, source, &fields, None)
}

/// As [`persistent_volume`], of a pod's own volume of this name.
pub(super) fn inline(
    name: &OuterName,
    source: &str,
    fields: &Fields,
    pod_namespace: &str,
) -> Option<Result<MigratedVolume, TranslationError>> {
    Migration::of_source(source)?;
    let volume: k8s::Volume = serde_json::from_value(json!({ "name": name.as_str(), source: fields })).ok()?;
    inline_to_csi(&volume, pod_namespace).map(MigratedVolume::of).transpose()
}

/// Returns which CSI driver serves a pod's volume in place of an in-tree plugin, for users; none for
/// other volumes.
pub(super) fn origin(pod: &PodObject, name: &OuterName, store: &ObjectStore) -> Option<String> {
    let (_, volume) = pod.volume(name)?;
    let (source, fields) = volume.source.all().into_iter().next()?;
    let claim = match source {
        CLAIM_SOURCE => fields.get("claimName")?.as_str()?.to_owned(),
        EPHEMERAL_SOURCE => ephemeral_claim_name(&pod.pod.name, name.as_str()),
        inline => return Some(served_by(&format!("volume {name} of the pod"), Migration::of_source(inline)?)),
    };
    let claim = ObjectKey::new(Kind::PersistentVolumeClaim, &pod.pod.namespace, claim);
    let volume = store.volume_of_claim(&claim)?.ok()?;
    let migration = volume.source.all().into_iter().find_map(|(source, _)| Migration::of_source(source))?;
    Some(served_by(&format!("PersistentVolume {}", volume.name), migration))
}

fn served_by(what: &str, migration: Migration) -> String {
    let (source, driver) = (migration.source(), migration.driver());
    format!("{what} is of the source {source}, which the CSI driver {driver} serves")
}

fn kubernetes_affinity(affinity: &NodeAffinity) -> k8s::VolumeNodeAffinity {
    let requirements = |all: &[NodeRequirement]| {
        let one = |one: &NodeRequirement| k8s::NodeSelectorRequirement {
            key: one.key.clone(),
            operator: one.operator.clone(),
            values: Some(one.values.clone()).filter(|values| !values.is_empty()),
        };
        Some(all.iter().map(one).collect::<Vec<_>>()).filter(|all| !all.is_empty())
    };
    let terms = affinity.terms.iter().map(|term| k8s::NodeSelectorTerm {
        match_expressions: requirements(&term.labels),
        match_fields: requirements(&term.fields),
    });
    k8s::VolumeNodeAffinity { required: Some(k8s::NodeSelector { node_selector_terms: terms.collect() }) }
}
