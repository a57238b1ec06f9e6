#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod source;
#[cfg(test)]
mod tests;

use source::Source;
use volhost_plugin_sdk::prelude::*;

/// The plugin `volhost.io/tmpfs`.
#[derive(Debug)]
pub struct Memory;

/// Mounts below the volume belong to who made them.
const RECURSIVE: bool = false;

impl VolumePlugin for Memory {
    fn describe(about: &mut Description) {
        about
            .name("volhost.io/tmpfs")
            .version(env!("CARGO_PKG_VERSION"))
            .serves("csi:tmpfs.volhost.io")
            .accepts_mount_options();
    }

    /// The handle is the volume's name: pods with one handle share one memory.
    fn identify(volume: &Volume, id: &mut Identity) -> Result<()> {
        id.name(&Source::read(volume)?.handle);
        Ok(())
    }

    fn publish(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        if !target.is_mounted()? {
            let Some(node) = target.staging_mount()? else {
                return Err(Error::precondition(format!("{} is not staged on this node yet", quoted(&source.handle))));
            };
            let mount = node.bind(RECURSIVE)?;
            let mut options: Vec<&str> = source.mount_options.iter().map(String::as_str).collect();
            if volume.read_only() && !options.contains(&"ro") {
                options.push("ro");
            }
            mount.set_options(&options, RECURSIVE)?;
            target.attach(mount)?;
        }
        if volume.read_only() { Ok(()) } else { target.apply_fs_group(pod, false) }
    }

    fn unpublish(target: &MountTarget) -> Result<()> {
        target.detach()
    }
}

impl Stager for Memory {
    fn stage(volume: &Volume, _attached: Option<&Attachment>, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        if target.is_mounted()? {
            return Ok(());
        }
        target.attach(source.memory().create()?)
    }

    /// The content ends here: nothing else holds it.
    fn unstage(_volume_name: &str, target: &MountTarget) -> Result<()> {
        target.detach()
    }
}

export_plugin!(Memory, Stager);
