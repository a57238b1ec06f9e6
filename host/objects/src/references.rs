//! Which other objects a pod's volumes, and a PersistentVolume's source, are made of.

use std::collections::BTreeSet;

use serde_json::Value;
use volhost_model::Fields;

use super::key::{Kind, ObjectKey};
use super::migrated::{self, MigratedVolume};
use super::object::{Object, ObjectContent};
use super::persistent_volume::PersistentVolumeObject;
use super::pod::PodObject;

/// The field of a volume that names a claim.
pub const CLAIM_SOURCE: &str = "persistentVolumeClaim";
/// The field of a volume whose claim is made for it alone.
pub const EPHEMERAL_SOURCE: &str = "ephemeral";

/// The field of a volume that is an OCI image, for which the pod's pull secrets are.
const IMAGE_SOURCE: &str = "image";

/// The claim of a generic ephemeral volume: `<pod>-<volume>`.
pub fn ephemeral_claim_name(pod: &str, volume: &str) -> String {
    format!("{pod}-{volume}")
}

/// Returns the key for all ClusterTrustBundles: labels select those that a pod shows.
pub(super) fn any_trust_bundle() -> ObjectKey {
    ObjectKey::new(Kind::ClusterTrustBundle, "", "")
}

/// The objects that this one names, by which its volumes are resolved and filled: a pod's claims,
/// config maps and secrets, a claim's PersistentVolume, a PersistentVolume's secrets. The key
/// without a name stands for all ClusterTrustBundles.
pub fn of(object: &Object) -> BTreeSet<ObjectKey> {
    match &object.content {
        ObjectContent::Pod(pod) => of_pod(pod),
        ObjectContent::Claim(claim) if !claim.volume_name.is_empty() => {
            BTreeSet::from([ObjectKey::persistent_volume(claim.volume_name.as_str())])
        }
        ObjectContent::PersistentVolume(volume) => of_persistent_volume(volume),
        _ => BTreeSet::new(),
    }
}

/// The objects that the pod's volumes name: claims, config maps, secrets.
pub(super) fn of_pod(pod: &PodObject) -> BTreeSet<ObjectKey> {
    let namespace = &pod.pod.namespace;
    let key = |kind, name: &str| ObjectKey::new(kind, namespace, name);
    let mut found = BTreeSet::new();
    for volume in &pod.volumes {
        for (source, fields) in volume.source.all() {
            let named = |field: &str| fields.get(field).and_then(Value::as_str);
            match source {
                CLAIM_SOURCE => found.extend(named("claimName").map(|name| key(Kind::PersistentVolumeClaim, name))),
                EPHEMERAL_SOURCE => {
                    let name = ephemeral_claim_name(&pod.pod.name, volume.name.as_str());
                    found.insert(key(Kind::PersistentVolumeClaim, &name));
                }
                "configMap" => found.extend(named("name").map(|name| key(Kind::ConfigMap, name))),
                "secret" => found.extend(named("secretName").map(|name| key(Kind::Secret, name))),
                "projected" => {
                    for part in fields.get("sources").and_then(Value::as_array).into_iter().flatten() {
                        let named = |field: &str| part.get(field).and_then(|part| text(part, "name"));
                        found.extend(named("configMap").map(|name| key(Kind::ConfigMap, name)));
                        found.extend(named("secret").map(|name| key(Kind::Secret, name)));
                        if part.get("clusterTrustBundle").is_some_and(Value::is_object) {
                            found.insert(any_trust_bundle());
                        }
                    }
                }
                IMAGE_SOURCE => {
                    found.extend(pod.pod.image_pull_secrets.iter().map(|name| key(Kind::Secret, name)));
                }
                _ if migrated::is_migrated(source) => {
                    let volume = migrated::inline(&volume.name, source, &fields, namespace).and_then(Result::ok);
                    found.extend(volume.iter().flat_map(MigratedVolume::secrets));
                }
                _ => {
                    let names = secrets(&fields).filter_map(|secret| text(secret, "name"));
                    found.extend(names.map(|name| key(Kind::Secret, name)));
                }
            }
        }
    }
    found
}

/// The secrets that the PersistentVolume's source names.
pub(super) fn of_persistent_volume(volume: &PersistentVolumeObject) -> BTreeSet<ObjectKey> {
    if let Some(migrated) = migrated::of_object(volume) {
        return migrated.iter().flat_map(MigratedVolume::secrets).collect();
    }
    volume.source.all().iter().flat_map(|(_, fields)| with_namespaces(fields)).collect()
}

/// The secrets that a source names with their namespaces.
pub(super) fn with_namespaces(fields: &Fields) -> impl Iterator<Item = ObjectKey> {
    secrets(fields)
        .filter_map(|secret| Some(ObjectKey::new(Kind::Secret, text(secret, "namespace")?, text(secret, "name")?)))
}

/// `secretRef`, `nodePublishSecretRef` and their like.
fn secrets(fields: &Fields) -> impl Iterator<Item = &Value> {
    fields.iter().filter(|(field, _)| field.ends_with("ecretRef")).map(|(_, value)| value)
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field)?.as_str()
}
