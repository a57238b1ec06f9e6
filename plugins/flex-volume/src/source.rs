//! The fields of a `flexVolume` source, and the volume's names.

use sha2::{Digest, Sha256};
use volhost_plugin_sdk::prelude::*;

/// The host's limit for a volume's name, in bytes.
const NAME_BYTES: usize = 1024;
/// The separator of an inline volume's name in its pod and the digest of its source. No
/// PersistentVolume's name has it.
const DIGEST_FOLLOWS: char = '_';
/// How many bytes of the digest a name has: enough that no other options can be found with the same
/// ones.
const DIGEST_BYTES: usize = 16;
/// The namespaces of options that are the kubelet's own. The API server refuses volumes that set
/// one of them.
const RESERVED: [&str; 2] = ["kubernetes.io", "k8s.io"];

/// A checked source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// The driver's name: `vendor/driver`, or `driver`.
    pub(crate) driver: String,
    /// The file system's type; none when the volume sets none.
    pub(crate) fs_type: Option<String>,
    /// The PersistentVolume's name, or the volume's in the pod.
    pub(crate) name: String,
    /// Distinguishes an inline volume from others of the same name: pods choose names
    /// independently.
    digest: Option<String>,
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
        if volume.kind("options").is_some_and(|kind| kind != FieldKind::Map) {
            return Err(volume.invalid("options", "must be a map of texts"));
        }
        for key in volume.fields_at("options") {
            if is_reserved(&key) {
                let field = format!("options.{key}");
                return Err(
                    volume.invalid(&field, "keys of kubernetes.io and k8s.io are set by volhost; use another name")
                );
            }
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
        let fs_type = volume.string("fsType").filter(|fs_type| !fs_type.is_empty());
        let digest = volume.persistent_volume().is_none().then(|| {
            let what = (fs_type.as_deref().unwrap_or_default(), volume.string("options").unwrap_or_default());
            let digest = Sha256::digest(format!("{}\0{}", what.0, what.1));
            digest.iter().take(DIGEST_BYTES).map(|byte| format!("{byte:02x}")).collect()
        });
        let name = volume.persistent_volume().unwrap_or_else(|| volume.spec_name());
        Ok(Self { driver, fs_type, name, digest })
    }

    /// The name that the driver knows the volume by. `detach` has nothing but this name, so one
    /// that the driver attaches has a name that no other volume on the node has.
    pub(crate) fn name_for_driver(&self, attaches: bool) -> String {
        match self.digest.as_ref().filter(|_| attaches) {
            Some(digest) => format!("{}{DIGEST_FOLLOWS}{digest}", self.name),
            None => self.name.clone(),
        }
    }

    /// The volume's stable name: the driver, and the name that an attaching driver knows the volume
    /// by.
    ///
    /// # Errors
    /// `invalid-argument` when the name is too long.
    pub(crate) fn unique_name(&self, volume: &Volume) -> Result<String> {
        let unique = format!("{}/{}", self.driver.replace('/', "~"), self.name_for_driver(true));
        if unique.len() > NAME_BYTES {
            return Err(volume.invalid(
                "driver",
                format_args!("makes the volume's name {} bytes long, {NAME_BYTES} at most", unique.len()),
            ));
        }
        Ok(unique)
    }
}

/// Whether an option's key belongs to Kubernetes, by the API server's rule.
pub(crate) fn is_reserved(key: &str) -> bool {
    let namespace = key.split_once('/').map_or(key, |(namespace, _)| namespace).to_ascii_lowercase();
    RESERVED
        .iter()
        .any(|reserved| namespace.strip_suffix(reserved).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

/// The driver and its own name for a volume, from the volume's stable name.
///
/// # Errors
/// `invalid-argument` for a name that this plugin has not given.
pub(crate) fn driver_and_name(unique: &str) -> Result<(String, &str)> {
    let foreign = || Error::invalid_argument(format!("{} is not a name that this plugin has given", quoted(unique)));
    let (driver, name) = unique.split_once('/').ok_or_else(foreign)?;
    if driver.is_empty() || name.is_empty() {
        return Err(foreign());
    }
    Ok((driver.replacen('~', "/", 1), name))
}
