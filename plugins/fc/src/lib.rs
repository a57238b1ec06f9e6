#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod name;
mod source;
#[cfg(test)]
mod tests;

use name::UnitName;
use source::Source;
use volhost_plugin_sdk::prelude::*;

/// The plugin `kubernetes.io/fc`.
#[derive(Debug)]
pub struct Fc;

impl VolumePlugin for Fc {
    fn describe(about: &mut Description) {
        about.name("kubernetes.io/fc").version(env!("CARGO_PKG_VERSION")).serves("fc").accepts_mount_options();
    }

    /// The name has all that leads to the unit: unstaging knows nothing else.
    fn identify(volume: &Volume, id: &mut Identity) -> Result<()> {
        id.name(&Source::read(volume)?.unit.to_string());
        id.selinux_mount(true);
        Ok(())
    }

    fn publish(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        if !target.is_mounted()? {
            target.attach(source.file_system().bind(target)?)?;
        }
        if source.read_only {
            return Ok(());
        }
        target.apply_fs_group_of_first_pod(pod)
    }

    fn unpublish(target: &MountTarget) -> Result<()> {
        target.detach()
    }
}

impl Stager for Fc {
    fn stage(volume: &Volume, _attached: Option<&Attachment>, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        if target.is_mounted()? {
            return Ok(());
        }
        let device = source.unit.connect()?;
        match source.file_system().mount(&device).and_then(|mount| target.attach(mount)) {
            Ok(()) => Ok(()),
            Err(error) => Err(source.unit.undone(error)),
        }
    }

    fn unstage(volume_name: &str, target: &MountTarget) -> Result<()> {
        target.detach()?;
        UnitName::parse(volume_name)?.disconnect()
    }
}

impl BlockMapper for Fc {
    fn stage_device(volume: &Volume, _attached: Option<&Attachment>) -> Result<Option<BlockDevice>> {
        Source::read(volume)?.unit.connect().map(Some)
    }

    fn unstage_device(volume_name: &str) -> Result<()> {
        UnitName::parse(volume_name)?.disconnect()
    }
}

impl Expander for Fc {
    fn expand(volume: &Volume, _attached: Option<&Attachment>, target: Option<&MountTarget>, to: u64) -> Result<u64> {
        let source = Source::read(volume)?;
        source.file_system().expand(&source.unit.rescan()?, target, to)
    }
}

export_plugin!(Fc, Stager, BlockMapper, Expander);
