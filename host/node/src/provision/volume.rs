//! The PersistentVolume of a volume that was made for a claim.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use thiserror::Error;
use volhost_provisioner::{CreatedStorage, Phase, ProvisionRecord, Reclaim, SecretName};

use volhost_objects::persistent_volume::PROVISIONED_ANNOTATION;
use volhost_objects::{ManifestError, Object};

/// The file name of such objects in messages.
const ORIGIN: &str = "provisioned";

/// A made volume that makes no valid PersistentVolume.
#[derive(Debug, Error)]
pub(crate) enum MadeVolumeError {
    /// The volume has not been made.
    #[error("volume {0} is not there yet")]
    NotMade(String),
    /// The storage's answer is invalid.
    #[error(transparent)]
    Invalid(#[from] ManifestError),
    /// The record has no object.
    #[error("volume {0} makes no object")]
    NoObject(String),
}

/// Returns the PersistentVolume of a made volume.
///
/// # Errors
/// [`MadeVolumeError`].
pub(crate) fn object(record: &ProvisionRecord) -> Result<Arc<Object>, MadeVolumeError> {
    let made = record.made().ok_or_else(|| MadeVolumeError::NotMade(record.name.clone()))?;
    let parsed = volhost_objects::parse(ORIGIN, &document(record, made).to_string())?;
    parsed.objects.into_iter().next().ok_or_else(|| MadeVolumeError::NoObject(record.name.clone()))
}

fn document(record: &ProvisionRecord, made: &CreatedStorage) -> Value {
    let terms = &record.terms;
    let mut spec = json!({
        "capacity": { "storage": made.capacity.to_string() },
        "accessModes": record.wanted.access_modes,
        "volumeMode": if record.wanted.as_device { "Block" } else { "Filesystem" },
        "persistentVolumeReclaimPolicy": match terms.reclaim {
            Reclaim::Delete => "Delete",
            Reclaim::Retain => "Retain",
        },
        "storageClassName": terms.class,
        "mountOptions": terms.mount_options,
        "claimRef": {
            "kind": "PersistentVolumeClaim",
            "namespace": record.claim.namespace,
            "name": record.claim.name,
            "uid": record.claim.uid,
        },
        "csi": source(record, made),
    });
    if let (false, Value::Object(fields)) = (made.reachable_from.is_empty(), &mut spec) {
        let term = |labels: &std::collections::BTreeMap<String, String>| {
            let all = labels.iter().map(|(key, value)| json!({ "key": key, "operator": "In", "values": [value] }));
            json!({ "matchExpressions": all.collect::<Vec<_>>() })
        };
        let terms: Vec<Value> = made.reachable_from.iter().map(term).collect();
        fields.insert("nodeAffinity".to_owned(), json!({ "required": { "nodeSelectorTerms": terms } }));
    }
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": { "name": record.name, "annotations": { PROVISIONED_ANNOTATION: terms.provisioner } },
        "spec": spec,
        "status": { "phase": if matches!(record.phase, Phase::Released(_)) { "Released" } else { "Bound" } },
    })
}

fn source(record: &ProvisionRecord, made: &CreatedStorage) -> Value {
    let terms = &record.terms;
    let mut fields = Map::new();
    fields.insert("driver".to_owned(), json!(terms.provisioner));
    fields.insert("volumeHandle".to_owned(), json!(made.id));
    if let (Some(fs_type), false) = (&terms.fs_type, record.wanted.as_device) {
        fields.insert("fsType".to_owned(), json!(fs_type));
    }
    if !made.attributes.is_empty() {
        fields.insert("volumeAttributes".to_owned(), json!(made.attributes));
    }
    let secrets = &terms.secrets;
    let references: [(&str, &Option<SecretName>); 5] = [
        ("controllerPublishSecretRef", &secrets.publish),
        ("nodeStageSecretRef", &secrets.node_stage),
        ("nodePublishSecretRef", &secrets.node_publish),
        ("controllerExpandSecretRef", &secrets.expand),
        ("nodeExpandSecretRef", &secrets.node_expand),
    ];
    for (field, secret) in references {
        if let Some(SecretName { namespace, name }) = secret {
            fields.insert(field.to_owned(), json!({ "namespace": namespace, "name": name }));
        }
    }
    Value::Object(fields)
}
