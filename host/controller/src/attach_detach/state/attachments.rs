//! What VolumeAttachments change: those that the watch shows, and those that this program writes.

use std::collections::HashSet;

use k8s_openapi::api::storage::v1::VolumeAttachment;

use super::{Attachment, Change, ClusterState, Nodes, remove, version};
use crate::attach_detach::names;
use crate::attach_detach::plan::{AttachmentFacts, Stage};
use crate::attach_detach::source::csi_name;

impl ClusterState {
    /// VolumeAttachments have changed.
    pub(in crate::attach_detach) fn attachments(&mut self, change: Change<VolumeAttachment>) -> Nodes {
        let mut nodes = Nodes::new();
        match change {
            Change::Begun => self.lists = self.lists.saturating_add(1),
            Change::Listed(listed) => {
                let names: HashSet<&str> = listed.iter().filter_map(|one| one.metadata.name.as_deref()).collect();
                let lists = self.lists;
                // What was made after the list was asked for need not be in it.
                let is_gone = |(name, known): &(&String, &Attachment)| {
                    !names.contains(name.as_str()) && known.created_in.is_none_or(|begun| begun < lists)
                };
                let gone = self.attachments.iter().filter(is_gone).map(|(name, _)| name.clone());
                let gone: Vec<String> = gone.collect();
                gone.iter().for_each(|name| self.drop_attachment(name, &mut nodes));
                let shown: HashSet<&String> = listed.iter().filter_map(|one| one.metadata.uid.as_ref()).collect();
                self.gone.retain(|uid| shown.contains(uid));
                listed.iter().for_each(|one| self.put_attachment(one, false, &mut nodes));
            }
            Change::Applied(attachment) => self.put_attachment(&attachment, false, &mut nodes),
            Change::Deleted(attachment) => {
                let uid = attachment.metadata.uid.unwrap_or_default();
                self.gone.remove(&uid);
                let name = attachment.metadata.name.unwrap_or_default();
                let is_other = |known: &Attachment| known.facts.uid.as_ref().is_some_and(|known| *known != uid);
                if !self.attachments.get(&name).is_some_and(is_other) {
                    self.drop_attachment(&name, &mut nodes);
                }
            }
        }
        nodes
    }

    /// This program has written this VolumeAttachment: the API server's answer.
    pub(in crate::attach_detach) fn wrote_attachment(&mut self, attachment: &VolumeAttachment) -> Nodes {
        let mut nodes = Nodes::new();
        self.put_attachment(attachment, true, &mut nodes);
        nodes
    }

    /// The VolumeAttachment of this name was not created.
    pub(in crate::attach_detach) fn not_created(&mut self, name: &str) -> Nodes {
        let mut nodes = Nodes::new();
        if self.attachments.get(name).is_some_and(|known| known.facts.uid.is_none()) {
            self.drop_attachment(name, &mut nodes);
        }
        nodes
    }

    /// Whether the VolumeAttachment of this name was created is not known.
    pub(in crate::attach_detach) fn may_be_created(&mut self, name: &str) {
        if let Some(known) = self.attachments.get_mut(name).filter(|known| known.facts.uid.is_none()) {
            known.facts.stage = Stage::Uncertain;
        }
    }

    /// The API server says that this VolumeAttachment is gone.
    pub(in crate::attach_detach) fn deleted_attachment(&mut self, name: &str, uid: Option<&str>) -> Nodes {
        let mut nodes = Nodes::new();
        let known = self.attachments.get(name).map(|known| known.facts.uid.as_deref());
        if known == Some(uid) {
            self.gone.extend(uid.map(str::to_owned));
            self.drop_attachment(name, &mut nodes);
        }
        nodes
    }

