//! VolumeAttachments to what a controller says of this node's volumes.
//!
//! ```text
//!  VolumeAttachment --spec.nodeName--> of this node --spec.source--> PersistentVolume --> plugin --> unique name
//!        |                                                                 |
//!        '-- status: attached, attachmentMetadata, attachError             '-- missing, of another attacher: told
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use volhost_model::{PluginName, UniqueVolumeName, VolumeSpec};

use super::catalog::{NoChoice, PluginCatalog};
use super::claim;
use crate::{ObjectStore, VolumeAttachmentObject};

/// What a controller says of the volumes of this node, by VolumeAttachments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AttachmentReport {
    /// What is attached.
    pub attached: BTreeMap<UniqueVolumeName, ReportedAttachment>,
    /// What could not be attached, and why.
    pub failed: BTreeMap<UniqueVolumeName, String>,
    /// What another node has still, as the controller says, and has to give up before it is attached here.
    pub elsewhere: BTreeMap<UniqueVolumeName, String>,
    /// What could not be detached, and why.
    pub not_detached: BTreeMap<UniqueVolumeName, String>,
    /// VolumeAttachments of this node that say nothing, by name, and why.
    pub ignored: BTreeMap<String, String>,
    /// PersistentVolumes that are attached to this node, by VolumeAttachments that name them, whether or
    /// not their volumes could be resolved.
    pub named: BTreeSet<String>,
    /// Every manifest has been read: what no VolumeAttachment says is not so.
    pub complete: bool,
}

/// An attached volume, as the controller reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedAttachment {
    /// The VolumeAttachment's name.
    pub attached_as: String,
    /// `status.attachmentMetadata`.
    pub metadata: BTreeMap<String, String>,
}

/// Reads every VolumeAttachment of the node. `host_attaches` says whether the volumes of a plugin are attached by the host, so that no controller's
/// word counts; `complete`, whether every manifest has been read.
pub fn attachments_of(
    node: &str,
    store: &ObjectStore,
    catalog: &dyn PluginCatalog,
    host_attaches: impl Fn(&PluginName) -> bool,
    complete: bool,
) -> AttachmentReport {
    let mut report = AttachmentReport { complete, ..AttachmentReport::default() };
    for (_, attachment) in store.volume_attachments() {
        let of_this_node = attachment.node == node;
        if of_this_node && attachment.attached {
            report.named.extend(attachment.persistent_volume.clone());
        }
        match volume_of(attachment, store, catalog, &host_attaches) {
            Ok((volume, _)) if of_this_node => report.take(volume, attachment),
            Ok((volume, false)) if attachment.attached => report.has(volume, attachment),
            // What a plugin has not said yet may be attached all the same (rule R2).
            Err(NoChoice { is_pending: true, .. }) => report.complete = false,
            // It may refer to what has not been read yet.
            Err(NoChoice { reason, .. }) if of_this_node && complete => {
                report.ignored.insert(attachment.name.clone(), reason);
            }
            _ => {}
        }
    }
    report
}

impl AttachmentReport {
    /// Another node has a volume that only one may have.
    fn has(&mut self, volume: UniqueVolumeName, attachment: &VolumeAttachmentObject) {
        let VolumeAttachmentObject { name, node, .. } = attachment;
        let why =
            format!("node {node} has it still (VolumeAttachment {name}); the controller detaches it from there first");
        self.elsewhere.insert(volume, why);
    }

    fn take(&mut self, volume: UniqueVolumeName, attachment: &VolumeAttachmentObject) {
        if let Some(why) = &attachment.detach_error {
            self.not_detached.insert(volume.clone(), why.clone());
        }
        if attachment.attached {
            let VolumeAttachmentObject { name, metadata, .. } = attachment;
            let reported = ReportedAttachment { attached_as: name.clone(), metadata: metadata.clone() };
            self.attached.insert(volume, reported);
        } else if let Some(why) = &attachment.attach_error {
            self.failed.insert(volume, why.clone());
        }
    }
}

/// The volume that is attached by it, and whether several nodes may have it.
fn volume_of(
    attachment: &VolumeAttachmentObject,
    store: &ObjectStore,
    catalog: &dyn PluginCatalog,
    host_attaches: impl Fn(&PluginName) -> bool,
) -> Result<(UniqueVolumeName, bool), NoChoice> {
    let Some(name) = &attachment.persistent_volume else {
        let why = "it describes its volume itself (inlineVolumeSpec); only PersistentVolumes are known here";
        return Err(why.to_owned().into());
    };
    let Some((volume, claim)) = store.persistent_volume(name) else {
        return Err(format!("there is no PersistentVolume {name}; add its manifest").into());
    };
    let claim = claim.map(|key| key.full_name()).unwrap_or_default();
    let spec = Arc::new(claim::spec_of(volume, claim, false)?);
    let choice = catalog.choose(&spec)?;
    let attacher = attacher_of(&spec, &choice.plugin);
    if attachment.attacher != attacher {
        return Err(format!(
            "spec.attacher is {:?}, and PersistentVolume {name} is of {attacher}",
            attachment.attacher
        )
        .into());
    }
    if host_attaches(&choice.plugin) {
        return Err(format!(
            "this node attaches volumes of {} itself; a controller's word is for a node that runs with --controller-attaches",
            choice.plugin
        )
        .into());
    }
    match &choice.unique_shared_name {
        Some(shared) if choice.attachable => {
            UniqueVolumeName::shared(&choice.plugin, shared).map(|volume| (volume, spec.allows_multi_attach())).map_err(
                |error| format!("plugin {} gives the volume a name that cannot be used: {error}", choice.plugin).into(),
            )
        }
        _ => Err(format!(
            "volumes of PersistentVolume {name} are not attached: plugin {} does not ask for it",
            choice.plugin
        )
        .into()),
    }
}

/// Who attaches a volume: for CSI the driver, for any other kind its plugin.
fn attacher_of(spec: &VolumeSpec, plugin: &PluginName) -> String {
    let driver = spec.parameter("driver").filter(|_| spec.source == "csi");
    driver.unwrap_or_else(|| plugin.to_string())
}
