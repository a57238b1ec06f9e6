#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod allocation;
mod controller;
mod groups;
mod handles;
mod images;
mod snapshots;
mod source;

#[cfg(test)]
mod tests;

use allocation::Allocation;
use source::Source;
use volhost_plugin_sdk::prelude::*;

/// Mounts below the file system belong to the node and are not bound.
const RECURSIVE: bool = false;

struct Loop;

impl VolumePlugin for Loop {
    fn describe(about: &mut Description) {
        about
            .name("volhost.io/loop")
            .version(env!("CARGO_PKG_VERSION"))
            .serves("csi:loop.volhost.io")
            .accepts_mount_options();
    }

    /// The volume's name is the image's path: two PersistentVolumes of one image are one volume.
    fn identify(volume: &Volume, id: &mut Identity) -> Result<()> {
        id.name(&Source::read(volume)?.image);
        id.selinux_mount(true);
        Ok(())
    }

    fn publish(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        if target.is_mounted()? {
            // An earlier call may have been interrupted.
            return give_to_group(&source, volume, pod, target);
        }
        let Some(node) = target.staging_mount()? else {
            return Err(Error::precondition(format!("{} is not staged on this node yet", source.image)));
        };
        let mount = node.bind(RECURSIVE).with_context(|| format!("binding the mount of {}", source.image))?;
        let mut options: Vec<&str> = source.mount_flags.iter().map(String::as_str).collect();
        if volume.read_only() && !options.contains(&"ro") {
            options.push("ro");
        }
        if !options.is_empty() {
            mount.set_options(&options, RECURSIVE)?;
        }
        source.fs_group.map(&mount, pod).with_context(|| source.image.clone())?;
        target.attach(mount)?;
        give_to_group(&source, volume, pod, target)
    }

    fn unpublish(target: &MountTarget) -> Result<()> {
        target.detach()
    }
}

impl Attacher for Loop {
    fn attach(volume: &Volume) -> Result<String> {
        let source = Source::read(volume)?;
        if !source.read_only {
            match source.size(volume) {
                Ok(size) => {
                    loop_devices::ensure_image(&source.image, size).context("csi.volumeHandle")?;
                }
                // Where it is served as a CSI driver, `create` has made the image, and no size is
                // known here.
                Err(unknown) if loop_devices::facts(&source.image).is_err() => return Err(unknown),
                Err(_) => {}
            }
        }
        let device = loop_devices::create(&source.image, source.read_only).context("csi.volumeHandle")?;
        Ok(device.path())
    }

    fn detach(volume_name: &str) -> Result<()> {
        loop_devices::remove(volume_name)
    }

    fn wait_for_attach(volume: &Volume, _attached: &Attachment) -> Result<Option<BlockDevice>> {
        // By the file, not by the path of a device: the kernel may have given that to another
        // since.
        let source = Source::read(volume)?;
        match loop_devices::find(&source.image)? {
            Some(device) => Ok(Some(device)),
            None => Err(Error::retryable(format!("{} has no loop device (any more)", source.image))),
        }
    }

    fn are_attached(volume_names: &[String]) -> Result<Vec<bool>> {
        volume_names
            .iter()
            .map(|image| match loop_devices::find(image) {
                Ok(device) => Ok(device.is_some()),
                Err(Error::NotFound(_)) => Ok(false),
                Err(error) => Err(error),
            })
            .collect()
    }
}

impl Stager for Loop {
    fn stage(volume: &Volume, attached: Option<&Attachment>, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        if target.is_mounted()? {
            return Ok(());
        }
        let device = device(&source, attached)?;
        let found = filesystems::probe(&device).with_context(|| format!("looking at {}", source.image))?;
        if found.is_none() {
            if source.read_only {
                return Err(Error::precondition(format!(
                    "{} is blank, and a read-only volume is not formatted; use it once without readOnly",
                    source.image
                )));
            }
            log::info(format_args!("formatting {} with {}", source.image, source.fs_type));
            let (size, _) = loop_devices::facts(&source.image)?;
            let options = match allocation::of(&source.image, size)? {
                // Discarding would release the reserved space.
                Allocation::Full => filesystems::FormatOptions::new().with_room_kept(),
                Allocation::Sparse => filesystems::FormatOptions::new(),
            };
            filesystems::format(&device, source.fs_type, &options)
                .with_context(|| format!("formatting {}", source.image))?;
        }
        if !source.read_only {
            // It may be a copy of a smaller volume, or have grown while no node used it. Types that
            // cannot grow yet do so below.
            let grown = filesystems::grow_unmounted(&device, source.fs_type);
            grown.with_context(|| format!("growing {} before it is mounted", source.image))?;
        }
        let options: Vec<(&str, Option<&str>)> =
            source.fs_options.iter().map(|(key, value)| (key.as_str(), value.as_deref())).collect();
        let mount = filesystems::mount(&device, source.fs_type, &options, source.read_only)
            .with_context(|| format!("mounting {}", source.image))?;
        target.attach(mount)?;
        if !source.read_only {
            // Before the pod sees it. What cannot grow is used with the size that it has.
            if let Err(error) = filesystems::grow(&device, target) {
                log::warn(format_args!("{} keeps its size: {error}", source.image));
            }
        }
        Ok(())
    }

    fn unstage(_volume_name: &str, target: &MountTarget) -> Result<()> {
        target.detach()
    }
}

impl BlockMapper for Loop {
    fn stage_device(volume: &Volume, attached: Option<&Attachment>) -> Result<Option<BlockDevice>> {
        device(&Source::read(volume)?, attached).map(Some)
    }
}

impl Expander for Loop {
    fn expand(volume: &Volume, attached: Option<&Attachment>, target: Option<&MountTarget>, to: u64) -> Result<u64> {
        let source = Source::read(volume)?;
        if source.read_only {
            return Err(Error::unsupported(format!("{} is read-only, and does not grow", source.image)));
        }
        // This gives the loop device the file's new size; the next step grows the file system.
        let (from, _) = loop_devices::facts(&source.image)?;
        let size = allocation::grow(&source.image, from, to)?;
        if let Some(target) = target {
            filesystems::grow(&device(&source, attached)?, target)
                .with_context(|| format!("growing {}", source.image))?;
        }
        Ok(size)
    }
}

/// Reports a missing device or image, which only this plugin can notice: the mount still exists,
/// and every read fails. The host measures the rest.
impl Stats for Loop {
    fn measure(volume_name: &str, _target: Option<&MountTarget>, into: &mut Measurement) -> Result<()> {
        match loop_devices::find(volume_name) {
            Ok(Some(_)) => {}
            Ok(None) => into.abnormal(&format!("{volume_name} has no loop device any more; restart its pods")),
            Err(Error::NotFound(why)) => into.abnormal(&format!("the image is gone: {why}")),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Whether the files have to be changed for the pod's group: not for an id-mapped mount, nor for a
/// pod that may only read.
fn give_to_group(source: &Source, volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
    if volume.read_only() || source.fs_group == FsGroup::Map {
        return Ok(());
    }
    target.apply_fs_group(pod, false)
}

/// Opens the device of the attached volume.
fn device(source: &Source, attached: Option<&Attachment>) -> Result<BlockDevice> {
    match attached {
        Some(attached) => attached.open().with_context(|| format!("opening the device of {}", source.image)),
        None => Err(Error::precondition(format!("{} is not attached", source.image))),
    }
}

export_plugin!(
    Loop,
    Attacher,
    Stager,
    BlockMapper,
    Expander,
    Stats,
    Controller,
    Snapshotter,
    Modifier,
    GroupSnapshotter
);
