//! What protects an attachment until its volume is detached, written with a new attachment.
//!
//! Before the driver is called, the attachment must have the attacher's finalizer, and the id by
//! which the driver knows the node. The attach/detach controller creates the attachment with both
//! where it may, so that the attacher has nothing to write before the call:
//!
//! ```text
//!  attach/detach controller: creates the attachment, protected
//!  attacher:                 ControllerPublishVolume --> status.attached
//! ```
//!
//! An attachment with a finalizer that no attacher removes stays for ever. So it is created
//! protected only if all of this is known:
//!
//! - Its PersistentVolume has the attacher's finalizer, and the annotation [`ATTACHER`] that this
//!   program's attacher writes with it. Such a volume cannot go without that attacher either.
//! - The PersistentVolume is not being deleted: no finalizer could be added to it.
//! - The driver has registered on the node, so that its node id is known.
//! - No secret is needed to detach the volume.
//!
//! # Guarantees
//! An attachment that is deleted before an attacher has seen it is detached by what it says itself:
//! its PersistentVolume, and the Node, may be gone by then.

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::finalizers::{self, FIELD_MANAGER};
use crate::migrated;

/// The annotation with the node's id as the driver knows it, as external-attacher has: the CSINode
/// may be gone when the volume is detached.
pub(crate) const NODE_ID: &str = "csi.alpha.kubernetes.io/node-id";
/// The annotation of an attachment with the volume's handle: the PersistentVolume may be gone when
/// the volume is detached.
const HANDLE: &str = "volhost.io/volume-handle";
/// The annotation of a PersistentVolume whose attacher takes attachments that were created
/// protected, with [`FIELD_MANAGER`] as value.
const ATTACHER: &str = "volhost.io/attacher";

/// The annotation that a PersistentVolume gets with the attacher's finalizer.
pub(crate) const OF_VOLUMES: (&str, &str) = (ATTACHER, FIELD_MANAGER);

/// Makes the metadata, but for the name, with which an attachment is created; none if the attacher
/// has to protect it.
pub(crate) fn metadata(volume: &PersistentVolume, driver: &str, node_id: &str) -> Option<ObjectMeta> {
    let finalizer = finalizers::of_attachments(driver);
    let is_served = annotation(&volume.metadata, ATTACHER) == Some(FIELD_MANAGER);
    let is_kept = volume.metadata.deletion_timestamp.is_none() && finalizers::has(&volume.metadata, &finalizer);
    if !is_served || !is_kept {
        return None;
    }
    let csi = migrated::source_of(volume, driver)?;
    if csi.controller_publish_secret_ref.is_some() {
        return None;
    }
    let annotations = [(NODE_ID, node_id.to_owned()), (HANDLE, csi.volume_handle)];
    Some(ObjectMeta {
        annotations: Some(annotations.map(|(key, value)| (key.to_owned(), value)).into()),
        finalizers: Some(vec![finalizer]),
        ..ObjectMeta::default()
    })
}

/// The node's id that the attachment was protected with.
pub(crate) fn node_id(attachment: &VolumeAttachment) -> Option<&str> {
    annotation(&attachment.metadata, NODE_ID)
}

/// The handle of the volume, of an attachment that was created protected.
pub(crate) fn handle(attachment: &VolumeAttachment) -> Option<&str> {
    annotation(&attachment.metadata, HANDLE)
}

fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const DRIVER: &str = "disk.example";

    fn of(change: impl FnOnce(&mut Value)) -> Option<ObjectMeta> {
        let mut volume = json!({
            "metadata": {
                "name": "pv", "finalizers": ["external-attacher/disk-example"],
                "annotations": { (OF_VOLUMES.0): OF_VOLUMES.1 },
            },
            "spec": { "csi": { "driver": DRIVER, "volumeHandle": "handle" } },
        });
        change(&mut volume);
        metadata(&serde_json::from_value(volume).unwrap(), DRIVER, "node-1")
    }

    #[test]
    fn an_attachment_is_protected_if_an_attacher_is_bound_to_its_volume() {
        let protected = of(|_| {}).unwrap();
        assert_eq!(protected.finalizers, Some(vec!["external-attacher/disk-example".to_owned()]));
        let attachment = VolumeAttachment { metadata: protected, ..VolumeAttachment::default() };
        assert_eq!((node_id(&attachment), handle(&attachment)), (Some("node-1"), Some("handle")));
    }

    #[test]
    fn a_finalizer_that_may_have_no_attacher_is_not_written() {
        let cases: [(&str, Value); 6] = [
            ("/metadata/finalizers", json!([])),
            ("/metadata/finalizers", json!(["external-attacher/other-example"])),
            ("/metadata/annotations", json!({})),
            ("/metadata/annotations", json!({ (OF_VOLUMES.0): "another" })),
            ("/spec/csi/driver", json!("other.example")),
            (
                "/spec/csi",
                json!({ "driver": DRIVER, "volumeHandle": "handle",
                "controllerPublishSecretRef": { "name": "login", "namespace": "store" } }),
            ),
        ];
        for (field, value) in cases {
            let shown = format!("{field} {value}");
            assert_eq!(of(|volume| *volume.pointer_mut(field).unwrap() = value), None, "{shown}");
        }
        assert_eq!(of(|volume| volume["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")), None);
    }
}
