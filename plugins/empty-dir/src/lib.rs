#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod huge_pages;
mod memory;
mod source;
#[cfg(test)]
mod tests;

use source::{Medium, Source};
use volhost_plugin_sdk::prelude::*;

/// The plugin `kubernetes.io/empty-dir`.
#[derive(Debug)]
pub struct EmptyDir;

/// All users may do everything: the pod's containers may run as any user.
const MODE: u32 = 0o777;

/// Files created in the folder belong to the folder's group.
const SETGID: u32 = 0o2000;

/// The mode of the volume's root.
fn mode(group: Option<u32>) -> u32 {
    if group.is_some() { MODE | SETGID } else { MODE }
}

impl VolumePlugin for EmptyDir {
    fn describe(about: &mut Description) {
        about.name("kubernetes.io/empty-dir").version(env!("CARGO_PKG_VERSION")).serves("emptyDir");
    }

    /// Sets no name: the volume belongs to its pod.
    fn identify(volume: &Volume, _id: &mut Identity) -> Result<()> {
        Source::read(volume).map(|_| ())
    }

    fn publish(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        match source.medium {
            Medium::Disk => publish_on_disk(limit_on_disk(&source, pod), pod, target),
            Medium::Memory => memory::publish(&source, pod, target),
            Medium::HugePages(size) => huge_pages::publish(&source, size, pod, target),
        }
    }

    fn unpublish(target: &MountTarget) -> Result<()> {
        match target.state()? {
            TargetState::Absent => Ok(()),
            TargetState::Mounted => target.detach(),
            TargetState::Plain => target.delete_folder(),
        }
    }
}

/// The lower of the volume's and the pod's limit, in bytes; none if neither has one.
fn limit_on_disk(source: &Source, pod: &Pod) -> Option<u64> {
    [source.size_limit, pod.ephemeral_storage_limit()].into_iter().flatten().filter(|bytes| *bytes > 0).min()
}

fn publish_on_disk(limit: Option<u64>, pod: &Pod, target: &MountTarget) -> Result<()> {
    let Some(limit) = limit else {
        return make_folder(pod, target);
    };
    let group = pod.fs_group();
    match quotas::make_limited_folder(target, mode(group), group, limit) {
        // The existing folder has no quota, or the file system has none.
        Err(Error::Unsupported(_) | Error::Conflict(_)) => {
            make_folder(pod, target)?;
            quotas::watch_size(target, limit);
            Ok(())
        }
        done => done,
    }
}

fn make_folder(pod: &Pod, target: &MountTarget) -> Result<()> {
    let group = pod.fs_group();
    // It nearly always succeeds, so the target's state is only read when it fails.
    target.make_folder(mode(group), group).map_err(|error| match (&error, target.mounted_type()) {
        (Error::Conflict(_), Ok(Some(fs_type))) => Error::conflict(format!(
            "there is a {fs_type} mount in place of the folder of this emptyDir; unmount it, or delete the pod"
        )),
        _ => error,
    })
}

export_plugin!(EmptyDir);
