#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod source;
#[cfg(test)]
mod tests;

use source::{Source, Top};
use volhost_plugin_sdk::prelude::*;

/// The plugin `volhost.io/overlay`.
#[derive(Debug)]
pub struct Overlay;

/// Mounts below a base are not part of the volume.
const RECURSIVE: bool = false;
/// A change of owner or mode alone copies no content.
const METADATA_ALONE: (&str, Option<&str>) = ("metacopy", Some("on"));
/// Refuses a top that another overlay uses, or that was made over other folders.
const VERIFIED: (&str, Option<&str>) = ("index", Some("on"));
/// The mode of a top in memory: only root may enter it.
const MEMORY_MODE: u32 = 0o700;

impl VolumePlugin for Overlay {
    fn describe(about: &mut Description) {
        about
            .name("volhost.io/overlay")
            .version(env!("CARGO_PKG_VERSION"))
            .serves("csi:overlay.volhost.io")
            .accepts_mount_options();
    }

    /// A volume with a kept top is staged: the kernel lets only one overlay write to it. Every
    /// other volume belongs to its pod.
    fn identify(volume: &Volume, id: &mut Identity) -> Result<()> {
        let source = Source::read(volume)?;
        if let Top::Kept(top) = &source.top {
            id.name(&format!("{top} over {}", source.bases.join(":")));
        }
        id.stageable(source.is_kept());
        for name in &source.volumes {
            id.needs_volume(name);
        }
        Ok(())
    }

    fn publish(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        if target.is_mounted()? {
            // An earlier call may have been interrupted.
            return give_to_group(volume, pod, target);
        }
        let mount = match (&source.top, volume.read_only()) {
            (Top::Kept(top), _) => match target.staging_mount()? {
                Some(node) => node.bind(RECURSIVE).with_context(|| format!("binding the overlay with top {top}"))?,
                None => return Err(Error::precondition(format!("the overlay with top {top} is not staged yet"))),
            },
            (_, true) => base_alone(&source.open_layers(target)?)?,
            (Top::Disk, false) => {
                let layers = source.open_layers(target)?;
                overlay(&layers, Some(&target.private_folder()?), &[METADATA_ALONE])?
            }
            (Top::Memory { size }, false) => {
                let mut memory = Tmpfs::new().mode(MEMORY_MODE);
                if let Some(size) = size {
                    memory = memory.size(*size);
                }
                let layers = source.open_layers(target)?;
                overlay(&layers, Some(&memory.create()?.source()?), &[METADATA_ALONE])?
            }
        };
        let mut options: Vec<&str> = source.mount_options.iter().map(String::as_str).collect();
        if volume.read_only() && !options.contains(&"ro") {
            options.push("ro");
        }
        if !options.is_empty() {
            mount.set_options(&options, RECURSIVE)?;
        }
        target.attach(mount)?;
        give_to_group(volume, pod, target)
    }

    /// The host removes the private folder, and with it a top on disk.
    fn unpublish(target: &MountTarget) -> Result<()> {
        target.detach()
    }
}

impl Stager for Overlay {
    fn stage(volume: &Volume, _attached: Option<&Attachment>, target: &MountTarget) -> Result<()> {
        const FIELD: &str = "csi.volumeAttributes.top";
        let source = Source::read(volume)?;
        if target.is_mounted()? {
            return Ok(());
        }
        let Top::Kept(top) = &source.top else {
            return Err(Error::invalid_argument(format!("{FIELD}: a volume whose top is not kept cannot be staged")));
        };
        let top = host_paths::create_directory(top).context(FIELD)?;
        let mount = overlay(&source.open_layers(target)?, Some(&top), &[METADATA_ALONE, VERIFIED]).context(FIELD)?;
        target.attach(mount)
    }

    fn unstage(_volume_name: &str, target: &MountTarget) -> Result<()> {
        target.detach()
    }
}

fn overlay(
    layers: &[MountSource],
    top: Option<&MountSource>,
    options: &[(&str, Option<&str>)],
) -> Result<DetachedMount> {
    overlays::mount(&layers.iter().collect::<Vec<_>>(), top, options)
}

/// Without a top, one layer is bound; several become an overlay.
fn base_alone(layers: &[MountSource]) -> Result<DetachedMount> {
    match layers {
        [only] => only.bind(RECURSIVE).context("csi.volumeAttributes.base"),
        several => overlays::mount(&several.iter().collect::<Vec<_>>(), None, &[]),
    }
}

/// Applies the pod's group, unless the pod may only read.
fn give_to_group(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
    if volume.read_only() {
        return Ok(());
    }
    target.apply_fs_group(pod, false)
}

export_plugin!(Overlay, Stager);
