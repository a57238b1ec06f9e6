//! Provisioning: volumes as image files in the granted folders.

use volhost_plugin_sdk::prelude::*;

use crate::Loop;
use crate::allocation::{self, Allocation};
use crate::images::{self, Image, LISTED_BYTES, Place, handle_of, path_in};
use crate::snapshots;
use crate::source::{DEFAULT_FS, FS_TYPES, XFS, is_handle};

const MIB: u64 = 1 << 20;
/// The default size of a volume, in bytes.
const DEFAULT_BYTES: u64 = 1 << 30;
/// Sizes are multiples of this, in bytes.
const BLOCK: u64 = 4096;
/// The smallest sizes that file systems can be made on, in bytes.
const SMALLEST: &[(&str, u64)] = &[(XFS, 300 * MIB), ("btrfs", 128 * MIB)];
/// The smallest size for any other, and for a device.
const SMALLEST_BYTES: u64 = MIB;
/// The largest size of a volume, in bytes: ext4's limit for a file.
const LARGEST_BYTES: u64 = 16 << 40;
/// The prefix of parameters that belong to the caller.
const CALLERS: &str = "csi.storage.k8s.io/";
const FOLDER: &str = "folder";

/// The error for a size that no volume can have.
fn out_of_range(message: String) -> Error {
    Error::other("OUT_OF_RANGE", message)
}

/// The size for a volume that must have `required` to `limit` bytes and cannot have fewer than
/// `smallest`.
fn size(required: Option<u64>, limit: Option<u64>, smallest: u64) -> Result<u64> {
    let wanted = required.unwrap_or_else(|| limit.map_or(DEFAULT_BYTES, |limit| limit.min(DEFAULT_BYTES)));
    if wanted > LARGEST_BYTES {
        return Err(out_of_range(format!("{wanted} bytes are requested, and an image has {LARGEST_BYTES} at most")));
    }
    let at_least = wanted.max(smallest);
    let rounded = at_least.next_multiple_of(BLOCK);
    match limit {
        Some(limit) if limit < at_least => Err(out_of_range(format!(
            "at most {limit} bytes are requested, and this volume cannot have fewer than {at_least}"
        ))),
        Some(limit) if limit < rounded => Ok(at_least),
        _ => Ok(rounded),
    }
}

/// The smallest size for the request.
fn smallest(wanted: &VolumeRequest) -> Result<u64> {
    if wanted.as_device() {
        return Ok(SMALLEST_BYTES);
    }
    let asked = wanted.fs_type().unwrap_or_default();
    let fs_type = FS_TYPES.iter().find(|(word, _)| *word == asked).map(|(_, fs_type)| *fs_type).ok_or_else(|| {
        Error::invalid_argument(format!("fs_type: {} is not known; {DEFAULT_FS} is the usual one", quoted(&asked)))
    })?;
    Ok(SMALLEST.iter().find(|(named, _)| *named == fs_type).map_or(SMALLEST_BYTES, |(_, bytes)| *bytes))
}

fn check_parameters(wanted: &VolumeRequest) -> Result<()> {
    match wanted.parameters().into_iter().find(|key| key != FOLDER && !key.starts_with(CALLERS)) {
        Some(unknown) => {
            Err(Error::invalid_argument(format!("parameters.{unknown}: no such parameter; the only one is `{FOLDER}`")))
        }
        None => Ok(()),
    }
}

/// The source of the volume's content.
fn content(wanted: &VolumeRequest) -> Result<Option<Image>> {
    match (wanted.source_snapshot(), wanted.source_volume()) {
        (Some(snapshot), _) => snapshots::image(&snapshot).map(Some),
        (None, Some(volume)) => images::volume(&volume).map(Some),
        (None, None) => Ok(None),
    }
}

fn answer(into: &mut VolumeAnswer, id: &str, folder: &str, size: u64) {
    into.id(id).capacity(size).attribute(FOLDER, folder);
}

