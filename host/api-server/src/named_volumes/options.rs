//! The options of a named volume, as `docker volume create -o` passes them.
//!
//! With `plugin`, a driver makes the volume. With `type`, `o` and `device`, the options of Docker's
//! own driver `local`, the volume is a folder of the host.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use serde_json::{Value, json};
use thiserror::Error;
use volhost_model::quantity::{QuantityError, parse_bytes};

use super::names::{NAMESPACE, VolumeName};

/// The size of a volume that names none.
const DEFAULT_SIZE: &str = "1Gi";
/// The plugins that come with volhost serve drivers with names of this domain.
const SHIPPED_DOMAIN: &str = ".volhost.io";
/// The start of an option for the driver.
const PARAMETER: &str = "parameters.";

/// Why an option was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum OptionError {
    /// The plugin is missing.
    #[error("option plugin: it is missing; name the plugin or driver that provisions the volume, as `-o plugin=loop`")]
    NoPlugin,
    /// The plugin's name has a character that no driver's name has.
    #[error("option plugin: {0:?} is no driver's name: lower-case letters, digits, `.` and `-`")]
    Plugin(String),
    /// The size is no quantity.
    #[error("option size: {0}")]
    Size(#[source] QuantityError),
    /// The size is zero.
    #[error("option size: a volume has one byte at least")]
    Zero,
    /// Docker's driver `local` makes another kind of volume of this value.
    #[error(
        "option {0}: {1:?} is not supported; a folder of the host is a volume with `-o type=none -o o=bind -o device=/the/folder`, and `--tmpfs` of docker run is one in memory"
    )]
    NoBind(&'static str, String),
    /// The folder is missing, or no absolute path.
    #[error("option device: {0:?} is no absolute path of a folder without `..`")]
    Device(String),
    /// The option says nothing of a folder of the host.
    #[error("option {0}: a folder of the host has none; only type, o and device describe it")]
    NotOfFolder(String),
    /// There is no such option.
    #[error(
        "option {0}: there is no such option; those are plugin, size, fstype, mount-options, and `parameters.KEY` for a parameter of the driver, or type, o and device for a folder of the host"
    )]
    Unknown(String),
}

/// The options of a new volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum VolumeOptions {
    /// A driver makes it.
    Provisioned(ProvisionOptions),
    /// It is this folder of the host, and stays when the volume is removed.
    Folder(String),
}

/// How a driver makes a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProvisionOptions {
    provisioner: String,
    size: u64,
    mount_options: Vec<String>,
    parameters: BTreeMap<String, String>,
}

impl VolumeOptions {
    /// Reads the options.
    ///
    /// # Errors
    /// [`OptionError`] names the option.
    pub(super) fn read(options: impl IntoIterator<Item = (String, String)>) -> Result<Self, OptionError> {
        // In the order of their names, so that the same mistake is always the first.
        let options: BTreeMap<String, String> = options.into_iter().collect();
        if ["type", "o", "device"].iter().any(|key| options.contains_key(*key)) {
            return folder(options).map(Self::Folder);
        }
        ProvisionOptions::read(options).map(Self::Provisioned)
    }

    /// Returns the manifest of the volume's objects.
    pub(super) fn manifest(&self, volume: &VolumeName) -> String {
        match self {
            Self::Provisioned(options) => options.manifest(volume),
            Self::Folder(path) => folder_manifest(volume, path),
        }
    }
}

impl ProvisionOptions {
    fn read(options: BTreeMap<String, String>) -> Result<Self, OptionError> {
        let (mut provisioner, mut size, mut mount_options) = (None, None, Vec::new());
        let mut parameters = BTreeMap::new();
        for (key, value) in options {
            match (key.as_str(), key.strip_prefix(PARAMETER)) {
                ("plugin", _) => provisioner = Some(driver(&value)?),
                ("size", _) => size = Some(parse_size(&value)?),
                ("mount-options", _) => {
                    mount_options = value.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect();
                }
                ("fstype", _) => drop(parameters.insert("csi.storage.k8s.io/fstype".to_owned(), value)),
                (_, Some(parameter)) if !parameter.is_empty() => drop(parameters.insert(parameter.to_owned(), value)),
                _ => return Err(OptionError::Unknown(shown(&key))),
            }
        }
        let provisioner = provisioner.ok_or(OptionError::NoPlugin)?;
        let size = size.map_or_else(|| parse_size(DEFAULT_SIZE), Ok)?;
        Ok(Self { provisioner, size, mount_options, parameters })
    }

    /// Returns the manifest of the StorageClass and of the claim.
    fn manifest(&self, volume: &VolumeName) -> String {
        let class = json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": { "name": volume.class() },
            "provisioner": self.provisioner,
            "parameters": self.parameters,
            "mountOptions": self.mount_options,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
            "allowVolumeExpansion": true,
        });
        format!("{class}\n---\n{}\n", claim(volume, self.size))
    }
}

