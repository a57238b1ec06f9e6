#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod connection;
mod portal;
mod source;
#[cfg(test)]
mod tests;

use connection::Connection;
use source::Source;
use volhost_plugin_sdk::prelude::*;

/// The plugin `kubernetes.io/iscsi`.
#[derive(Debug)]
pub struct Iscsi;

impl VolumePlugin for Iscsi {
    fn describe(about: &mut Description) {
        about.name("kubernetes.io/iscsi").version(env!("CARGO_PKG_VERSION")).serves("iscsi").accepts_mount_options();
    }

    /// The name has all that leads to the unit: unstaging knows nothing else.
    fn identify(volume: &Volume, id: &mut Identity) -> Result<()> {
        id.name(&Source::read(volume)?.connection.to_string());
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

impl Stager for Iscsi {
    fn stage(volume: &Volume, _attached: Option<&Attachment>, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        if target.is_mounted()? {
            return Ok(());
        }
        let device = source.connect(volume)?;
        match source.file_system().mount(&device).and_then(|mount| target.attach(mount)) {
            Ok(()) => Ok(()),
            Err(error) => Err(source.connection.undone(error)),
        }
    }

    fn unstage(volume_name: &str, target: &MountTarget) -> Result<()> {
        target.detach()?;
        Connection::named(volume_name)?.unit()?.disconnect()
    }
}

impl BlockMapper for Iscsi {
    fn stage_device(volume: &Volume, _attached: Option<&Attachment>) -> Result<Option<BlockDevice>> {
        Source::read(volume)?.connect(volume).map(Some)
    }

    fn unstage_device(volume_name: &str) -> Result<()> {
        Connection::named(volume_name)?.unit()?.disconnect()
    }
}

impl Expander for Iscsi {
    fn expand(volume: &Volume, _attached: Option<&Attachment>, target: Option<&MountTarget>, to: u64) -> Result<u64> {
        let source = Source::read(volume)?;
        let device = source.connection.unit()?.rescan().context("iscsi")?;
        source.file_system().expand(&device, target, to)
    }
}

export_plugin!(Iscsi, Stager, BlockMapper, Expander);
