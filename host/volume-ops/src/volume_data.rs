//! `vol_data.json`: the file beside a CSI driver's mount that names the volume. The plugin writes it
//! as its note; the kubelet writes the same keys. That of a device is the host's.
//!
//! Only recovery reads it, where there is no record: what another program wrote there counts as
//! none, and is reported.

use std::ffi::OsStr;

use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use volhost_kernel::{Directory, Durability, Kernel, KernelError};
use volhost_model::csi_layout::{self, VOLUME_DATA};
use volhost_model::names::{PluginName, SpecName, UniqueVolumeName};
use volhost_model::text::lower_hex;

/// The longest file, in bytes. A volume's handle has 900 at most, and no other field is longer.
const MAX_BYTES: usize = 16 << 10;
/// The mode of the file.
const FILE_MODE: u32 = 0o600;
/// The lifecycle of a volume that belongs to one pod.
const EPHEMERAL: &str = "Ephemeral";

/// Why a file names no volume.
#[derive(Debug, Error)]
pub enum VolumeDataError {
    /// It cannot be read, or is too large.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// It is not JSON, or a field is missing or of another type.
    #[error("{VOLUME_DATA} cannot be used: {0}")]
    Syntax(#[source] serde_json::Error),
    /// Its driver or handle is not valid.
    #[error("{VOLUME_DATA} cannot be used: its driverName and volumeHandle make no valid name of a volume")]
    Name,
}

/// The keys that name the volume.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeData {
    /// The driver.
    pub driver_name: String,
    /// The driver's id of the volume.
    pub volume_handle: String,
    /// `Persistent` or `Ephemeral`; the file beside a staging mount has none.
    #[serde(default)]
    pub volume_lifecycle_mode: String,
}

impl VolumeData {
    /// Reads the file in a folder; none if there is no such file.
    ///
    /// # Errors
    /// [`VolumeDataError`].
    pub fn read(kernel: &dyn Kernel, folder: &Directory) -> Result<Option<Self>, VolumeDataError> {
        let Some(bytes) = kernel.read_file(folder, OsStr::new(VOLUME_DATA), MAX_BYTES)? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(VolumeDataError::Syntax)
    }

    /// Returns whether the volume belongs to one pod.
    pub fn is_of_pod(&self) -> bool {
        self.volume_lifecycle_mode == EPHEMERAL
    }

    /// Returns the name of the volume.
    ///
    /// # Errors
    /// [`VolumeDataError::Name`].
    pub fn unique_name(&self, plugin: &PluginName) -> Result<UniqueVolumeName, VolumeDataError> {
        let name = csi_layout::volume_name(&self.driver_name, &self.volume_handle);
        let named = csi_layout::driver_and_handle(plugin, &name);
        if named != Some((self.driver_name.as_str(), self.volume_handle.as_str())) {
            return Err(VolumeDataError::Name);
        }
        UniqueVolumeName::shared(plugin, &name).map_err(|_| VolumeDataError::Name)
    }
}

/// Writes the file of a volume that is a device, at once and whole: its plugin has no target to keep
/// a note with. The keys are those that the kubelet writes.
///
/// # Errors
/// The kernel's.
pub(super) fn write_of_device(
    kernel: &dyn Kernel,
    folder: &Directory,
    (driver, handle): (&str, &str),
    name: &SpecName,
    node: &str,
) -> Result<(), KernelError> {
    let attachment = Sha256::new().chain_update(handle).chain_update(driver).chain_update(node).finalize();
    let data = json!({
        "specVolID": name.as_str(),
        "volumeHandle": handle,
        "driverName": driver,
        "nodeName": node,
        "attachmentID": format!("csi-{}", lower_hex(&attachment)),
    });
    kernel.write_atomic(folder, OsStr::new(VOLUME_DATA), data.to_string().as_bytes(), FILE_MODE, Durability::Process)
}

/// Returns the volume that the file in a folder names; none without a file, and for a volume that
/// belongs to one pod, which has no name of its own.
///
/// # Errors
/// [`VolumeDataError`].
pub(super) fn named_in(
    kernel: &dyn Kernel,
    folder: &Directory,
    plugin: &PluginName,
) -> Result<Option<UniqueVolumeName>, VolumeDataError> {
    match VolumeData::read(kernel, folder)? {
        Some(data) if !data.is_of_pod() => data.unique_name(plugin).map(Some),
        _ => Ok(None),
    }
}