    fn put_attachment(&mut self, object: &VolumeAttachment, is_answer: bool, nodes: &mut Nodes) {
        let Some(name) = object.metadata.name.clone() else { return };
        let uid = object.metadata.uid.clone();
        if uid.as_ref().is_some_and(|uid| self.gone.contains(uid)) {
            return;
        }
        let version = version(object);
        let before = self.attachments.get(&name);
        let is_old = |known: &&Attachment| known.facts.uid == uid && known.version >= version;
        if before.is_some_and(|known| is_old(&known)) {
            if let Some(known) = self.attachments.get_mut(&name).filter(|_| !is_answer) {
                known.created_in = None;
            }
            return;
        }
        let before = self.take_attachment(&name);
        let status = object.status.as_ref();
        let error = |error: Option<&k8s_openapi::api::storage::v1::VolumeError>| {
            error.and_then(|error| error.message.clone()).filter(|message| !message.is_empty())
        };
        let stage = match (&object.metadata.deletion_timestamp, status.is_some_and(|status| status.attached)) {
            (Some(_), _) => Stage::Detaching,
            (None, true) => Stage::Attached,
            (None, false) => Stage::Attaching,
        };
        let source = &object.spec.source;
        let inline = source.inline_volume_spec.as_ref().and_then(csi_name);
        let persistent_volume = source.persistent_volume_name.clone();
        let volume = inline.or_else(|| self.volume_of(persistent_volume.as_deref()?));
        // An answer to a creation: until the watch shows it, a list may be older than it.
        let created_in = match &before {
            Some(before) if before.facts.uid == uid => before.created_in,
            _ => Some(self.lists),
        };
        let mut known = Attachment {
            node: object.spec.node_name.clone(),
            facts: AttachmentFacts {
                stage,
                uid,
                is_own: false,
                volume: volume.or_else(|| before.as_ref()?.facts.volume.clone()),
                attach_error: error(status.and_then(|status| status.attach_error.as_ref())),
            },
            persistent_volume,
            detach_error: error(status.and_then(|status| status.detach_error.as_ref())),
            version,
            created_in: created_in.filter(|_| is_answer),
        };
        known.facts.is_own = is_own(&name, &known);
        nodes.insert(known.node.clone());
        let is_same_error = before.as_ref().is_some_and(|before| before.detach_error == known.detach_error);
        if let (false, Some(volume)) = (is_same_error, &known.facts.volume) {
            nodes.extend(self.waiting.get(volume).into_iter().flatten().cloned());
        }
        self.insert_attachment(name, known);
    }

    fn drop_attachment(&mut self, name: &str, nodes: &mut Nodes) {
        let Some(known) = self.take_attachment(name) else { return };
        if let Some(since) = self.unwanted_since.get_mut(&known.node) {
            since.remove(name);
        }
        nodes.insert(known.node);
        match &known.facts.volume {
            Some(volume) => nodes.extend(self.waiting.get(volume).into_iter().flatten().cloned()),
            // Of which volume it was, is not known.
            None => nodes.extend(self.waiting.values().flatten().cloned()),
        }
    }

    pub(super) fn take_attachment(&mut self, name: &str) -> Option<Attachment> {
        let known = self.attachments.remove(name)?;
        let name = name.to_owned();
        remove(&mut self.attachments_of_node, &known.node, &name);
        match &known.facts.volume {
            Some(volume) => remove(&mut self.attachments_of_volume, volume, &name),
            None => drop(self.unidentified.remove(&name)),
        }
        if let Some(object) = &known.persistent_volume {
            remove(&mut self.attachments_of_object, object, &name);
        }
        Some(known)
    }

    pub(super) fn insert_attachment(&mut self, name: String, known: Attachment) {
        self.attachments_of_node.entry(known.node.clone()).or_default().insert(name.clone());
        match &known.facts.volume {
            Some(volume) => drop(self.attachments_of_volume.entry(volume.clone()).or_default().insert(name.clone())),
            None => drop(self.unidentified.insert(name.clone())),
        }
        if let Some(object) = &known.persistent_volume {
            self.attachments_of_object.entry(object.clone()).or_default().insert(name.clone());
        }
        self.attachments.insert(name, known);
    }
}

/// Whether Kubernetes' controller or this one has made it: its name says for which volume. Where the
/// volume is not known, its form must do.
pub(super) fn is_own(name: &str, known: &Attachment) -> bool {
    match &known.facts.volume {
        Some(volume) => names::attachment(volume, &known.node) == name,
        None => names::is_attachment(name),
    }
}
