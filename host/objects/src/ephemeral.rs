//! The template of a generic ephemeral volume, checked as the claim would be that is made from it.

use k8s_openapi::api::core::v1 as k8s;
use serde_json::{Map, Value};

use super::error::FieldError;
use super::key::Kind;
use super::persistent_volume::{access_modes, storage, volume_mode};
use super::references::EPHEMERAL_SOURCE;
use super::unknown_fields::unknown_fields;

const TEMPLATE: &str = "volumeClaimTemplate";
/// The metadata that a claim gets from its template.
const METADATA: [&str; 2] = ["labels", "annotations"];

/// Checks every ephemeral volume among a pod's volumes, which have the types that Kubernetes gives
/// them.
///
/// # Errors
/// The field, and what is wrong with it.
pub(super) fn check(volumes: &[Map<String, Value>]) -> Result<(), FieldError> {
    for (index, volume) in volumes.iter().enumerate() {
        if let Some(Value::Object(source)) = volume.get(EPHEMERAL_SOURCE) {
            let path = format!("spec.volumes[{index}].{EPHEMERAL_SOURCE}");
            check_source(source).map_err(|error| error.below(&path))?;
        }
    }
    Ok(())
}

fn check_source(source: &Map<String, Value>) -> Result<(), FieldError> {
    if let Some(other) = source.keys().find(|key| *key != TEMPLATE) {
        return Err(FieldError::other(other, format!("no such field; there is {TEMPLATE}")));
    }
    let template = match source.get(TEMPLATE) {
        Some(Value::Object(template)) => template,
        _ => return Err(FieldError::other(TEMPLATE, "is missing; it has the spec of the volume's claim")),
    };
    check_template(template).map_err(|error| error.below(TEMPLATE))
}

fn check_template(template: &Map<String, Value>) -> Result<(), FieldError> {
    if let Some(other) = template.keys().find(|key| !["metadata", "spec"].contains(&key.as_str())) {
        return Err(FieldError::other(other, "no such field; there are metadata and spec"));
    }
    if let Some(Value::Object(metadata)) = template.get("metadata")
        && let Some(other) = metadata.keys().find(|key| !METADATA.contains(&key.as_str()))
    {
        let why = "cannot be set, for the claim's name is made of the pod's and the volume's; there are labels and annotations";
        return Err(FieldError::other(other, why).below("metadata"));
    }
    let Some(written @ Value::Object(_)) = template.get("spec") else {
        return Err(FieldError::other("spec", "is missing; it is the spec of the volume's claim"));
    };
    let spec: k8s::PersistentVolumeClaimSpec =
        serde_json::from_value(written.clone()).map_err(|error| FieldError::other("spec", error.to_string()))?;
    if let Some(unknown) = unknown_fields(written, &spec, Kind::PersistentVolumeClaim).fields.first() {
        let meant = unknown.meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        return Err(FieldError::other(&unknown.path, format!("is no field of a claim's spec{meant}")).below("spec"));
    }
    check_spec(spec)
}

fn check_spec(spec: k8s::PersistentVolumeClaimSpec) -> Result<(), FieldError> {
    const MODES: &str = "spec.accessModes";
    const STORAGE: &str = "spec.resources.requests.storage";
    if access_modes(spec.access_modes.unwrap_or_default(), MODES)?.is_empty() {
        return Err(FieldError::other(MODES, "is missing; a claim has at least one access mode"));
    }
    let requests = spec.resources.and_then(|resources| resources.requests);
    match storage(requests.as_ref(), STORAGE)? {
        None => return Err(FieldError::other(STORAGE, "is missing; a claim asks for a size")),
        Some(0) => return Err(FieldError::other(STORAGE, "must be greater than 0")),
        Some(_) => {}
    }
    volume_mode(spec.volume_mode.as_deref())?;
    for (field, name) in [("spec.storageClassName", spec.storage_class_name), ("spec.volumeName", spec.volume_name)] {
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            volhost_model::names::check_dns_subdomain("name", &name).map_err(|error| FieldError::new(field, error))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(source: Value) -> String {
        let Value::Object(volume) = json!({ "ephemeral": source }) else { unreachable!() };
        check(&[Map::new(), volume]).map_or_else(|error| error.to_string(), |()| "good".to_owned())
    }

    fn with(spec: Value) -> String {
        said(json!({ "volumeClaimTemplate": { "spec": spec } }))
    }

    #[test]
    fn a_template_is_checked_like_the_claim_that_is_made_of_it() {
        let good = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
        assert_eq!(with(good), "good");
        let at = "spec.volumes[1].ephemeral";
        for (said, path, why) in [
            (said(json!({})), "volumeClaimTemplate", "is missing"),
            (said(json!({ "claimName": "x" })), "claimName", "no such field"),
            (said(json!({ "volumeClaimTemplate": {} })), "volumeClaimTemplate.spec", "is missing"),
            (with(json!({})), "volumeClaimTemplate.spec.accessModes", "is missing"),
            (with(json!({ "accessModes": ["All"] })), "volumeClaimTemplate.spec.accessModes[0]", "no access mode"),
            (
                with(json!({ "accessModes": ["ReadWriteOnce"] })),
                "volumeClaimTemplate.spec.resources.requests.storage",
                "is missing",
            ),
            (
                said(json!({ "volumeClaimTemplate": { "metadata": { "name": "x" }, "spec": {} } })),
                "volumeClaimTemplate.metadata.name",
                "cannot be set",
            ),
            (with(json!({ "accesModes": ["x"] })), "volumeClaimTemplate.spec.accesModes", "is no field"),
        ] {
            assert!(said.starts_with(&format!("{at}.{path}: ")) && said.contains(why), "{path}: {said}");
        }
    }
}
