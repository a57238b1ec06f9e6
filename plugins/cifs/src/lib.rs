#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod mount;
mod options;
mod source;
#[cfg(test)]
mod tests;

use source::Source;
use volhost_plugin_sdk::prelude::*;

/// The plugin `volhost.io/cifs`.
#[derive(Debug)]
pub struct Cifs;

/// Nothing is mounted below: the server refers to no other share.
const RECURSIVE: bool = false;

impl VolumePlugin for Cifs {
    fn describe(about: &mut Description) {
        about
            .name("volhost.io/cifs")
            .version(env!("CARGO_PKG_VERSION"))
            .serves("csi:cifs.volhost.io")
            .accepts_mount_options();
    }

    /// Sets no name: each pod has a mount of its own, and the kernel shares the connection.
    fn identify(volume: &Volume, _id: &mut Identity) -> Result<()> {
        Source::read(volume).map(|_| ())
    }

    fn publish(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        if target.is_mounted()? {
            return Ok(());
        }
        let mount = mount::mount(&source, volume, pod)?;
        let mut flags: Vec<&str> = source.options.of_mount.iter().map(String::as_str).collect();
        if source.read_only {
            flags.push("ro");
        }
        mount.set_options(&flags, RECURSIVE).context("spec.mountOptions")?;
        target.attach(mount)
    }

    fn unpublish(target: &MountTarget) -> Result<()> {
        target.detach()
    }
}

export_plugin!(Cifs);
