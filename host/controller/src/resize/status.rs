//! Patches of a claim's status. Conditions are merged by their type.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::{Value, json};
use volhost_cluster_client::claims::{RESIZE_PENDING, RESIZING, condition, without};
use volhost_cluster_client::quantity;

/// The driver grows the volume.
pub(super) fn growing(claim: &PersistentVolumeClaim, to: u64) -> Value {
    let has = |kind: &str| {
        claim.status.iter().filter_map(|status| status.conditions.as_ref()).flatten().any(|one| one.type_ == kind)
    };
    let mut conditions = Vec::new();
    if !has(RESIZING) {
        conditions.push(condition(RESIZING));
    }
    json!({
        "allocatedResources": { "storage": quantity::of_bytes(to) },
        "allocatedResourceStatuses": { "storage": "ControllerResizeInProgress" },
        "conditions": conditions,
    })
}

/// The driver cannot.
pub(super) fn infeasible(claim: &PersistentVolumeClaim, to: u64) -> Value {
    let mut status = growing(claim, to);
    if let Some(all) = status.as_object_mut() {
        all.insert("allocatedResourceStatuses".to_owned(), json!({ "storage": "ControllerResizeInfeasible" }));
        all.remove("conditions");
    }
    status
}

/// The node is to grow the file system.
pub(super) fn waiting_for_node(bytes: u64) -> Value {
    json!({
        "allocatedResources": { "storage": quantity::of_bytes(bytes) },
        "allocatedResourceStatuses": { "storage": "NodeResizePending" },
        "conditions": [condition(RESIZE_PENDING), without(RESIZING)],
    })
}

/// Whether the claim's sizes and their state are those of this status already.
pub(super) fn is_already(claim: &PersistentVolumeClaim, status: &Value) -> bool {
    let Some(now) = claim.status.as_ref() else { return false };
    ["allocatedResources", "allocatedResourceStatuses", "capacity"].iter().all(|field| {
        let has = match *field {
            "allocatedResources" => json!(now.allocated_resources),
            "allocatedResourceStatuses" => json!(now.allocated_resource_statuses),
            _ => json!(now.capacity),
        };
        status.get(field).is_none_or(|wanted| *wanted == has)
    })
}
