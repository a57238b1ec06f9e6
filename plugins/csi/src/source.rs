//! The fields of a `csi` source: of a PersistentVolume, or of a pod's own volume.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};
use volhost_plugin_sdk::prelude::*;

/// The separator of driver and handle in a volume's name. No driver's name has it.
const BETWEEN: char = '^';
/// The longest name of a driver, in bytes, as CSI has it.
const DRIVER_BYTES: usize = 63;
/// The longest id of a volume, in bytes: with the driver's name it fits into the host's limit for a
/// volume's name.
const HANDLE_BYTES: usize = 900;
/// The longest text of one attribute and the size of all together, in bytes, as CSI has it for
/// maps.
const ATTRIBUTES_BYTES: usize = 4096;

/// The fields that both have.
const SHARED_FIELDS: [&str; 5] = ["driver", "fsType", "readOnly", "volumeAttributes", "nodePublishSecretRef"];
/// The fields that only a PersistentVolume has.
const PERSISTENT_FIELDS: [&str; 6] = [
    "volumeHandle",
    "controllerPublishSecretRef",
    "nodeStageSecretRef",
    "nodeExpandSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
];

/// A checked source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) driver: String,
    /// The driver's id of the volume; none for a pod's own, whose id comes from the pod.
    pub(crate) handle: Option<String>,
    pub(crate) fs_type: String,
    pub(crate) attributes: BTreeMap<String, String>,
}

impl Source {
    /// Reads and checks every field.
    ///
    /// # Errors
    /// `invalid-argument` naming the field.
    pub(crate) fn read(volume: &Volume) -> Result<Self> {
        let persistent = volume.persistent_volume().is_some();
        let mut known = SHARED_FIELDS.to_vec();
        if persistent {
            known.extend(PERSISTENT_FIELDS);
        }
        volume.known_fields(&known)?;
        let driver = volume.required("driver")?;
        if driver.len() > DRIVER_BYTES || !driver.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)) {
            return Err(volume.invalid(
                "driver",
                format_args!(
                    "{} must be a CSI driver's name: {DRIVER_BYTES} letters, digits, `-`, `_` and `.` at most",
                    quoted(&driver)
                ),
            ));
        }
        let handle = if persistent { Some(volume.required("volumeHandle")?) } else { None };
        if let Some(handle) = handle.as_ref().filter(|id| id.len() > HANDLE_BYTES || id.chars().any(char::is_control)) {
            return Err(volume.invalid(
                "volumeHandle",
                format_args!("{} must have {HANDLE_BYTES} bytes at most, and no control characters", quoted(handle)),
            ));
        }
        volume.boolean("readOnly")?;
        for field in known.iter().filter(|field| field.ends_with("SecretRef")) {
            check_reference(volume, field, persistent)?;
        }
        Ok(Self {
            driver,
            handle,
            fs_type: volume.short("fsType")?.unwrap_or_default(),
            attributes: attributes(volume)?,
        })
    }

    /// The driver's id of the volume for this pod.
    pub(crate) fn id(&self, volume: &Volume, pod: &Pod) -> String {
        match &self.handle {
            Some(handle) => handle.clone(),
            None => {
                let digest = Sha256::new().chain_update(pod.uid()).chain_update(volume.spec_name()).finalize();
                let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("csi-{hex}")
            }
        }
    }

    /// The volume's name; none for a pod's own.
    pub(crate) fn name(&self) -> Option<String> {
        self.handle.as_ref().map(|handle| format!("{}{handle}", names_of(&self.driver)))
    }
}

/// The prefix of the names of the driver's volumes.
pub(crate) fn names_of(driver: &str) -> String {
    format!("{driver}{BETWEEN}")
}

/// The driver and its id of a volume of this name.
///
/// # Errors
/// `corrupt` for a name that this plugin has not given.
pub(crate) fn split(name: &str) -> Result<(&str, &str)> {
    name.split_once(BETWEEN).ok_or_else(|| Error::Corrupt(format!("{} is not a name of a CSI volume", quoted(name))))
}

fn check_reference(volume: &Volume, field: &str, persistent: bool) -> Result<()> {
    let Some(kind) = volume.kind(field) else { return Ok(()) };
    if kind != FieldKind::Map {
        return Err(volume.invalid(field, format_args!("must be a map with the name of a secret, and is a {kind}")));
    }
    let needed: &[&str] = if persistent { &["name", "namespace"] } else { &["name"] };
    volume.known_fields_at(field, needed)?;
    needed.iter().try_for_each(|part| volume.required(&format!("{field}.{part}")).map(drop))
}

/// `volumeAttributes`: texts by names that may have dots, so the map is read as a whole.
fn attributes(volume: &Volume) -> Result<BTreeMap<String, String>> {
    const FIELD: &str = "volumeAttributes";
    match volume.kind(FIELD) {
        None => return Ok(BTreeMap::new()),
        Some(FieldKind::Map) => {}
        Some(kind) => return Err(volume.invalid(FIELD, format_args!("must be a map of texts, and is a {kind}"))),
    }
    let text = volume.string(FIELD).unwrap_or_default();
    let attributes: BTreeMap<String, String> = serde_json::from_str(&text).map_err(|_| {
        volume.invalid(FIELD, format_args!("must be a map of texts; put numbers and booleans in quotes"))
    })?;
    let bytes: usize = attributes.iter().map(|(key, value)| key.len().saturating_add(value.len())).sum();
    if bytes > ATTRIBUTES_BYTES {
        return Err(volume.invalid(FIELD, format_args!("has {bytes} bytes, {ATTRIBUTES_BYTES} at most")));
    }
    Ok(attributes)
}
