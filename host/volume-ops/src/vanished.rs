//! Mounts that should exist and do not.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use volhost_kernel::{Entry, KernelError};

use super::standing::{NodePlace, VolumePlace};
use super::volume_ops::VolumeOps;

/// What should stand as a mount and does not.
#[derive(Debug, Default)]
pub struct Vanished {
    /// In pods' folders.
    pub of_pods: Vec<VolumePlace>,
    /// Of the node's own.
    pub of_node: Vec<NodePlace>,
}

impl Vanished {
    /// Whether every mount exists.
    pub fn is_empty(&self) -> bool {
        self.of_pods.is_empty() && self.of_node.is_empty()
    }
}

impl VolumeOps {
    /// The volumes that should stand as mounts and do not. Nothing that is mounted is entered.
    ///
    /// # Errors
    /// When the mount table cannot be read.
    pub fn vanished(self: &Arc<Self>) -> Result<Vanished, KernelError> {
        let (of_pods, of_node) = (self.standing.all(), self.standing.all_on_node());
        if of_pods.is_empty() && of_node.is_empty() {
            return Ok(Vanished::default());
        }
        let there: HashSet<PathBuf> =
            self.kernel.mounts_below(&self.root)?.into_iter().map(|mount| mount.point).collect();
        // An operation may have taken it away, or set it up, since the table was read.
        let of_pods = of_pods.into_iter().filter(|place| !there.contains(&place.path()));
        let of_pods = of_pods.filter(|place| !self.is_mounted(&place.path()) && self.standing.has(place)).collect();
        let of_node = of_node.into_iter().filter(|place| !there.contains(&place.path()));
        let of_node =
            of_node.filter(|place| !self.is_mounted(&place.path()) && self.standing.has_on_node(place)).collect();
        Ok(Vanished { of_pods, of_node })
    }

    fn is_mounted(&self, path: &Path) -> bool {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return false };
        let Ok(Some(folder)) = self.open_if_there(folder) else { return false };
        matches!(self.kernel.entry(&folder, name), Ok(Entry::Mount(_)))
    }
}
