//! Patches of a claim's status. Conditions are merged by their type.

use serde_json::{Value, json};

use super::failure::ModifyError;

/// The driver modifies the volume.
pub(super) fn modifying(class: &str) -> Value {
    json!({ "modifyVolumeStatus": { "targetVolumeAttributesClassName": class, "status": "InProgress" } })
}

/// It failed, and may be tried again.
pub(super) fn failed(class: &str, error: &ModifyError) -> Value {
    json!({
        "modifyVolumeStatus": { "targetVolumeAttributesClassName": class, "status": error.status() },
        "conditions": [{
            "type": "ModifyVolumeError",
            "status": "True",
            "message": error.to_string(),
            "lastTransitionTime": jiff::Timestamp::now().round(jiff::Unit::Second).ok(),
        }],
    })
}

/// It is done.
pub(super) fn modified(class: &str) -> Value {
    json!({
        "currentVolumeAttributesClassName": class,
        "modifyVolumeStatus": null,
        "conditions": [{ "type": "ModifyVolumeError", "$patch": "delete" }],
    })
}
