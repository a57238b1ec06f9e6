//! The options of a named volume, as `docker volume create -o` passes them.
//!
//! With `plugin`, a driver makes the volume; with `from`, that of another volume makes a copy of it.
//! With `type`, `o` and `device`, the options of Docker's own driver `local`, the volume is a folder
//! of the host, or in memory.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use thiserror::Error;
use volhost_model::quantity::{QuantityError, parse_bytes};

use super::local::{self, LocalVolume};
use super::names::{NAMESPACE, VolumeName};

/// The size of a volume that names none.
pub(super) const DEFAULT_SIZE: &str = "1Gi";
/// The plugins that come with volhost serve drivers with names of this domain.
const SHIPPED_DOMAIN: &str = ".volhost.io";
/// The option with the volume to copy.
const FROM: &str = "from";
/// The label of a claim with the time at which its volume was created, in seconds since the Unix
/// epoch.
pub(super) const CREATED: &str = "volhost.io/created";
/// The start of an option for the driver.
const PARAMETER: &str = "parameters.";

/// The labels of a claim.
pub(super) type Labels = BTreeMap<String, String>;

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
        "option {0}: {1:?} is not supported; a folder of the host is a volume with `-o type=none -o o=bind -o device=/the/folder`, a memory one with `-o type=tmpfs -o device=tmpfs -o o=size=64m`"
    )]
    NoLocal(&'static str, String),
    /// A volume in memory has no such option.
    #[error("option o: {0:?} {1}")]
    Memory(String, &'static str),
    /// The folder is missing, or no absolute path.
    #[error("option device: {0:?} is no absolute path of a folder without `..`")]
    Device(String),
    /// The option says nothing of a folder of the host or a memory.
    #[error("option {0}: a folder of the host, or a memory, has none; only type, o and device describe it")]
    NotOfLocal(String),
    /// The option says nothing of a copy.
    #[error("option {0}: a copy is made as the volume that it is of; only from and size describe it")]
    NotOfCopy(String),
    /// There is no such option.
    #[error(
        "option {0}: there is no such option; those are plugin, size, fstype, mount-options, and `parameters.KEY` for a parameter of the driver, from for a copy of a volume, or type, o and device for a folder of the host or a memory"
    )]
    Unknown(String),
}

/// The options of a new volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum VolumeOptions {
    /// A driver makes it.
    Provisioned(ProvisionOptions),
    /// It begins with the content of another volume, whose driver makes it.
    Copy {
        /// The other volume.
        of: String,
        /// Its size in bytes; none: that of the other.
        size: Option<u64>,
    },
    /// No driver makes it.
    Local(LocalVolume),
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
        if local::KEYS.iter().any(|key| options.contains_key(*key)) {
            return LocalVolume::read(options).map(Self::Local);
        }
        if options.contains_key(FROM) {
            return copy(options);
        }
        ProvisionOptions::read(options).map(Self::Provisioned)
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

    /// Returns how a volume of this class is made; none if the class has no provisioner.
    pub(super) fn of_class(class: &Value, size: u64) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let parameters = class.get("parameters").and_then(Value::as_object).into_iter().flatten();
        let mount_options = class.get("mountOptions").and_then(Value::as_array).into_iter().flatten();
        Some(Self {
            provisioner: class.get("provisioner").and_then(text)?,
            size,
            mount_options: mount_options.filter_map(text).collect(),
            parameters: parameters.filter_map(|(key, value)| Some((key.clone(), text(value)?))).collect(),
        })
    }

    /// Returns the manifest of the StorageClass and of the claim, with its labels, which begins with
    /// the content of `source`, if there is one.
    pub(super) fn manifest(
        &self,
        volume: &VolumeName,
        uid: &str,
        labels: &Labels,
        source: Option<&VolumeName>,
    ) -> String {
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
        let mut claim = claim(volume, Some(uid), labels, self.size);
        if let (Some(source), Some(spec)) = (source, claim.get_mut("spec").and_then(Value::as_object_mut)) {
            let source = json!({ "kind": "PersistentVolumeClaim", "name": source.claim() });
            spec.insert("dataSource".to_owned(), source);
        }
        format!("{class}\n---\n{claim}\n")
    }
}

/// Reads the options of a copy.
fn copy(options: BTreeMap<String, String>) -> Result<VolumeOptions, OptionError> {
    let (mut of, mut size) = (String::new(), None);
    for (key, value) in options {
        match key.as_str() {
            FROM => of = value,
            "size" => size = Some(parse_size(&value)?),
            _ => return Err(OptionError::NotOfCopy(shown(&key))),
        }
    }
    Ok(VolumeOptions::Copy { of, size })
}

/// The beginning of what a message repeats.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

/// Returns the claim of a volume that a driver makes. `uid`: none for that which its key gives it.
pub(super) fn claim(volume: &VolumeName, uid: Option<&str>, labels: &Labels, size: u64) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": { "name": volume.claim(), "namespace": NAMESPACE, "uid": uid, "labels": labels },
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
    fn a_plugin_of_volhost_needs_no_domain() {
        let manifest = |plugin| match read(&[("plugin", plugin)]) {
            Ok(VolumeOptions::Provisioned(options)) => {
                options.manifest(&VolumeName::new("data").unwrap(), "5f0c", &Labels::new(), None)
            }
            other => panic!("{other:?}"),
        };
        assert!(manifest("loop").contains("\"provisioner\":\"loop.volhost.io\""));
        assert!(manifest("a.example.com").contains("\"provisioner\":\"a.example.com\""));
    }

    #[test]
    fn a_copy_is_made_by_the_class_of_what_it_is_of() {
        let copy = |size| Ok(VolumeOptions::Copy { of: "data".to_owned(), size });
        assert_eq!(read(&[("from", "data")]), copy(None));
        assert_eq!(read(&[("from", "data"), ("size", "1k")]), copy(Some(1024)));
        assert!(matches!(read(&[("from", "data"), ("plugin", "loop")]), Err(OptionError::NotOfCopy(_))));
        let class = json!({ "provisioner": "p", "mountOptions": ["noatime"], "parameters": { "a": "b" } });
        let options = ProvisionOptions::of_class(&class, 7).unwrap();
        let (copy, of) = (VolumeName::new("copy").unwrap(), VolumeName::new("data").unwrap());
        let manifest = options.manifest(&copy, "5f0c", &Labels::new(), Some(&of));
        for part in [r#""a":"b""#, r#"["noatime"]"#, r#""storage":"7""#, r#""name":"data""#, r#"PersistentVolumeClaim"#]
        {
            assert!(manifest.contains(part), "{part}: {manifest}");
        }
        assert_eq!(ProvisionOptions::of_class(&json!({}), 7), None);
    }
}