impl Controller for Loop {
    fn create(wanted: &VolumeRequest, into: &mut VolumeAnswer) -> Result<()> {
        check_parameters(wanted)?;
        let allocation = allocation::wanted(wanted)?;
        let id = handle_of(&wanted.name());
        let (required, limit) = (wanted.required_bytes(), wanted.limit_bytes());
        let smallest = smallest(wanted)?;
        let content = content(wanted)?;
        let begins = content.as_ref().map(|image| image.size);
        let required = match begins {
            // As large as its source, unless more is requested.
            Some(begins) => Some(required.unwrap_or(begins).max(begins)),
            None => required,
        };
        let size = size(required, limit, smallest)?;
        let (folder, found) = match images::find(&id)? {
            Some(image) => (image.folder.clone(), Some(image)),
            None => (images::folder(wanted.parameter(FOLDER))?, None),
        };
        let path = path_in(&folder, &id);
        let fresh = found.as_ref().is_none_or(|image| image.size == 0);
        match (found, &content) {
            // Finishes a call that was cut off before the file had its size.
            (Some(image), begun) if image.size == 0 || begun.as_ref().is_some_and(|begun| begun.size == image.size) => {
            }
            (Some(image), _) => {
                let fits = required.is_none_or(|required| image.size >= required)
                    && limit.is_none_or(|limit| image.size <= limit);
                let kept =
                    allocation == Some(Allocation::Sparse) && allocation::of(&path, image.size)? == Allocation::Full;
                if !fits || kept {
                    return Err(Error::conflict(format!(
                        "there is a volume {} of {} bytes{}, which does not fit the request",
                        quoted(&id),
                        image.size,
                        if kept { ", all of them reserved" } else { "" }
                    )));
                }
                // An earlier call may have been cut off before this.
                allocation.map_or(Ok(()), |allocation| allocation::set(&path, image.size, allocation))?;
                answer(into, &id, &folder, image.size);
                return Ok(());
            }
            (None, Some(begins)) => {
                loop_devices::copy(&begins.path, &path)?;
            }
            (None, None) => {}
        }
        let size = loop_devices::ensure_image(&path, size)?;
        if let Some(Err(error)) = allocation.map(|allocation| allocation::set(&path, size, allocation)) {
            if fresh {
                loop_devices::discard(&path)?;
            }
            return Err(error);
        }
        answer(into, &id, &folder, size);
        Ok(())
    }

    fn delete(volume_id: &str) -> Result<()> {
        match images::volume(volume_id) {
            Ok(image) => loop_devices::discard(&image.path),
            // No volume can have had such a handle either.
            Err(Error::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn find(volume_id: &str, into: &mut VolumeAnswer) -> Result<()> {
        let image = images::volume(volume_id)?;
        answer(into, volume_id, &image.folder, image.size);
        Ok(())
    }

    fn expand(volume_id: &str, to: u64, limit: Option<u64>) -> Result<u64> {
        let image = images::volume(volume_id)?;
        if image.size >= to {
            return match limit {
                Some(limit) if image.size > limit => {
                    Err(out_of_range(format!("the volume has {} bytes already, and none shrinks", image.size)))
                }
                _ => Ok(image.size),
            };
        }
        allocation::grow(&image.path, image.size, size(Some(to), limit, SMALLEST_BYTES)?)
    }

    fn list_volumes(start: &str, most: u32, into: &mut VolumePage) -> Result<()> {
        let mut left = most;
        let mut last: Option<Place> = None;
        images::each(Place::read(start, "")?, |folder, name, place| {
            if !is_handle(name) || name.len() > LISTED_BYTES {
                return Ok(true);
            }
            if left == 0 {
                into.next(&last.take().unwrap_or_default().token(""));
                return Ok(false);
            }
            match loop_devices::facts(&path_in(folder, name)) {
                Ok((size, _)) => {
                    into.add(name, size);
                    left -= 1;
                    last = Some(place.clone());
                    Ok(true)
                }
                // Deleted meanwhile.
                Err(Error::NotFound(_)) => Ok(true),
                Err(error) => Err(error),
            }
        })
    }

    fn free_space(wanted: &VolumeRequest) -> Result<Option<u64>> {
        check_parameters(wanted)?;
        loop_devices::free_space(&images::folder(wanted.parameter(FOLDER))?).map(Some)
    }
}
