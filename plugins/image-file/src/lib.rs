//! `image-file`: a file system in a file of the node, read-only, shared by all pods that name it.
//!
//! # Fields
//!
//! In a pod's `csi` volume, or in a PersistentVolume:
//!
//! | field of `csi` | value | meaning |
//! |---|---|---|
//! | `driver` | `image-file.volhost.io` | selects this plugin |
//! | `fsType` | `erofs`, `squashfs`, `ext4` | what the image must be |
//! | `volumeAttributes.image` | an absolute path, or a path below the folder that is granted | the image |
//! | `readOnly` | `true` | what it is anyway; `false` is refused |
//! | `volumeHandle` | any text | a PersistentVolume must have one; it is not used |
//!
//! `spec.mountOptions` of the PersistentVolume that belong to a mount (`noexec` ...) go to each pod's mount, the rest to the file system.
//!
//! # What the pod gets
//!
//! The image is mounted once for the node, and each pod gets a bind of that: read-only, without devices and without setuid programs.
//!
//! To replace an image, write the new one beside it and rename it over the old. Pods that run keep the old one, and so do pods that come before the
//! last of them has gone; then the next one gets the new. An image that is removed stays with its pods in the same way. Writing into
//! an image that is in use breaks it for the pods that read it.
//!
//! # Grant
//!
//! The plugin needs `image-files`, with the folders of images: `image-files = ["/var/lib/volhost-images"]`.

#![forbid(unsafe_code)]

mod source;
#[cfg(test)]
mod tests;

use source::Source;
use volhost_plugin_sdk::prelude::*;

/// The plugin `volhost.io/image-file`.
#[derive(Debug)]
pub struct ImageFile;

/// What is mounted below the image is nobody's but the node's.
const RECURSIVE: bool = false;
/// What every pod's mount has: an image comes from elsewhere, and brings no devices and no rights.
const ALWAYS: [&str; 3] = ["ro", "nodev", "nosuid"];

impl VolumePlugin for ImageFile {
    fn describe(about: &mut Description) {
        source.fs_group.map(&mount, pod).with_context(|| source.image.clone())?;
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
        Ok(())
    }

    fn set_up(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        if target.is_mounted()? {
            return Ok(());
        }
        let Some(node) = target.device_mount()? else {
            return Err(Error::precondition(format!("{} is not mounted on this node yet", source.image)));
        };
        let mount = node.bind(RECURSIVE).with_context(|| format!("binding the mount of {}", source.image))?;
        let of_mount = source.options.of_mount.iter().map(String::as_str);
        let options: Vec<&str> = ALWAYS.into_iter().chain(of_mount).collect();
        mount.set_options(&options, RECURSIVE)?;
        target.attach(mount)
    }

    fn tear_down(target: &MountTarget) -> Result<()> {
        target.detach()
    }
}

impl DeviceMounter for ImageFile {
    fn mount_device(volume: &Volume, _attached: Option<&Attachment>, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        if target.is_mounted()? {
            return Ok(());
        }
        let mount = image_files::mount(&source.image, source.fs_type, &source.options.borrowed())
            .context("csi.volumeAttributes.image")?;
        mount.set_options(&ALWAYS, RECURSIVE)?;
        target.attach(mount)
    }

    fn unmount_device(_volume_name: &str, target: &MountTarget) -> Result<()> {
        target.detach()
    }
}

export_plugin!(ImageFile, DeviceMounter);
