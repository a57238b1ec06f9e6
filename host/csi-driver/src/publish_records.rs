//! The publish records: which volume the controller has published to which node. A new one is
//! checked against access modes and the number of volumes that a node takes.
//!
//! A plugin that knows nodes by their names (`other-nodes`) attaches the volume to any node then.
//! With another plugin the record is a reservation, and the node attaches the volume when it stages
//! it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use volhost_model::VolumeSpec;
use volhost_runtime::{Call, Capability, NodeFacts};

use crate::check::{self, shown};
use crate::driver::Driver;
use crate::node::volume;
use crate::records::Records;
use crate::refusal::{Refusal, Result};
use crate::secrets::Secrets;
use crate::source::Asked;
use crate::usage::Usage;
use volhost_proto::csi::ControllerPublishVolumeRequest;

/// The entry of the publish context by which a node knows that the controller has attached the
/// volume, and as what.
pub(crate) const ATTACHED_AS: &str = "volhost.io/attached-as";
/// The field of a PersistentVolume's source that refers to the secrets of this call.
const SECRETS: &str = "controllerPublishSecretRef";

/// How a volume is published to one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OnOne {
    usage: Usage,
    read_only: bool,
    /// What it is attached as there, if the controller attaches it and has.
    attached_as: Option<String>,
}

/// Where a volume is published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PublishRecord {
    volume_id: String,
    /// The plugin's name for it, if the controller attaches it.
    name: Option<String>,
    /// By node.
    nodes: BTreeMap<String, OnOne>,
}

/// The publish records, changed by one call at a time: they are counted.
#[derive(Debug)]
pub(crate) struct PublishRecords(Mutex<Records<PublishRecord>>);

impl PublishRecords {
    pub(crate) fn new(records: Records<PublishRecord>) -> Self {
        Self(Mutex::new(records))
    }

