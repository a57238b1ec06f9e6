//! The last resort for a volume whose storage does not answer: a lazy unmount.

use std::path::Path;

use volhost_kernel::{Detach, KernelError};

use super::standing::{NodePlace, VolumePlace};
use super::volume_ops::VolumeOps;

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forced {
    /// The connection to the server of its FUSE file system was ended.
    pub server_ended: bool,
}

impl VolumeOps {
    /// Takes the mount at a place out of sight, whoever uses it; before that, if asked to, ends the connection to its server. A folder
    /// that is no mount stays if it holds anything (rule R5).
    ///
    /// # Errors
    /// What the kernel said. The connection may have been ended.
    pub fn force_unmount(&self, place: &VolumePlace, end_server: bool) -> Result<Forced, KernelError> {
        self.force_away(&place.path(), end_server, || self.standing.leaves(place))
    }

    /// The same for the node's own mount of a volume.
    ///
    /// # Errors
    /// As [`VolumeOps::force_unmount`].
    pub fn force_unmount_of_node(&self, place: &NodePlace, end_server: bool) -> Result<Forced, KernelError> {
        self.force_away(&place.path(), end_server, || self.standing.leaves_node(place))
    }

    fn force_away(&self, path: &Path, end_server: bool, leaves: impl FnOnce()) -> Result<Forced, KernelError> {
        let nothing = Forced { server_ended: false };
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(nothing) };
        let Some(folder) = self.open_if_there(folder)? else { return Ok(nothing) };
        let server_ended = end_server && self.kernel.end_server(&folder, name)?;
        leaves();
        self.kernel.detach(&folder, name, Detach::Lazy)?;
        Ok(Forced { server_ended })
    }
}
