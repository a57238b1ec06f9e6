//! What of a volume can be changed: whether the disk's room for all of it is reserved
//! (`allocation: full`), or taken as it is written (`sparse`). The image itself tells which it is:
//! nothing is written down.

use volhost_plugin_sdk::prelude::*;

use crate::Loop;
use crate::images;

const ALLOCATION: &str = "allocation";

/// How a volume takes its room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allocation {
    /// As it is written.
    Sparse,
    /// All of it, beforehand.
    Full,
}

/// What a request asks for; none when it leaves it open.
///
/// # Errors
/// `invalid-argument` naming the parameter.
pub(crate) fn wanted(request: &VolumeRequest) -> Result<Option<Allocation>> {
    if let Some(unknown) = request.mutable_parameters().into_iter().find(|key| key != ALLOCATION) {
        return Err(Error::invalid_argument(format!(
            "mutable_parameters.{}: no such parameter; there is `{ALLOCATION}`",
            quoted(&unknown)
        )));
    }
    match request.mutable_parameter(ALLOCATION).as_deref() {
        None => Ok(None),
        Some("sparse") => Ok(Some(Allocation::Sparse)),
        Some("full") => Ok(Some(Allocation::Full)),
        Some(other) => Err(Error::invalid_argument(format!(
            "mutable_parameters.{ALLOCATION}: {} is neither `sparse` nor `full`",
            quoted(other)
        ))),
    }
}

/// How this image, of this size, takes its room now.
///
/// # Errors
/// As the host says.
pub(crate) fn of(path: &str, size: u64) -> Result<Allocation> {
    let full = size > 0 && loop_devices::taken(path)? >= size;
    Ok(if full { Allocation::Full } else { Allocation::Sparse })
}

/// Makes the image take its room so. It does already: done.
///
/// # Errors
/// `other` with `RESOURCE_EXHAUSTED` when there is not so much room; `busy` for room that is to be
/// given back while it is used; else as the host says.
pub(crate) fn set(path: &str, size: u64, wanted: Allocation) -> Result<()> {
    match (wanted, of(path, size)?) {
        (Allocation::Full, Allocation::Sparse) => reserve(path, size).map(drop),
        (Allocation::Sparse, Allocation::Full) => loop_devices::release(path).context("mutable_parameters.allocation"),
        _ => Ok(()),
    }
}

/// Brings the image to this size; it takes its room as before.
///
/// # Errors
/// As [`set`].
pub(crate) fn grow(path: &str, from: u64, to: u64) -> Result<u64> {
    match of(path, from)? {
        Allocation::Full => reserve(path, to),
        Allocation::Sparse => loop_devices::ensure_image(path, to),
    }
}

fn reserve(path: &str, size: u64) -> Result<u64> {
    match loop_devices::reserve(path, size) {
        Err(Error::Other(other)) if other.code == "ENOSPC" => Err(Error::other("RESOURCE_EXHAUSTED", other.message)),
        outcome => outcome,
    }
}

impl Modifier for Loop {
    fn modify(volume_id: &str, request: &VolumeRequest) -> Result<()> {
        let image = images::volume(volume_id)?;
        match wanted(request)? {
            Some(wanted) => set(&image.path, image.size, wanted),
            None => Ok(()),
        }
    }
}
