#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod source;
mod staging;
#[cfg(test)]
mod tests;

use source::Source;
use volhost_plugin_sdk::prelude::*;

/// The plugin `kubernetes.io/local-volume`.
#[derive(Debug)]
pub struct Local;

/// The volume is the folder, without the mounts below it.
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

    fn publish(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        if !target.is_mounted()? {
            target.attach(mount_for(&source, volume, pod, target)?)?;
        }
        if volume.read_only() || source.fs_group == FsGroup::Map {
            return Ok(());
        }
        target.apply_fs_group_of_first_pod(pod)
    }

    fn unpublish(target: &MountTarget) -> Result<()> {
        target.detach()
    }
}

impl Stager for Local {
    fn stage(volume: &Volume, _attached: Option<&Attachment>, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        if target.is_mounted()? {
            return Ok(());
        }
        target.attach(staging::mount(&source)?)
    }

    fn unstage(_volume_name: &str, target: &MountTarget) -> Result<()> {
        target.detach()
    }
}

impl BlockMapper for Local {
    fn stage_device(volume: &Volume, _attached: Option<&Attachment>) -> Result<Option<BlockDevice>> {
        Source::read(volume)?.device().map(Some)
    }
}

impl Expander for Local {
    fn expand(volume: &Volume, _attached: Option<&Attachment>, target: Option<&MountTarget>, to: u64) -> Result<u64> {
        staging::expand(&Source::read(volume)?, target, to)
    }
}

/// A bind of the staging mount, with the options of the pod's mount.
fn mount_for(source: &Source, volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<DetachedMount> {
    let Some(node) = target.staging_mount()? else {
        return Err(Error::precondition(format!("local.path: {} is not staged on this node yet", source.path)));
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

export_plugin!(Local, Stager, BlockMapper, Expander);