/// Reads the options of a folder of the host, and returns its path.
fn folder(options: BTreeMap<String, String>) -> Result<String, OptionError> {
    let (mut device, mut is_bind) = (None, false);
    for (key, value) in options {
        match key.as_str() {
            "device" => device = Some(value),
            "type" if matches!(value.as_str(), "" | "none" | "bind") => {}
            "type" => return Err(OptionError::NoBind("type", shown(&value))),
            "o" if matches!(value.as_str(), "bind" | "rbind") => is_bind = true,
            "o" => return Err(OptionError::NoBind("o", shown(&value))),
            _ => return Err(OptionError::NotOfFolder(shown(&key))),
        }
    }
    if !is_bind {
        return Err(OptionError::NoBind("o", String::new()));
    }
    let device = device.unwrap_or_default();
    let path = Path::new(&device);
    let is_plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if path.is_absolute() && is_plain { Ok(device) } else { Err(OptionError::Device(shown(&device))) }
}

fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

/// Returns the manifest of the PersistentVolume of a folder, and of its claim.
fn folder_manifest(volume: &VolumeName, path: &str) -> String {
    let claim = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": { "name": volume.claim(), "namespace": NAMESPACE },
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": volume.persistent_volume(),
            "resources": { "requests": { "storage": DEFAULT_SIZE } },
        },
    });
    let folder = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": { "name": volume.persistent_volume() },
        "spec": {
            "accessModes": ["ReadWriteMany"],
            // Nobody counts it: the folder has the room of its file system.
            "capacity": { "storage": DEFAULT_SIZE },
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": { "namespace": NAMESPACE, "name": volume.claim() },
            "hostPath": { "path": path, "type": "Directory" },
        },
    });
    format!("{folder}\n---\n{claim}\n")
}

/// Returns the claim of a volume that a driver makes.
pub(super) fn claim(volume: &VolumeName, size: u64) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": { "name": volume.claim(), "namespace": NAMESPACE },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": volume.class(),
            "resources": { "requests": { "storage": size.to_string() } },
        },
    })
}

/// Reads a size: a quantity, or Docker's lower-case suffixes, which are powers of 1024 (`10m`, in
/// Kubernetes 10 thousandths, is 10 MiB).
///
/// # Errors
/// [`OptionError::Size`], [`OptionError::Zero`].
pub(super) fn parse_size(text: &str) -> Result<u64, OptionError> {
    let quantity = match text.strip_suffix('b').unwrap_or(text) {
        docker if docker.ends_with(['k', 'm', 'g', 't']) => {
            let (number, suffix) = docker.split_at(docker.len() - 1);
            format!("{number}{}i", suffix.to_ascii_uppercase())
        }
        _ => text.to_owned(),
    };
    match parse_bytes(&quantity).map_err(OptionError::Size)? {
        0 => Err(OptionError::Zero),
        size => Ok(size),
    }
}

/// Returns the driver: a name without a dot is a plugin that comes with volhost.
fn driver(name: &str) -> Result<String, OptionError> {
    let is_valid = name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'))
        && name.len() <= 63;
    match is_valid {
        false => Err(OptionError::Plugin(name.chars().take(64).collect())),
        true if name.contains('.') => Ok(name.to_owned()),
        true => Ok(format!("{name}{SHIPPED_DOMAIN}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(options: &[(&str, &str)]) -> Result<VolumeOptions, OptionError> {
        VolumeOptions::read(options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn sizes_are_read_as_docker_and_as_kubernetes_write_them() {
        for (text, bytes) in
            [("10m", 10 << 20), ("10mb", 10 << 20), ("1Gi", 1 << 30), ("1g", 1 << 30), ("1M", 1_000_000)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        assert_eq!(parse_size("0"), Err(OptionError::Zero));
        for text in ["", "-1", "m", "1x", "10mbb", "99999999999999999999", "1é"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_option_that_does_not_exist_is_named() {
        let error = read(&[("plugin", "loop"), ("sise", "1Gi")]).unwrap_err().to_string();
        assert!(error.starts_with("option sise: "), "{error}");
        assert_eq!(read(&[]), Err(OptionError::NoPlugin));
        assert!(matches!(read(&[("plugin", "../x")]), Err(OptionError::Plugin(_))));
    }

    #[test]
    fn a_folder_of_the_host_is_described_as_to_docker() {
        let bind = |device| read(&[("type", "none"), ("o", "bind"), ("device", device)]);
        assert_eq!(bind("/srv/data"), Ok(VolumeOptions::Folder("/srv/data".to_owned())));
        for path in ["", "srv", "/srv/../etc", "../x"] {
            assert!(matches!(bind(path), Err(OptionError::Device(_))), "{path}");
        }
        assert!(matches!(read(&[("type", "tmpfs"), ("device", "tmpfs")]), Err(OptionError::NoBind("type", _))));
        assert!(matches!(read(&[("o", "size=1m"), ("device", "/srv")]), Err(OptionError::NoBind("o", _))));
        assert!(matches!(read(&[("device", "/srv")]), Err(OptionError::NoBind("o", _))));
        assert!(matches!(read(&[("o", "bind"), ("device", "/srv"), ("size", "1g")]), Err(OptionError::NotOfFolder(_))));
    }

    #[test]
    fn a_plugin_of_volhost_needs_no_domain() {
        let manifest = read(&[("plugin", "loop")]).unwrap().manifest(&VolumeName::new("data").unwrap());
        assert!(manifest.contains("\"provisioner\":\"loop.volhost.io\""), "{manifest}");
        let manifest = read(&[("plugin", "a.example.com")]).unwrap().manifest(&VolumeName::new("data").unwrap());
        assert!(manifest.contains("\"provisioner\":\"a.example.com\""), "{manifest}");
    }
}
