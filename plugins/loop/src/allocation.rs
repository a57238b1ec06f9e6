//! The mutable parameter `allocation`: the disk's space is reserved for the whole volume (`full`),
//! or taken as it is written (`sparse`). The image itself shows which it is; there is no other
//! record.

use volhost_plugin_sdk::prelude::*;

use crate::Loop;
use crate::images;

const ALLOCATION: &str = "allocation";

/// How a volume takes its space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allocation {
    /// As it is written.
    Sparse,
    /// All of it, beforehand.
    Full,
}

/// The allocation of a request; none when the request has none.
///
/// # Errors
/// `invalid-argument` naming the parameter.
pub(crate) fn wanted(request: &VolumeRequest) -> Result<Option<Allocation>> {
    if let Some(unknown) = request.mutable_parameters().into_iter().find(|key| key != ALLOCATION) {
        return Err(Error::invalid_argument(format!(
            "mutable_parameters.{}: no such parameter; the only one is `{ALLOCATION}`",
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

/// The present allocation of this image, of this size.
///
/// # Errors
/// The host's.
pub(crate) fn of(path: &str, size: u64) -> Result<Allocation> {
    let full = size > 0 && loop_devices::taken(path)? >= size;
    Ok(if full { Allocation::Full } else { Allocation::Sparse })
}

/// Changes the image's allocation. As it is already: ok.
///
/// # Errors
/// `other` with `RESOURCE_EXHAUSTED` when there is not enough space; `busy` when space is to be
/// released while the image is used; else the host's.
pub(crate) fn set(path: &str, size: u64, wanted: Allocation) -> Result<()> {
    match (wanted, of(path, size)?) {
        (Allocation::Full, Allocation::Sparse) => reserve(path, size).map(drop),
        (Allocation::Sparse, Allocation::Full) => loop_devices::release(path).context("mutable_parameters.allocation"),
        _ => Ok(()),
    }
}

/// Brings the image to this size, with the same allocation.
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