    fn with<T>(&self, work: impl FnOnce(&Records<PublishRecord>) -> T) -> T {
        work(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Driver {
    /// Returns whether the controller attaches volumes itself: the plugin distinguishes nodes.
    fn attaches(&self) -> bool {
        self.can(Capability::Attacher) && self.can(Capability::OtherNodes)
    }

    /// Publishes the volume to a node, and returns what the node needs to know. Published so
    /// already: the same answer.
    ///
    /// # Errors
    /// [`Refusal`]; unless it is final, the volume may be attached, which the next call, or
    /// unpublishing, deals with.
    pub(crate) fn publish_to_node(&self, request: &ControllerPublishVolumeRequest) -> Result<HashMap<String, String>> {
        let (id, node_id) = (request.volume_id.as_str(), request.node_id.as_str());
        check::map("volume_context", &request.volume_context)?;
        let secrets = Secrets::read(&request.secrets)?;
        let usage = Usage::read(request.volume_capability.as_ref())?.for_any_group();
        if node_id != self.node_id && !self.attaches() && !self.any_node {
            let why = format!("this driver serves {}; see --any-node", shown(&self.node_id));
            return Err(Refusal::NotFound(format!("there is no node {}; {why}", shown(node_id))));
        }
        let _claim = self.in_flight.claim([volume(id)])?;
        self.check_usage(&usage)?;
        self.find_noted(id, &secrets)?;
        let asked =
            Asked { volume_id: id, context: &request.volume_context, usage: &usage, read_only: request.readonly };
        let spec = self.source.spec(&asked)?;
        let name = self.name_to_attach(id, &spec)?;
        let wanted = OnOne { usage, read_only: request.readonly, attached_as: None };
        // Before the first step: without a record, nothing would undo it after a crash.
        let there = self.reserve(id, node_id, name.clone(), wanted.clone())?;
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
                        self.forget_node(id, node_id)?;
                        return Err(refusal);
                    }
                    Err(refusal) => return Err(refusal),
                }
            }
        };
        self.reserve(id, node_id, name, OnOne { attached_as: Some(attached_as.clone()), ..wanted })?;
        Ok(HashMap::from([(ATTACHED_AS.to_owned(), attached_as)]))
    }

    /// Takes the volume from this node, or from all if none is named. Not published: done.
    ///
    /// # Errors
    /// [`Refusal`]; repeat it.
    pub(crate) fn unpublish_from_node(&self, id: &str, node_id: &str, secrets: &Secrets) -> Result<()> {
        let _claim = self.in_flight.claim([volume(id)])?;
        let Some(there) = self.publish_records.with(|records| records.read(id))? else { return Ok(()) };
        for node in there.nodes.keys().filter(|node| node_id.is_empty() || *node == node_id) {
            if let Some(name) = &there.name {
                let call = self.call_for(id, node, secrets);
                self.stepped("detaching", id, self.steps(&call).detach(name))?;
            }
            self.forget_node(id, node)?;
        }
        Ok(())
    }

    /// The nodes that the volume is published to.
    pub(crate) fn nodes_of(&self, id: &str) -> Result<Vec<String>> {
        let there = self.publish_records.with(|records| records.read(id))?;
        Ok(there.into_iter().flat_map(|there| there.nodes.into_keys()).collect())
    }

    /// The plugin's name for a volume that the controller attaches; none for one that it does not.
    fn name_to_attach(&self, id: &str, spec: &VolumeSpec) -> Result<Option<String>> {
        if !self.attaches() {
            return Ok(None);
        }
        let record = self.new_record(id, spec, None)?;
        Ok(record.name.filter(|_| record.attachable))
    }

    /// Writes down that the volume is published so, unless what is published already forbids it;
    /// how it is then.
    fn reserve(&self, id: &str, node_id: &str, name: Option<String>, wanted: OnOne) -> Result<OnOne> {
        self.publish_records.with(|records| {
            let mut all = records.read(id)?.unwrap_or(PublishRecord {
                volume_id: id.to_owned(),
                name: None,
                nodes: BTreeMap::new(),
            });
            if let Some(there) = all.nodes.get(node_id) {
                if (&there.usage, there.read_only) != (&wanted.usage, wanted.read_only) {
                    return Err(Refusal::Conflict(format!(
                        "{} is published to {} already, with another capability or not as read-only as asked",
                        volume(id),
                        shown(node_id)
                    )));
                }
                if wanted.attached_as.is_none() {
                    return Ok(there.clone());
                }
            } else {
                let alone = |there: &OnOne| !there.usage.is_for_many_nodes() || !wanted.usage.is_for_many_nodes();
                if let Some((other, _)) = all.nodes.iter().find(|(_, there)| alone(there)) {
                    return Err(Refusal::Precondition(format!(
                        "{} is published to {} already",
                        volume(id),
                        shown(other)
                    )));
                }
                self.check_room(&records.all()?, node_id)?;
            }
            all.name = name;
            all.nodes.insert(node_id.to_owned(), wanted.clone());
            records.write(id, &all)?;
            Ok(wanted)
        })
    }

    /// Refuses one more volume on a node that has as many as it takes.
    fn check_room(&self, all: &[PublishRecord], node_id: &str) -> Result<()> {
        let taken = all.iter().filter(|there| there.nodes.contains_key(node_id)).count();
        match self.max_volumes.and_then(|most| usize::try_from(most).ok()) {
            Some(most) if taken >= most => {
                Err(Refusal::Exhausted(format!("{} has {taken} volumes, and takes {most}", shown(node_id))))
            }
            _ => Ok(()),
        }
    }

    fn forget_node(&self, id: &str, node_id: &str) -> Result<()> {
        self.publish_records.with(|records| {
            let Some(mut all) = records.read(id)? else { return Ok(()) };
            all.nodes.remove(node_id);
            if all.nodes.is_empty() { records.remove(id) } else { records.write(id, &all) }
        })
    }

    /// Creates a call about a volume on another node, or on this one.
    fn call_for(&self, id: &str, node_id: &str, secrets: &Secrets) -> Call {
        let node = NodeFacts { name: node_id.to_owned(), ..NodeFacts::default() };
        self.call_with(id, secrets).with_node(Arc::new(node))
    }
}
