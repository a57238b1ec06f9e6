//! Staging: a folder is bound, the file system of a device is mounted.

use volhost_plugin_sdk::PER_MOUNT_OPTIONS;
use volhost_plugin_sdk::prelude::*;

use crate::RECURSIVE;
use crate::source::{Opened, Source};

/// Makes the staging mount of the volume.
pub(crate) fn mount(source: &Source) -> Result<DetachedMount> {
    match source.open()? {
        Opened::Folder(folder) => {
            if let Some((option, _)) = source.fs_options.first() {
                return Err(Error::invalid_argument(format!(
                    "spec.mountOptions: {} can't be set on a folder, whose file system is mounted already; known: {}",
                    quoted(option),
                    PER_MOUNT_OPTIONS.join(", ")
                )));
            }
            folder.bind(RECURSIVE).with_context(|| format!("local.path: binding {}", source.path))
        }
        Opened::Device(device) => stage(source, &device),
    }
}

fn stage(source: &Source, device: &BlockDevice) -> Result<DetachedMount> {
    let Source { path, fs_type, .. } = source;
    // For a file system that is mounted at another path, the kernel would return the same instance
    // again, with that one's options.
    if device.is_in_use()? {
        return Err(Error::busy(format!(
            "local.path: {path} is in use on node {}: it is mounted at another path, or belongs to swap, RAID or LVM; a local \
             volume has its device for itself",
            node::name()
        )));
    }
    let read_only = device.is_read_only()?;
    if filesystems::probe(device).with_context(|| format!("looking at {path}"))?.is_none() {
        if read_only {
            return Err(Error::precondition(format!(
                "local.path: {path} is blank, and being read-only can't be formatted"
            )));
        }
        log::info(format_args!("formatting {path} with {fs_type}"));
        filesystems::format(device, fs_type, &filesystems::FormatOptions::new())
            .with_context(|| format!("formatting {path}"))?;
    }
    let options: Vec<(&str, Option<&str>)> =
        source.fs_options.iter().map(|(key, value)| (key.as_str(), value.as_deref())).collect();
    filesystems::mount(device, fs_type, &options, read_only).with_context(|| format!("mounting {path}"))
}

/// Lets the file system of a device grow to the device's size; a folder, and a volume that is used
/// as a device, have none.
pub(crate) fn expand(source: &Source, target: Option<&MountTarget>, to: u64) -> Result<u64> {
    let device = match source.open()? {
        Opened::Folder(_) => return Ok(to),
        Opened::Device(device) => device,
    };
    let size = device.size()?;
    if size < to {
        // The device may be enlarged while a pod uses the volume, so the host tries again.
        return Err(Error::retryable(format!(
            "local.path: {} has {size} bytes, and spec.capacity.storage requests {to}; enlarge the device first",
            source.path
        )));
    }
    if let Some(target) = target {
        filesystems::grow(&device, target).with_context(|| format!("growing {}", source.path))?;
    }
    Ok(size)
}
