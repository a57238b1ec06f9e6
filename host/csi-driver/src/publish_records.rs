//! The publish records: which volume the controller has published to which node. A new one is
//! checked against access modes and the number of volumes that a node takes.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::check::{shown, volume};
use crate::records::RecordFolder;
use crate::refusal::{Refusal, Result};
use crate::usage::RequestedUsage;

/// How a volume is published to one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodePublication {
    pub(crate) usage: RequestedUsage,
    pub(crate) read_only: bool,
    /// What it is attached as there, if the controller attaches it and has.
    pub(crate) attached_as: Option<String>,
}

/// Where a volume is published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PublishRecord {
    volume_id: String,
    /// The plugin's name for it, if the controller attaches it.
    name: Option<String>,
    /// By node.
    nodes: BTreeMap<String, NodePublication>,
}

impl PublishRecord {
    /// The plugin's name for the volume, if the controller attaches it.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The nodes that it is published to.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &String> {
        self.nodes.keys()
    }
}

/// The publish records, changed by one call at a time: they are counted.
#[derive(Debug)]
pub(crate) struct PublishRecords(Mutex<RecordFolder<PublishRecord>>);

impl PublishRecords {
    /// Creates the records over their files.
    pub(crate) fn new(records: RecordFolder<PublishRecord>) -> Self {
        Self(Mutex::new(records))
    }

    fn with<T>(&self, work: impl FnOnce(&RecordFolder<PublishRecord>) -> T) -> T {
        work(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the record of a volume; none if it is published nowhere.
    pub(crate) fn read(&self, id: &str) -> Result<Option<PublishRecord>> {
        self.with(|records| records.read(id))
    }

    /// The nodes that the volume is published to.
    pub(crate) fn nodes_of(&self, id: &str) -> Result<Vec<String>> {
        let there = self.read(id)?;
        Ok(there.into_iter().flat_map(|there| there.nodes.into_keys()).collect())
    }

    /// Writes down that the volume is published so, unless what is published already forbids it;
    /// how it is then. `max_volumes` is how many a node takes.
    pub(crate) fn reserve(
        &self,
        id: &str,
        node_id: &str,
        name: Option<String>,
        wanted: NodePublication,
        max_volumes: Option<u32>,
    ) -> Result<NodePublication> {
        self.with(|records| {
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
                let alone =
                    |there: &NodePublication| !there.usage.is_for_many_nodes() || !wanted.usage.is_for_many_nodes();
                if let Some((other, _)) = all.nodes.iter().find(|(_, there)| alone(there)) {
                    return Err(Refusal::Precondition(format!(
                        "{} is published to {} already",
                        volume(id),
                        shown(other)
                    )));
                }
                check_room(&records.all()?, node_id, max_volumes)?;
            }
            all.name = name;
            all.nodes.insert(node_id.to_owned(), wanted.clone());
            records.write(id, &all)?;
            Ok(wanted)
        })
    }

    /// Forgets that the volume is published to the node.
    pub(crate) fn forget_node(&self, id: &str, node_id: &str) -> Result<()> {
        self.with(|records| {
            let Some(mut all) = records.read(id)? else { return Ok(()) };
            all.nodes.remove(node_id);
            if all.nodes.is_empty() { records.remove(id) } else { records.write(id, &all) }
        })
    }
}

/// Refuses one more volume on a node that has as many as it takes.
fn check_room(all: &[PublishRecord], node_id: &str, max_volumes: Option<u32>) -> Result<()> {
    let taken = all.iter().filter(|there| there.nodes.contains_key(node_id)).count();
    match max_volumes.and_then(|most| usize::try_from(most).ok()) {
        Some(most) if taken >= most => {
            Err(Refusal::Exhausted(format!("{} has {taken} volumes, and takes {most}", shown(node_id))))
        }
        _ => Ok(()),
    }
}
