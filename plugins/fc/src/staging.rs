//! Staging: the file system of the unit's device.

use volhost_plugin_sdk::prelude::*;

use crate::source::Source;

/// Mounts the device's file system; a blank device is formatted first.
pub(crate) fn mount(source: &Source, device: &BlockDevice) -> Result<DetachedMount> {
    let unit = &source.unit;
    // For a file system that is mounted at another path, the kernel would return the same instance
    // again, with that one's options.
    if device.is_in_use()? {
        return Err(Error::busy(format!(
            "fc: the device of {unit} is in use on node {}: by a volume that names it otherwise, or by another program",
            node::name()
        )));
    }
    let read_only = source.read_only || device.is_read_only()?;
    if filesystems::probe(device).with_context(|| format!("looking at {unit}"))?.is_none() {
        if read_only {
            return Err(Error::precondition(format!("fc: {unit} is blank, and being read-only can't be formatted")));
        }
        log::info(format_args!("formatting {unit} with {}", source.fs_type));
        filesystems::format(device, source.fs_type, &filesystems::FormatOptions::new())
            .with_context(|| format!("formatting {unit}"))?;
    }
    filesystems::mount(device, source.fs_type, &source.options.borrowed(), read_only)
        .with_context(|| format!("mounting {unit}"))
}

/// Lets the file system grow to the size that the target has given the unit; a volume that is used
/// as a device has none.
pub(crate) fn expand(source: &Source, target: Option<&MountTarget>, to: u64) -> Result<u64> {
    let unit = &source.unit;
    let device = unit.rescan()?;
    let size = device.size()?;
    if size < to {
        // The target may be enlarged while a pod uses the volume, so the host tries again.
        return Err(Error::retryable(format!(
            "fc: {unit} has {size} bytes, and spec.capacity.storage requests {to}; enlarge it on the target first"
        )));
    }
    if let Some(target) = target {
        filesystems::grow(&device, target).with_context(|| format!("growing {unit}"))?;
    }
    Ok(size)
}
