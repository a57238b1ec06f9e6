//! `configMap`: the keys of a config map as files.
//!
//! # Fields
//!
//! | field | value | meaning |
//! |---|---|---|
//! | `name` | required | the config map, of the pod's namespace |
//! | `items` | absent or empty | every key of `data` and `binaryData`, under its own name |
//! | | a list of `{key, path, mode}` | these keys, each at its path, with its own mode if it has one |
//! | `defaultMode` | 0 to 0777; 0644 when absent | the mode of files without one of their own |
//! | `optional` | `true` or `false`, the default | a missing config map, or key of `items`, leaves its files out |
//!
//! # What the pod gets
//!
//! A folder below the host's root folder, which only root can write to. With `fsGroup` everything in it belongs to that group, which
//! can read it whatever the modes say.
//!
//! When the config map changes, all files change at once: whoever reads through the volume's folder sees the old ones or the new ones. A
//! refresh that fails (the config map was deleted, a key is missing) leaves the files as they are, and the pod gets a
//! warning. A container that mounts a single file by `subPath` keeps the file it was started with.
//!
//! # Grants
//!
//! `files` and `config-maps`. The plugin sees the keys, never what they hold.

#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use volhost_plugin_sdk::file_set::{DEFAULT_MODE, tear_down};
use volhost_plugin_sdk::objects::ConfigMap as Object;
use volhost_plugin_sdk::prelude::*;
use volhost_plugin_sdk::{FileSet, KeySelection};

/// The plugin `kubernetes.io/configmap`.
#[derive(Debug)]
pub struct ConfigMap;

/// A checked `configMap`.
struct Source {
    name: String,
    keys: KeySelection,
}

impl Source {
    fn read(volume: &Volume) -> Result<Self> {
        volume.known_fields(&["name", "items", "defaultMode", "optional"])?;
        let default_mode = volume.mode("defaultMode")?.unwrap_or(DEFAULT_MODE);
        Ok(Self { name: volume.required("name")?, keys: KeySelection::read(volume, "", default_mode)? })
    }
}

impl VolumePlugin for ConfigMap {
    fn describe(about: &mut Description) {
        about
            .name("kubernetes.io/configmap")
            .version(env!("CARGO_PKG_VERSION"))
            .serves("configMap")
            .follows_its_source()
            .read_only();
    }

    /// Such a volume has no name of its own: it is its pod's.
    fn identify(volume: &Volume, _id: &mut Identity) -> Result<()> {
        Source::read(volume).map(drop)
    }

    fn set_up(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        let files = FileSet::for_pod(pod);
        source.keys.show(volume, Object::open(volume, pod, &source.name), &files)?;
        files.show_in_folder(volume, pod, target)
    }

    fn tear_down(target: &MountTarget) -> Result<()> {
        tear_down(target)
    }
}

export_plugin!(ConfigMap);
