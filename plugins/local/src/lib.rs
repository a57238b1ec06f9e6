//! `local`: a folder or a block device of one node, as a PersistentVolume.
//!
//! # Fields
//!
//! | field | value | meaning |
//! |---|---|---|
//! | `path` | an absolute path without `..` | the folder or device; symbolic links are followed |
//! | `fsType` | `ext4` (default), `ext3`, `ext2`, `xfs`, `btrfs` | what a blank device is formatted with, and a formatted one must hold; a folder has its file system already |
//!
//! `spec.mountOptions` of the PersistentVolume may hold what belongs to a mount (`ro`, `nosuid`, `nodev`, `noexec`, `noatime`,
//! `nodiratime`, `relatime`, `strictatime`, `nosymfollow`), and for a device what belongs to its file system.
//!
//! The annotation `volhost.io/fs-group` of the PersistentVolume says how a pod gets at its files:
//!
//! | `volhost.io/fs-group` | meaning |
//! |---|---|
//! | `walk`, or none | every file gets the pod's `fsGroup` and the mode that lets it in, by `fsGroupChangePolicy` |
//! | `map` | the pod's mount shows the files of the root folder's group as the `fsGroup`'s; nothing is written, and it takes no time. Their modes must let the group in already. Pods with different groups can share such a volume |
//!
//! # What the pod gets
//!
//! A folder is bound once for the node, without the mounts below it, and then for each pod; read-only if the volume is. It must be
//! there: a missing one may be a disk that is not mounted yet, so it is never created, and is tried again until it is there.
//!
//! The file system of a device is mounted once for the node, checked before, and then bound for each pod. A blank device is formatted;
//! one that holds anything else never is. A device that something else on the node uses is refused. With `volumeMode: Block` the
//! pod gets the device itself. When `spec.capacity.storage` is raised, the file system grows to the size that the device has.
//!
//! # Shared volumes
//!
//! The files get the `fsGroup` of the first pod that has the volume for writing. A pod that comes while others have it gets it as it is,
//! and the event `AlreadyMountedVolume` if its group is another.
//!
//! # Grant
//!
//! The plugin needs `host-paths` for what the path leads to, `block-devices` for devices, and `id-maps` for `map`. It reaches nothing
//! outside its grant, symbolic links or not.

#![forbid(unsafe_code)]

mod ownership;
mod source;
mod staging;
#[cfg(test)]
mod tests;

use source::Source;
use volhost_plugin_sdk::prelude::*;

/// The plugin `kubernetes.io/local-volume`.
#[derive(Debug)]
pub struct Local;

/// The volume is the folder, not what else is mounted below it.
const RECURSIVE: bool = false;

impl VolumePlugin for Local {
    fn describe(about: &mut Description) {
        about
            .name("kubernetes.io/local-volume")
            .version(env!("CARGO_PKG_VERSION"))
            .serves("local")
            .accepts_mount_options();
    }

    /// The volume's name is the PersistentVolume's.
    fn identify(volume: &Volume, id: &mut Identity) -> Result<()> {
        id.name(&Source::read(volume)?.persistent_volume);
        Ok(())
    }

    fn set_up(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        if !target.is_mounted()? {
            target.attach(mount_for(&source, volume, pod, target)?)?;
        }
        match source.fs_group {
            FsGroup::Walk => ownership::give(volume, pod, target),
            FsGroup::Map => Ok(()),
        }
    }

    fn tear_down(target: &MountTarget) -> Result<()> {
        target.detach()
    }
}

impl DeviceMounter for Local {
    fn mount_device(volume: &Volume, _attached: Option<&Attachment>, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        if target.is_mounted()? {
            return Ok(());
        }
        target.attach(staging::mount(&source)?)
    }

    fn unmount_device(_volume_name: &str, target: &MountTarget) -> Result<()> {
        target.detach()
    }
}

impl BlockMapper for Local {
    fn set_up_device(volume: &Volume, _attached: Option<&Attachment>) -> Result<BlockDevice> {
        Source::read(volume)?.device()
    }
}

impl Expander for Local {
    fn expand(volume: &Volume, _attached: Option<&Attachment>, target: Option<&MountTarget>, to: u64) -> Result<u64> {
        staging::expand(&Source::read(volume)?, target, to)
    }
}

/// A bind of the node's mount, as the pod is to have it.
fn mount_for(source: &Source, volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<DetachedMount> {
    let Some(node) = target.device_mount()? else {
        return Err(Error::precondition(format!("local.path: {} is not mounted on this node yet", source.path)));
    };
    let mount = node.bind(RECURSIVE).with_context(|| format!("binding the mount of {}", source.path))?;
    let mut options: Vec<&str> = source.mount_flags.iter().map(String::as_str).collect();
    if volume.read_only() && !options.contains(&"ro") {
        options.push("ro");
    }
    if !options.is_empty() {
        mount.set_options(&options, RECURSIVE)?;
    }
    source.fs_group.map(&mount, pod).with_context(|| source.path.clone())?;
    Ok(mount)
}

export_plugin!(Local, DeviceMounter, BlockMapper, Expander);
