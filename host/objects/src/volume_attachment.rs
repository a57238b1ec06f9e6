//! A VolumeAttachment's manifest, checked: what a controller wants attached to a node, and what has
//! become of it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PersistentVolumeSpec;
use k8s_openapi::api::storage::v1 as k8s;
use serde_json::{Map, Value};
use volhost_model::names::check_dns_subdomain;

use super::error::FieldError;

/// `errorCode` of a controller that has no place for another volume on the node: gRPC's
/// `RESOURCE_EXHAUSTED`.
const RESOURCE_EXHAUSTED: i32 = 8;

/// A VolumeAttachment of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeAttachmentObject {
    /// Its name: what the volume is attached as.
    pub name: String,
    /// `spec.attacher`: the CSI driver, or for a volume of another kind its plugin.
    pub attacher: String,
    /// `spec.nodeName`.
    pub node: String,
    /// `spec.source.persistentVolumeName`; none for a volume that it describes itself.
    pub persistent_volume: Option<String>,
    /// `spec.source.inlineVolumeSpec`, of a pod's own volume that a CSI driver serves in place of
    /// a former in-tree plugin.
    pub inline: Option<InlineVolume>,
    /// `status.attached`.
    pub attached: bool,
    /// `status.attachmentMetadata`, what the storage said of the attachment.
    pub metadata: BTreeMap<String, String>,
    /// The message of `status.attachError`.
    pub attach_error: Option<String>,
    /// The message of `status.detachError`.
    pub detach_error: Option<String>,
}

/// A volume that a VolumeAttachment describes itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlineVolume {
    /// The field of its source; none without one.
    pub source: Option<String>,
    /// The fields of the source.
    pub fields: Map<String, Value>,
    /// Its access modes.
    pub access_modes: Vec<String>,
}

/// Checks a VolumeAttachment.
pub(super) fn check(typed: k8s::VolumeAttachment, name: String) -> Result<VolumeAttachmentObject, FieldError> {
    let k8s::VolumeAttachment { spec, status, .. } = typed;
    for (path, text) in [("spec.attacher", &spec.attacher), ("spec.nodeName", &spec.node_name)] {
        if text.is_empty() {
            return Err(FieldError::other(path, "is empty; say who attaches the volume, and to which node"));
        }
    }
    let persistent_volume = spec.source.persistent_volume_name;
    let inline = spec.source.inline_volume_spec.map(inline_volume);
    match (&persistent_volume, &inline) {
        (Some(volume), None) => check_dns_subdomain("PersistentVolume name", volume)
            .map_err(|error| FieldError::new("spec.source.persistentVolumeName", error))?,
        (None, Some(_)) => {}
        (None, None) => {
            return Err(FieldError::other("spec.source", "names no volume; write persistentVolumeName"));
        }
        (Some(_), Some(_)) => {
            return Err(FieldError::other(
                "spec.source",
                "has persistentVolumeName and inlineVolumeSpec; a volume is one or the other",
            ));
        }
    }
    let status = status.unwrap_or_default();
    Ok(VolumeAttachmentObject {
        name,
        attacher: spec.attacher,
        node: spec.node_name,
        persistent_volume,
        inline,
        attached: status.attached,
        metadata: status.attachment_metadata.unwrap_or_default(),
        attach_error: status.attach_error.map(in_words),
        detach_error: status.detach_error.map(in_words),
    })
}

/// Kubernetes writes a CSI source here, and nothing else.
fn inline_volume(spec: PersistentVolumeSpec) -> InlineVolume {
    let csi = spec.csi.and_then(|csi| serde_json::to_value(csi).ok());
    let (source, fields) = match csi {
        Some(Value::Object(fields)) => (Some("csi".to_owned()), fields),
        _ => (None, Map::new()),
    };
    InlineVolume { source, fields, access_modes: spec.access_modes.unwrap_or_default() }
}

fn in_words(error: k8s::VolumeError) -> String {
    let message =
        error.message.filter(|message| !message.is_empty()).unwrap_or_else(|| "no reason is given".to_owned());
    match error.error_code {
        Some(RESOURCE_EXHAUSTED) => {
            format!("{message} (ResourceExhausted: as many volumes are attached to this node as may be)")
        }
        Some(code) => format!("{message} (code {code})"),
        None => message,
    }
}
