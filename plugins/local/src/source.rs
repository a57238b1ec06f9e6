//! The fields of `local`, and how to open what they say.

use volhost_plugin_sdk::PER_MOUNT_OPTIONS;
use volhost_plugin_sdk::prelude::*;

/// A checked `local`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) persistent_volume: String,
    pub(crate) path: String,
    pub(crate) mount_options: Vec<String>,
}

impl Source {
    /// Reads and checks every field.
    ///
    /// # Errors
    /// `invalid-argument` naming the field.
    pub(crate) fn read(volume: &Volume) -> Result<Self> {
        let Some(persistent_volume) = volume.persistent_volume() else {
            return Err(Error::invalid_argument(
                "local: a local volume is a PersistentVolume; a pod reaches it through a persistentVolumeClaim, and a \
                 path without one is a hostPath",
            ));
        };
        volume.known_fields(&["path", "fsType"])?;
        let path = volume.absolute_path("path")?;
        Ok(Self { persistent_volume, path, mount_options: mount_options(volume)? })
    }

    /// Opens the folder.
    ///
    /// # Errors
    /// `not-found` if it is missing, `unsupported` for a block device, `precondition` for anything else that is no
    /// folder; each with the way out.
    pub(crate) fn open(&self) -> Result<MountSource> {
        let Self { path, persistent_volume, .. } = self;
        let source = match host_paths::open(path) {
            Err(Error::NotFound(why)) => {
                return Err(Error::not_found(format!(
                    "local.path: {path} does not exist on node {}. Is its disk mounted, and does the nodeAffinity of \
                     PersistentVolume {persistent_volume} name the right node? ({why})",
                    node::name()
                )));
            }
            opened => opened.context("local.path")?,
        };
        match source.kind() {
            SourceKind::Directory => Ok(source),
            SourceKind::BlockDevice => Err(Error::unsupported(format!(
                "local.path: {path} is a block device; those come in a later version. Mount it on the node, and give \
                 the folder"
            ))),
            other => Err(Error::precondition(format!("local.path: {path} is {other}; it must be a directory"))),
        }
    }
}

/// The options, each by itself: one item may hold several, with commas, as in `fstab`.
fn mount_options(volume: &Volume) -> Result<Vec<String>> {
    let items = volume.mount_options();
    let options: Vec<String> =
        items.iter().flat_map(|item| item.split(',')).map(|option| option.trim().to_owned()).collect();
    match options.iter().find(|option| !PER_MOUNT_OPTIONS.contains(&option.as_str())) {
        None => Ok(options),
        Some(option) => Err(Error::invalid_argument(format!(
            "spec.mountOptions: {} can't be set on a local folder; known: {}",
            quoted(option),
            PER_MOUNT_OPTIONS.join(", ")
        ))),
    }
}
