//! Which volume the controller has published to which node: a reservation, held against access modes and the number of volumes that a node
//! takes. The volume is attached by the node, when it is staged.

use std::sync::Mutex;
use std::sync::PoisonError;

use serde::{Deserialize, Serialize};

use crate::check::shown;
use crate::driver::Driver;
use crate::node::volume;
use crate::records::Records;
use crate::refusal::{Refusal, Result};
use crate::usage::Usage;

/// A volume that is published to this node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Publication {
    volume_id: String,
    node_id: String,
    usage: Usage,
    read_only: bool,
}

/// The publications, changed by one call at a time: they are counted.
#[derive(Debug)]
pub(crate) struct Publications(Mutex<Records<Publication>>);

impl Publications {
    pub(crate) fn new(records: Records<Publication>) -> Self {
        Self(Mutex::new(records))
    }

    fn with<T>(&self, work: impl FnOnce(&Records<Publication>) -> T) -> T {
        work(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Driver {
    /// Publishes the volume to this node. Published so already: done.
    pub(crate) fn reserve(&self, id: &str, node_id: &str, usage: Usage, read_only: bool) -> Result<()> {
        if node_id != self.node_id {
            let why = format!("this driver serves {}", shown(&self.node_id));
            return Err(Refusal::NotFound(format!("there is no node {}; {why}", shown(node_id))));
        }
        let _claim = self.in_flight.claim([volume(id)])?;
        self.check_usage(&usage)?;
        self.find_noted(id)?;
        let wanted = Publication { volume_id: id.to_owned(), node_id: node_id.to_owned(), usage, read_only };
        self.publications.with(|records| {
            match records.read(id)? {
                Some(there) if there == wanted => return Ok(()),
                Some(there) if there.node_id == wanted.node_id => {
                    return Err(Refusal::Conflict(format!(
                        "{} is published to {} already, with another capability or not as read-only as asked",
                        volume(id),
                        shown(node_id)
                    )));
                }
                Some(there) if !there.usage.is_for_many_nodes() => {
                    return Err(Refusal::Precondition(format!(
                        "{} is published to {} already",
                        volume(id),
                        shown(&there.node_id)
                    )));
                }
                Some(_) | None => {}
            }
            let taken = records.all()?.iter().filter(|there| there.node_id == node_id && there.volume_id != id).count();
            match self.max_volumes.and_then(|most| usize::try_from(most).ok()) {
                Some(most) if taken >= most => {
                    Err(Refusal::Exhausted(format!("{} has {taken} volumes, and takes {most}", shown(node_id))))
                }
                _ => records.write(id, &wanted),
            }
        })
    }

    /// Takes the volume from this node. Not published: done.
    pub(crate) fn release(&self, id: &str, node_id: &str) -> Result<()> {
        let _claim = self.in_flight.claim([volume(id)])?;
        self.publications.with(|records| match records.read(id)? {
            Some(there) if node_id.is_empty() || there.node_id == node_id => records.remove(id),
            _ => Ok(()),
        })
    }

    /// The nodes that the volume is published to.
    pub(crate) fn nodes_of(&self, id: &str) -> Result<Vec<String>> {
        self.publications.with(|records| Ok(records.read(id)?.into_iter().map(|there| there.node_id).collect()))
    }
}
