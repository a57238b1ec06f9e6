//! The fields of `local`, and how to open the path.

use volhost_plugin_sdk::PER_MOUNT_OPTIONS;
use volhost_plugin_sdk::prelude::*;

/// The file systems that the host can format and mount.
const FS_TYPES: &[(&str, &str)] =
    &[("ext2", "ext2"), ("ext3", "ext3"), ("ext4", "ext4"), ("xfs", "xfs"), ("btrfs", "btrfs"), ("", DEFAULT_FS)];
/// The default for a device, as with the kubelet.
const DEFAULT_FS: &str = "ext4";

/// A checked `local`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) persistent_volume: String,
    pub(crate) path: String,
    /// The file system that a blank device is formatted with, and a formatted one must contain.
    pub(crate) fs_type: &'static str,
    /// Per-mount options.
    pub(crate) mount_flags: Vec<String>,
    /// Options of the file system.
    pub(crate) fs_options: Vec<(String, Option<String>)>,
    pub(crate) fs_group: FsGroup,
}

/// The opened path.
#[derive(Debug)]
pub(crate) enum Opened {
    Folder(Box<MountSource>),
    Device(BlockDevice),
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
        let fs_type = volume.one_of("fsType", FS_TYPES)?.unwrap_or(DEFAULT_FS);
        let (mount_flags, fs_options) = mount_options(volume)?;
        Ok(Self { persistent_volume, path, fs_type, mount_flags, fs_options, fs_group: FsGroup::of(volume)? })
    }

    /// Opens the folder or device.
    ///
    /// # Errors
    /// `not-found` if it is missing, `precondition` for anything else; each with the way out.
    pub(crate) fn open(&self) -> Result<Opened> {
        let Self { path, persistent_volume, .. } = self;
        let source = match host_paths::open(path) {
            Err(Error::NotFound(why)) => {
                return Err(Error::not_found(format!(
                    "local.path: {path} does not exist on node {}. Is its disk there, or mounted, and does the \
                     nodeAffinity of PersistentVolume {persistent_volume} name the right node? ({why})",
                    node::name()
                )));
            }
            opened => opened.context("local.path")?,
        };
        match source.kind() {
            SourceKind::Directory => Ok(Opened::Folder(Box::new(source))),
            SourceKind::BlockDevice => block_devices::open(path).map(Opened::Device).context("local.path"),
            other => Err(Error::precondition(format!(
                "local.path: {path} is {other}; only a directory or a block device can be a local volume"
            ))),
        }
    }

    /// Opens the device of a volume that is one.
    ///
    /// # Errors
    /// As [`Source::open`], and `precondition` for a folder.
    pub(crate) fn device(&self) -> Result<BlockDevice> {
        match self.open()? {
            Opened::Device(device) => Ok(device),
            Opened::Folder(_) => Err(Error::precondition(format!(
                "local.path: {} is a directory, and volumeMode Block needs a block device; use volumeMode Filesystem",
                self.path
            ))),
        }
    }
}

/// The options, each by itself: one item may contain several, with commas, as in `fstab`.
type Options = (Vec<String>, Vec<(String, Option<String>)>);

fn mount_options(volume: &Volume) -> Result<Options> {
    let items = volume.mount_options();
    let all: Vec<&str> = items.iter().flat_map(|item| item.split(',')).map(str::trim).collect();
    if all.contains(&"") {
        return Err(Error::invalid_argument("spec.mountOptions: an option is empty"));
    }
    let (flags, own): (Vec<&str>, Vec<&str>) = all.into_iter().partition(|option| PER_MOUNT_OPTIONS.contains(option));
    let own = own.into_iter().map(|option| match option.split_once('=') {
        Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
        None => (option.to_owned(), None),
    });
    Ok((flags.into_iter().map(str::to_owned).collect(), own.collect()))
}
