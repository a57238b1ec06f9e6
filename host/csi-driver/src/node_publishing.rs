//! Publishes volumes to nodes, for the controller.
//!
//! A plugin that knows nodes by their names (`other-nodes`) attaches the volume to any node then.
//! With another plugin the record is a reservation, and the node attaches the volume when it stages
//! it.

use std::collections::HashMap;
use std::sync::Arc;

use volhost_model::VolumeSpec;
use volhost_runtime::{Call, Capability, NodeFacts};

use crate::check::{self, shown, volume};
use crate::driver::ServedPlugin;
use crate::publish_records::NodePublication;
use crate::refusal::{Refusal, Result};
use crate::secrets::RequestSecrets;
use crate::source::RequestedVolume;
use crate::usage::RequestedUsage;
use volhost_proto::csi::ControllerPublishVolumeRequest;

/// The entry of the publish context by which a node knows that the controller has attached the
/// volume, and as what.
pub(crate) const ATTACHED_AS: &str = "volhost.io/attached-as";
/// The field of a PersistentVolume's source that refers to the secrets of this call.
const SECRETS: &str = "controllerPublishSecretRef";

impl ServedPlugin {
    /// Returns whether the controller attaches volumes itself: the plugin distinguishes nodes.
    fn attaches(&self) -> bool {
        self.can(Capability::Attacher) && self.can(Capability::OtherNodes)
    }

    /// Publishes the volume to a node, and returns what the node needs to know. PublishedUse so
    /// already: the same answer.
    ///
    /// # Errors
    /// [`Refusal`]; unless it is final, the volume may be attached, which the next call, or
    /// unpublishing, deals with.
    pub(crate) fn publish_to_node(&self, request: &ControllerPublishVolumeRequest) -> Result<HashMap<String, String>> {
        let (id, node_id) = (request.volume_id.as_str(), request.node_id.as_str());
        check::map("volume_context", &request.volume_context)?;
        let secrets = RequestSecrets::read(&request.secrets)?;
        let usage = RequestedUsage::read(request.volume_capability.as_ref())?.for_any_group();
        if node_id != self.node_id && !self.attaches() && !self.any_node {
            let why = format!("this driver serves {}; see --any-node", shown(&self.node_id));
            return Err(Refusal::NotFound(format!("there is no node {}; {why}", shown(node_id))));
        }
        let _claim = self.in_flight.claim([volume(id)])?;
        self.check_usage(&usage)?;
        self.find_noted(id, &secrets)?;
        let asked = RequestedVolume {
            volume_id: id,
            context: &request.volume_context,
            usage: &usage,
            read_only: request.readonly,
        };
        let spec = self.source.spec(&asked)?;
        let name = self.name_to_attach(id, &spec, &secrets)?;
        let wanted = NodePublication { usage, read_only: request.readonly, attached_as: None };
        // Before the first step: without a record, nothing would undo it after a crash.
        let there = self.publish_records.reserve(id, node_id, name.clone(), wanted.clone(), self.max_volumes)?;
        if name.is_none() {
            return Ok(HashMap::new());
        }
        let attached_as = match there.attached_as {
            Some(attached_as) => attached_as,
            None => {
                let call = self.call_for(id, node_id, &secrets);
                let spec = secrets.referred(&self.plugin, &spec, SECRETS);
                let attached = self.steps(&call).attach(&spec, name.as_deref());
                match self.stepped("attaching", id, attached) {
                    Ok(attached_as) => attached_as,
                    Err(refusal) if refusal.is_final() => {
                        // Nothing was done, and the CO forgets it.
                        self.publish_records.forget_node(id, node_id)?;
                        return Err(refusal);
                    }
                    Err(refusal) => return Err(refusal),
                }
            }
        };
        let attached = NodePublication { attached_as: Some(attached_as.clone()), ..wanted };
        self.publish_records.reserve(id, node_id, name, attached, self.max_volumes)?;
        Ok(HashMap::from([(ATTACHED_AS.to_owned(), attached_as)]))
    }

    /// Takes the volume from this node, or from all if none is named. Not published: done.
    ///
    /// # Errors
    /// [`Refusal`]; repeat it.
    pub(crate) fn unpublish_from_node(&self, id: &str, node_id: &str, secrets: &RequestSecrets) -> Result<()> {
        let _claim = self.in_flight.claim([volume(id)])?;
        let Some(there) = self.publish_records.read(id)? else { return Ok(()) };
        for node in there.nodes().filter(|node| node_id.is_empty() || *node == node_id) {
            if let Some(name) = there.name() {
                let call = self.call_for(id, node, secrets);
                self.stepped("detaching", id, self.steps(&call).detach(name))?;
            }
            self.publish_records.forget_node(id, node)?;
        }
        Ok(())
    }

    /// The plugin's name for a volume that the controller attaches; none for one that it does not.
    fn name_to_attach(&self, id: &str, spec: &VolumeSpec, secrets: &RequestSecrets) -> Result<Option<String>> {
        if !self.attaches() {
            return Ok(None);
        }
        let record = self.new_record(id, spec, &secrets.referred(&self.plugin, spec, SECRETS), None)?;
        Ok(record.name.filter(|_| record.attachable))
    }

    /// Creates a call about a volume on another node, or on this one.
    fn call_for(&self, id: &str, node_id: &str, secrets: &RequestSecrets) -> Call {
        let node = NodeFacts { name: node_id.to_owned(), ..NodeFacts::default() };
        self.call_with(id, secrets).with_node(Arc::new(node))
    }
}
