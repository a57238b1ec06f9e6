//! The fields of a `flexVolume` source, and the volume's names.

use volhost_plugin_sdk::prelude::*;

/// The longest name of a volume that the host takes, in bytes.
const NAME_BYTES: usize = 1024;
/// What parts an inline volume's name from what it is.
const OPTIONS_FOLLOW: char = '?';

/// A checked source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// The driver's name: `vendor/driver`, or `driver`.
    pub(crate) driver: String,
    /// The file system's type; none when the volume does not say.
    pub(crate) fs_type: Option<String>,
    /// The name that the driver knows the volume by: the PersistentVolume's, or the volume's in the pod.
    pub(crate) name: String,
}

impl Source {
    /// Reads and checks every field.
    ///
    /// # Errors
    /// `invalid-argument` naming the field.
    pub(crate) fn read(volume: &Volume) -> Result<Self> {
        volume.known_fields(&["driver", "fsType", "options", "readOnly", "secretRef"])?;
        if volume.kind("secretRef").is_some() {
            let known: &[&str] = if volume.persistent_volume().is_some() { &["name", "namespace"] } else { &["name"] };
            volume.known_fields_at("secretRef", known)?;
        }
        if volume.kind("options").is_some_and(|kind| kind != "map") {
            return Err(volume.invalid("options", "must be a map of texts"));
        }
        volume.boolean("readOnly")?;
        let driver = volume.required("driver")?;
        let parts: Vec<&str> = driver.split('/').collect();
        let plain = |part: &&str| {
            !part.is_empty() && !part.starts_with('.') && !part.contains('~') && !part.chars().any(char::is_control)
        };
        if parts.len() > 2 || !parts.iter().all(plain) {
            return Err(volume.invalid("driver", format_args!("{} must be VENDOR/DRIVER", quoted(&driver))));
        }
        Ok(Self {
            driver,
            fs_type: volume.string("fsType").filter(|fs_type| !fs_type.is_empty()),
            name: volume.persistent_volume().unwrap_or_else(|| volume.spec_name()),
        })
    }

    /// The volume's stable name: driver and name, and for one that is written in a pod, where names repeat, all that it is.
    ///
    /// # Errors
    /// `invalid-argument` when that is too long.
    pub(crate) fn unique_name(&self, volume: &Volume) -> Result<String> {
        let mut unique = format!("{}/{}", self.driver.replace('/', "~"), self.name);
        if volume.persistent_volume().is_none() {
            let options = volume.string("options").unwrap_or_default();
            unique = format!("{unique}{OPTIONS_FOLLOW}{}{options}", self.fs_type.as_deref().unwrap_or_default());
        }
        if unique.len() > NAME_BYTES {
            return Err(volume.invalid(
                "options",
                format_args!(
                    "make the volume's name {} bytes long, {NAME_BYTES} at most; use a PersistentVolume",
                    unique.len()
                ),
            ));
        }
        Ok(unique)
    }
}

/// The driver and its own name for a volume, from the volume's stable name.
///
/// # Errors
/// `invalid-argument` for a name that this plugin does not give.
pub(crate) fn driver_and_name(unique: &str) -> Result<(String, &str)> {
    let foreign = || Error::invalid_argument(format!("{} is no name that this plugin gives", quoted(unique)));
    let (driver, rest) = unique.split_once('/').ok_or_else(foreign)?;
    let name = rest.split_once(OPTIONS_FOLLOW).map_or(rest, |(name, _)| name);
    if driver.is_empty() || name.is_empty() {
        return Err(foreign());
    }
    Ok((driver.replacen('~', "/", 1), name))
}
