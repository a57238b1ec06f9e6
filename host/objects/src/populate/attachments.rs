//! VolumeAttachments to a controller's report of this node's volumes.
//!
//! ```text
//!  VolumeAttachment --spec.nodeName--> of this node --spec.source--> PersistentVolume --> plugin --> unique name
//!        |                                                                 |
//!        '-- status: attached, attachmentMetadata, attachError             '-- missing, of another attacher: ignored
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thiserror::Error;
use volhost_model::spec::{PersistentVolume, VolumeMode};
use volhost_model::{Fields, NameError, PluginName, SpecName, UniqueVolumeName, VolumeSpec};

use super::catalog::{NoChoice, PluginCatalog};
use super::claim;
use super::source::SourceError;
use crate::{ObjectStore, VolumeAttachmentObject};

/// A controller's report of the volumes of this node, by VolumeAttachments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AttachmentReport {
    /// The attached volumes.
    pub attached: BTreeMap<UniqueVolumeName, ReportedAttachment>,
    /// The volumes that could not be attached, and why.
    pub failed: BTreeMap<UniqueVolumeName, String>,
    /// Volumes that are still attached to another node, and must be detached there first.
    pub other_node: BTreeMap<UniqueVolumeName, String>,
    /// The volumes that could not be detached, and why.
    pub not_detached: BTreeMap<UniqueVolumeName, String>,
    /// VolumeAttachments of this node that are ignored, by name, and why.
    pub ignored: BTreeMap<String, String>,
    /// PersistentVolumes that are attached to this node, by VolumeAttachments that name them,
    /// whether or not their volumes could be resolved.
    pub named: BTreeSet<String>,
    /// Every manifest has been read: a volume without a VolumeAttachment is not attached.
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

/// Reads every VolumeAttachment of the node. `host_attaches`: the host attaches the volumes of a
/// plugin, so that controllers' reports of them are ignored. `complete`: every manifest has been
/// read.
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
            Ok((volume, _)) if of_this_node => report.add(volume, attachment),
            Ok((volume, false)) if attachment.attached => report.add_of_other_node(volume, attachment),
            // A volume that its plugin has not identified yet may be attached (rule R2).
            Err(NoChoice { is_pending: true, .. }) => report.complete = false,
            // It may refer to an object in an unread manifest.
            Err(NoChoice { reason, .. }) if of_this_node && complete => {
                report.ignored.insert(attachment.name.clone(), reason);
            }
            _ => {}
        }
    }
    report
}

impl AttachmentReport {
    /// Adds a volume that only one node may have, and that another node has.
    fn add_of_other_node(&mut self, volume: UniqueVolumeName, attachment: &VolumeAttachmentObject) {
        let VolumeAttachmentObject { name, node, .. } = attachment;
        let why =
            format!("node {node} has it still (VolumeAttachment {name}); the controller detaches it from there first");
        self.other_node.insert(volume, why);
    }

    fn add(&mut self, volume: UniqueVolumeName, attachment: &VolumeAttachmentObject) {
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

/// A VolumeAttachment that is ignored.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
enum IgnoredAttachment {
    /// It describes its volume inline, and not by a CSI source.
    #[error("its inlineVolumeSpec has no csi; only volumes of CSI drivers are described so")]
    Inline,
    /// Its PersistentVolume is unknown.
    #[error("there is no PersistentVolume {0}; add its manifest")]
    NoVolume(String),
    /// The PersistentVolume's source cannot be used.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Its attacher does not attach the volume.
    #[error("spec.attacher is {attacher:?}, and PersistentVolume {volume} is of {expected}")]
    OtherAttacher { attacher: String, volume: String, expected: String },
    /// The host attaches the volume.
    #[error(
        "this node attaches volumes of {0} itself; a controller's word is for a node that runs with --controller-attaches"
    )]
    HostAttaches(PluginName),
    /// The plugin gives the volume an invalid name.
    #[error("plugin {plugin} gives the volume a name that cannot be used: {problem}")]
    UniqueName {
        plugin: PluginName,
        #[source]
        problem: NameError,
    },
    /// The volume needs no attachment.
    #[error("volumes of PersistentVolume {volume} are not attached: plugin {plugin} does not ask for it")]
    NotAttachable { volume: String, plugin: PluginName },
}

impl From<IgnoredAttachment> for NoChoice {
    fn from(error: IgnoredAttachment) -> Self {
        error.to_string().into()
    }
}

/// Returns the volume of a VolumeAttachment, and whether several nodes may have it.
fn volume_of(
    attachment: &VolumeAttachmentObject,
    store: &ObjectStore,
    catalog: &dyn PluginCatalog,
    host_attaches: impl Fn(&PluginName) -> bool,
) -> Result<(UniqueVolumeName, bool), NoChoice> {
    let (name, spec) = match &attachment.persistent_volume {
        Some(name) => {
            let found = store.persistent_volume(name);
            let (volume, claim) = found.ok_or_else(|| IgnoredAttachment::NoVolume(name.clone()))?;
            let claim = claim.map(|key| key.full_name()).unwrap_or_default();
            (name, Arc::new(claim::spec_of(volume, claim, false).map_err(IgnoredAttachment::from)?))
        }
        None => (&attachment.name, Arc::new(inline_spec(attachment)?)),
    };
    let choice = catalog.choose(&spec)?;
    let plugin = choice.plugin;
    let expected = attacher_of(&spec, &plugin);
    if attachment.attacher != expected {
        let (attacher, volume) = (attachment.attacher.clone(), name.clone());
        return Err(IgnoredAttachment::OtherAttacher { attacher, volume, expected }.into());
    }
    if host_attaches(&plugin) {
        return Err(IgnoredAttachment::HostAttaches(plugin).into());
    }
    match &choice.unique_shared_name {
        Some(shared) if choice.attachable => match UniqueVolumeName::shared(&plugin, shared) {
            Ok(volume) => Ok((volume, spec.allows_multi_attach())),
            Err(problem) => Err(IgnoredAttachment::UniqueName { plugin, problem }.into()),
        },
        _ => Err(IgnoredAttachment::NotAttachable { volume: name.clone(), plugin }.into()),
    }
}

/// Returns the volume that an attachment describes itself.
fn inline_spec(attachment: &VolumeAttachmentObject) -> Result<VolumeSpec, IgnoredAttachment> {
    let inline = attachment.inline.as_ref().ok_or(IgnoredAttachment::Inline)?;
    let source = inline.source.clone().ok_or(IgnoredAttachment::Inline)?;
    let name = SpecName::new(attachment.name.as_str()).map_err(|_| IgnoredAttachment::Inline)?;
    let persistent_volume = PersistentVolume {
        name: attachment.name.clone(),
        claim: String::new(),
        capacity: None,
        claim_capacity: None,
        access_modes: inline.access_modes.clone(),
        mount_options: Vec::new(),
        volume_mode: VolumeMode::Filesystem,
        node_affinity: None,
        gid: None,
        annotations: BTreeMap::new(),
    };
    let fields = Fields::from(inline.fields.clone());
    let read_only = super::source::is_read_only(&fields);
    let persistent_volume = Some(Box::new(persistent_volume));
    Ok(VolumeSpec { selinux_label: None, name, source, fields, read_only, persistent_volume })
}

/// Returns the attacher of a volume: for CSI the driver, for any other kind its plugin.
fn attacher_of(spec: &VolumeSpec, plugin: &PluginName) -> String {
    let driver = spec.parameter("driver").filter(|_| spec.source == "csi");
    driver.unwrap_or_else(|| plugin.to_string())
}
