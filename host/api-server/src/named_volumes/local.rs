//! The options of Docker's own driver `local`: a folder of the host, or memory.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use serde_json::{Value, json};

use super::names::{NAMESPACE, VolumeName};
use super::options::{DEFAULT_SIZE, Labels, OptionError, parse_size, shown};

/// The options that describe such a volume.
pub(super) const KEYS: [&str; 3] = ["type", "o", "device"];
/// The driver of a volume in memory.
const MEMORY_DRIVER: &str = "tmpfs.volhost.io";
/// Options of a mount that volumes in memory take.
const MOUNT_FLAGS: [&str; 6] = ["noexec", "nosuid", "nodev", "noatime", "nodiratime", "relatime"];
/// Every bit that chmod(2) sets.
const MODES: u32 = 0o7777;

/// A volume that no driver makes: its PersistentVolume has all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LocalVolume {
    /// It is this folder of the host, and stays when the volume is removed.
    Folder(String),
    /// It is in memory, and empty whenever it gets its first user.
    Memory(MemoryOptions),
}

/// How a volume in memory is made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct MemoryOptions {
    attributes: BTreeMap<&'static str, String>,
    mount_options: Vec<String>,
}

impl LocalVolume {
    /// Reads the options.
    ///
    /// # Errors
    /// [`OptionError`] names the option.
    pub(super) fn read(options: BTreeMap<String, String>) -> Result<Self, OptionError> {
        if let Some(other) = options.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(OptionError::NotOfLocal(shown(other)));
        }
        let option = |key: &str| options.get(key).map_or("", String::as_str);
        match option("type") {
            // Docker takes any device here, and people write `tmpfs`.
            "tmpfs" => MemoryOptions::read(option("o")).map(Self::Memory),
            "" | "none" | "bind" => match option("o") {
                "bind" | "rbind" => folder(option("device")).map(Self::Folder),
                other => Err(OptionError::NoLocal("o", shown(other))),
            },
            other => Err(OptionError::NoLocal("type", shown(other))),
        }
    }

    /// Returns the manifest of the PersistentVolume and of its claim, with its labels.
    pub(super) fn manifest(&self, volume: &VolumeName, labels: &Labels) -> String {
        let claim = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": { "name": volume.claim(), "namespace": NAMESPACE, "labels": labels },
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "",
                "volumeName": volume.persistent_volume(),
                "resources": { "requests": { "storage": self.size() } },
            },
        });
        let mut made = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": { "name": volume.persistent_volume() },
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "capacity": { "storage": self.size() },
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": { "namespace": NAMESPACE, "name": volume.claim() },
            },
        });
        if let Some(spec) = made.get_mut("spec").and_then(Value::as_object_mut) {
            spec.extend(self.source(volume));
        }
        format!("{made}\n---\n{claim}\n")
    }

    /// The fields of the PersistentVolume's `spec` that say what it is.
    fn source(&self, volume: &VolumeName) -> Vec<(String, Value)> {
        match self {
            Self::Folder(path) => vec![("hostPath".to_owned(), json!({ "path": path, "type": "Directory" }))],
            Self::Memory(MemoryOptions { attributes, mount_options }) => vec![
                ("mountOptions".to_owned(), json!(mount_options)),
                (
                    "csi".to_owned(),
                    json!({
                        "driver": MEMORY_DRIVER,
                        "volumeHandle": volume.persistent_volume(),
                        "volumeAttributes": attributes,
                    }),
                ),
            ],
        }
    }

    /// The size of the objects. Nobody counts that of a folder, which has the room of its file
    /// system.
    fn size(&self) -> &str {
        match self {
            Self::Folder(_) => DEFAULT_SIZE,
            Self::Memory(options) => options.attributes.get("size").map_or(DEFAULT_SIZE, String::as_str),
        }
    }
}

