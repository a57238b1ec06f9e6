//! `local`: a folder of one node, as a PersistentVolume.
//!
//! # Fields
//!
//! | field | value | meaning |
//! |---|---|---|
//! | `path` | an absolute path without `..` | the folder; symbolic links are followed |
//! | `fsType` | any | only meant for block devices; a folder has its file system already |
//!
//! `spec.mountOptions` of the PersistentVolume may hold what belongs to a mount and not to a file system: `ro`, `nosuid`,
//! `nodev`, `noexec`, `noatime`, `nodiratime`, `relatime`, `strictatime`, `nosymfollow`.
//!
//! # What the pod gets
//!
//! A bind mount of the folder, without the mounts below it, read-only if the volume is. The folder must be there: a
//! missing one may be a disk that is not mounted yet, so it is never created, and is tried again until it is there.
//!
//! `fsGroup` is not applied in this version: give the folder its group by hand. A block device as the path is
//! refused in this version.
//!
//! # Grant
//!
//! The plugin needs `host-paths`, and reaches nothing outside the folders of its grant, symbolic links or not.

#![forbid(unsafe_code)]

mod source;
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
        if target.is_mounted()? {
            return Ok(());
        }
        if let Some(group) = pod.fs_group() {
            log::info(format_args!(
                "fsGroup {group} is not applied to {}: a local volume keeps its owner",
                source.path
            ));
        }
        let mount = source.open()?.bind(RECURSIVE).with_context(|| format!("local.path: binding {}", source.path))?;
        let mut options: Vec<&str> = source.mount_options.iter().map(String::as_str).collect();
        if volume.read_only() && !options.contains(&"ro") {
            options.push("ro");
        }
        if !options.is_empty() {
            mount.set_options(&options, RECURSIVE)?;
        }
        target.attach(mount)
    }

    fn tear_down(target: &MountTarget) -> Result<()> {
        target.detach()
    }
}

export_plugin!(Local);
