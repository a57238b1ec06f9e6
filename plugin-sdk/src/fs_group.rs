//! The way in which a pod's `fsGroup` gets access to the files of a PersistentVolume, chosen by the
//! volume's owner.
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
//! // `Map` shows the mount's files to the group; `Walk` does nothing here, and changes the files after the mount is attached.
//! FsGroup::Walk.map(&mount, &pod.handle())?;
//! # Ok::<(), Error>(())
//! ```

use crate::error::{Context, Error, Result};
use crate::id_maps;
use crate::mounts::DetachedMount;
use crate::pod::Pod;
use crate::quote::quoted;
use crate::volume::Volume;

/// The annotation by which the owner chooses.
pub const ANNOTATION: &str = "volhost.io/fs-group";

/// The way in which the group gets access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FsGroup {
    /// Changes group and mode of every file: Kubernetes' way.
    /// See [`MountTarget::apply_fs_group`](crate::MountTarget::apply_fs_group).
    Walk,
    /// The pod's mount shows the files of the root folder's group as those of the pod's group;
    /// nothing is written, and modes stay as they are. See [`id_maps::map_group`].
    Map,
}

impl FsGroup {
    /// Reads the annotation [`ANNOTATION`] of the PersistentVolume: `walk`, which is the default,
    /// or `map`.
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
    /// Shows the mount's files to the pod's group, if it has one and the owner chose `map`. Call it
    /// before the mount is attached. With [`FsGroup::Walk`] it does nothing. A plugin that calls
    /// this needs the grant `id-maps`.
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
