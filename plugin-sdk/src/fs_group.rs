//! How the files of a PersistentVolume are given to a pod's `fsGroup`, as the volume's owner says.

use crate::error::{Error, Result};
use crate::quote::quoted;
use crate::volume::Volume;

/// The annotation by which the owner says it.
pub const ANNOTATION: &str = "volhost.io/fs-group";

/// How it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FsGroup {
    /// Every file gets the group, and the mode that lets it in: Kubernetes' way.
    /// See [`MountTarget::apply_fs_group`](crate::MountTarget::apply_fs_group).
    Walk,
    /// The pod's mount shows the files of the root folder's group as its own; nothing is written, and modes stay as they are.
    /// See [`id_maps::map_group`](crate::id_maps::map_group).
    Map,
}

impl FsGroup {
    /// What the annotation [`ANNOTATION`] of the PersistentVolume says: `walk`, which it is without one, or `map`.
    ///
    /// # Errors
    /// [`InvalidArgument`](Error::InvalidArgument) for another word.
    pub fn of(volume: &Volume<'_>) -> Result<Self> {
        match volume.annotation(ANNOTATION).as_deref() {
            None | Some("walk") => Ok(Self::Walk),
            Some("map") => Ok(Self::Map),
            Some(other) => Err(Error::invalid_argument(format!(
                "metadata.annotations[{ANNOTATION}]: {} is not known. Known: \"walk\", \"map\"",
                quoted(other)
            ))),
        }
    }
}
