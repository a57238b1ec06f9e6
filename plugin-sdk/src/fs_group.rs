//! How the files of a PersistentVolume are given to a pod's `fsGroup`, as the volume's owner says.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! use volhost_plugin_sdk::fs_group::ANNOTATION;
//!
//! # let host = volhost_plugin_sdk::testing::TestHost::new();
//! let volume = Volume::builder("share").persistent_volume("pv").annotation(ANNOTATION, "map");
//! let pod = Pod::builder().fs_group(2000);
//! assert_eq!(FsGroup::of(&volume.handle())?, FsGroup::Map);
//! let mount = Tmpfs::new().create()?;
//! // `Map` shows the mount's files to the group; `Walk` does nothing here, and gives them after the mount is attached.
//! FsGroup::Walk.map(&mount, &pod.handle())?;
//! # Ok::<(), Error>(())
//! ```

use crate::error::{Context, Error, Result};
use crate::id_maps;
use crate::mounts::DetachedMount;
use crate::pod::Pod;
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
    /// The pod's mount shows the files of the root folder's group as its own; nothing is written,
    /// and modes stay as they are. See [`id_maps::map_group`].
    Map,
}

impl FsGroup {
    /// What the annotation [`ANNOTATION`] of the PersistentVolume says: `walk`, which it is without
    /// one, or `map`.
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
    /// Shows the mount's files to the pod's group, if it has one and the owner wants that: to be
    /// called before the mount is attached. With
    /// [`FsGroup::Walk`] nothing is done. A plugin that calls this needs the grant `id-maps`.
    ///
    /// # Errors
    /// As [`id_maps::map_group`].
    pub fn map(self, mount: &DetachedMount, pod: &Pod<'_>) -> Result<()> {
        match (self, pod.fs_group()) {
            (Self::Map, Some(group)) => id_maps::map_group(mount, group)
                .with_context(|| format!("annotation {ANNOTATION}: showing the files to group {group}")),
            _ => Ok(()),
        }
    }
}
