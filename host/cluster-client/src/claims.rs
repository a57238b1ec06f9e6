//! Patches of the status of claims whose volumes grow. Conditions are merged by their type: the
//! patches are strategic ones.

use serde_json::{Value, json};

use crate::quantity;

/// The condition while the driver grows the volume.
pub const RESIZING: &str = "Resizing";
/// The condition while the node is to grow the file system.
pub const RESIZE_PENDING: &str = "FileSystemResizePending";

/// The volume and its file system have this size in bytes.
pub fn grown(bytes: u64) -> Value {
    json!({
        "capacity": { "storage": quantity::of_bytes(bytes) },
        "allocatedResources": { "storage": quantity::of_bytes(bytes) },
        "allocatedResourceStatuses": null,
        "conditions": [without(RESIZING), without(RESIZE_PENDING)],
    })
}

/// A condition of this type, which begins now.
pub fn condition(kind: &str) -> Value {
    json!({ "type": kind, "status": "True", "lastTransitionTime": jiff::Timestamp::now().round(jiff::Unit::Second).ok() })
}

/// The end of a condition of this type.
pub fn without(kind: &str) -> Value {
    json!({ "type": kind, "$patch": "delete" })
}
