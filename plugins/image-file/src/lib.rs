#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod source;
#[cfg(test)]
mod tests;

use source::Source;
use volhost_plugin_sdk::prelude::*;

/// The plugin `volhost.io/image-file`.
#[derive(Debug)]
pub struct ImageFile;

/// Mounts below the image belong to the node and are not bound.
const RECURSIVE: bool = false;
/// The options of every pod's mount: a foreign image brings no devices and no setuid programs.
const ALWAYS: [&str; 3] = ["ro", "nodev", "nosuid"];

impl VolumePlugin for ImageFile {
    fn describe(about: &mut Description) {
        about
            .name("volhost.io/image-file")
            .version(env!("CARGO_PKG_VERSION"))
            .serves("csi:image-file.volhost.io")
            .accepts_mount_options()
            .read_only();
    }

    /// The volume's name is the image's path: all volumes of one image are one volume.
    fn identify(volume: &Volume, id: &mut Identity) -> Result<()> {
        let source = Source::read(volume)?;
        id.name(&format!("{}:{}", source.fs_type, source.image));
        id.selinux_mount(true);
        Ok(())
    }

    fn publish(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        if target.is_mounted()? {
            return Ok(());
        }
        let Some(node) = target.staging_mount()? else {
            return Err(Error::precondition(format!("{} is not staged on this node yet", source.image)));
        };
        let mount = node.bind(RECURSIVE).with_context(|| format!("binding the mount of {}", source.image))?;
        let of_mount = source.options.of_mount.iter().map(String::as_str);
        let options: Vec<&str> = ALWAYS.into_iter().chain(of_mount).collect();
        mount.set_options(&options, RECURSIVE)?;
        source.fs_group.map(&mount, pod).with_context(|| source.image.clone())?;
        target.attach(mount)
    }

    fn unpublish(target: &MountTarget) -> Result<()> {
        target.detach()
    }
}

impl Stager for ImageFile {
    fn stage(volume: &Volume, _attached: Option<&Attachment>, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        if target.is_mounted()? {
            return Ok(());
        }
        let mount = image_files::mount(&source.image, source.fs_type, &source.options.borrowed())
            .context("csi.volumeAttributes.image")?;
        mount.set_options(&ALWAYS, RECURSIVE)?;
        target.attach(mount)
    }

    fn unstage(_volume_name: &str, target: &MountTarget) -> Result<()> {
        target.detach()
    }
}

export_plugin!(ImageFile, Stager);
