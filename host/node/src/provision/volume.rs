//! The PersistentVolume of a volume that was made for a claim.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use volhost_provisioner::{Made, Phase, Reclaim, Record, SecretName};

use volhost_objects::Object;
use volhost_objects::persistent_volume::PROVISIONED_ANNOTATION;

/// What such objects' file is called in messages.
const ORIGIN: &str = "provisioned";

/// The object.
///
/// # Errors
/// Why what the storage said makes no PersistentVolume, in words.
pub fn object(record: &Record) -> Result<Arc<Object>, String> {
    let made = record.made().ok_or_else(|| format!("volume {} is not there yet", record.name))?;
    let parsed =
        volhost_objects::parse(ORIGIN, &document(record, made).to_string()).map_err(|error| error.to_string())?;
    parsed.objects.into_iter().next().ok_or_else(|| format!("volume {} makes no object", record.name))
}

fn document(record: &Record, made: &Made) -> Value {
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

fn source(record: &Record, made: &Made) -> Value {
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
