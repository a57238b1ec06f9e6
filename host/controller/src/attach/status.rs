//! Patches of an attachment's status.

use std::collections::BTreeMap;

use k8s_openapi::api::storage::v1::VolumeAttachment;
use serde_json::{Value, json};

use super::failure::AttachError;

/// The volume is attached. `context`: what the node needs to know.
pub(super) fn attached(context: BTreeMap<String, String>) -> Value {
    json!({ "attached": true, "attachmentMetadata": context, "attachError": null })
}

/// Attaching (or detaching, if the attachment is deleted) failed.
pub(super) fn failed(attachment: &VolumeAttachment, is_deleted: bool, error: &AttachError) -> Value {
    let mut said = json!({ "message": error.to_string(), "time": jiff::Timestamp::now() });
    if let (Some(code), Some(said)) = (error.code(), said.as_object_mut()) {
        said.insert("errorCode".to_owned(), json!(code));
    }
    let field = if is_deleted { "detachError" } else { "attachError" };
    // The field is required, and absent from an attachment without a status.
    let attached = attachment.status.as_ref().is_some_and(|status| status.attached);
    json!({ "attached": attached, field: said })
}