impl MemoryOptions {
    /// Reads the options of mount(8) for a tmpfs, with commas between them.
    fn read(text: &str) -> Result<Self, OptionError> {
        let mut read = Self::default();
        for option in text.split(',').filter(|option| !option.is_empty()) {
            let wrong = |why| OptionError::Memory(shown(option), why);
            let id = |value: &str| match value.parse::<u32>() {
                Ok(id) if id < u32::MAX && !value.starts_with('+') => Ok(value.to_owned()),
                _ => Err(wrong("is no number of a user or group")),
            };
            let (key, value) = match option.split_once('=') {
                Some(("size", size)) => ("size", parse_size(size)?.to_string()),
                Some(("nr_inodes", count)) => match parse_size(count) {
                    Ok(count) if u32::try_from(count).is_ok() => ("inodes", count.to_string()),
                    _ => return Err(wrong("is no number of files and folders")),
                },
                Some(("uid", user)) => ("uid", id(user)?),
                Some(("gid", group)) => ("gid", id(group)?),
                Some(("mode", mode)) => match u32::from_str_radix(mode, 8) {
                    Ok(bits) if bits <= MODES && !mode.starts_with('+') => ("mode", mode.to_owned()),
                    _ => return Err(wrong("is no octal mode")),
                },
                None if MOUNT_FLAGS.contains(&option) => {
                    read.mount_options.push(option.to_owned());
                    continue;
                }
                _ => {
                    return Err(wrong(
                        "is not known: those are size, nr_inodes, mode, uid, gid, noexec, nosuid, nodev",
                    ));
                }
            };
            read.attributes.insert(key, value);
        }
        Ok(read)
    }
}

fn folder(device: &str) -> Result<String, OptionError> {
    let path = Path::new(device);
    let is_plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if path.is_absolute() && is_plain { Ok(device.to_owned()) } else { Err(OptionError::Device(shown(device))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(options: &[(&str, &str)]) -> Result<LocalVolume, OptionError> {
        LocalVolume::read(options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn a_folder_of_the_host_is_described_as_to_docker() {
        let bind = |device| read(&[("type", "none"), ("o", "bind"), ("device", device)]);
        assert_eq!(bind("/srv/data"), Ok(LocalVolume::Folder("/srv/data".to_owned())));
        for path in ["", "srv", "/srv/../etc", "../x"] {
            assert!(matches!(bind(path), Err(OptionError::Device(_))), "{path}");
        }
        assert!(matches!(read(&[("type", "nfs"), ("device", ":/srv")]), Err(OptionError::NoLocal("type", _))));
        assert!(matches!(read(&[("o", "size=1m"), ("device", "/srv")]), Err(OptionError::NoLocal("o", _))));
        assert!(matches!(read(&[("device", "/srv")]), Err(OptionError::NoLocal("o", _))));
        assert!(matches!(read(&[("o", "bind"), ("device", "/srv"), ("size", "1g")]), Err(OptionError::NotOfLocal(_))));
    }

    #[test]
    fn a_memory_is_described_as_to_docker() {
        let memory = |o| read(&[("type", "tmpfs"), ("device", "tmpfs"), ("o", o)]);
        let name = VolumeName::new("cache").unwrap();
        let manifest =
            memory("size=100m,uid=1000,gid=0,mode=0750,nr_inodes=10k,noexec").unwrap().manifest(&name, &Labels::new());
        for part in [
            r#""size":"104857600""#,
            r#""uid":"1000""#,
            r#""gid":"0""#,
            r#""mode":"0750""#,
            r#""inodes":"10240""#,
            r#""mountOptions":["noexec"]"#,
            r#""storage":"104857600""#,
        ] {
            assert!(manifest.contains(part), "{part}: {manifest}");
        }
        assert_eq!(memory(""), Ok(LocalVolume::Memory(MemoryOptions::default())));
        for o in [
            "size=0",
            "size=50%",
            "uid=-1",
            "uid=+1",
            "gid=4294967295",
            "mode=9",
            "nr_inodes=1t",
            "huge=always",
            "rw=1",
        ] {
            assert!(memory(o).is_err(), "{o}");
        }
        assert!(matches!(read(&[("type", "tmpfs"), ("plugin", "loop")]), Err(OptionError::NotOfLocal(_))));
    }
}
