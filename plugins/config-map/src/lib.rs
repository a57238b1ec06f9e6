#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use volhost_plugin_sdk::file_set::{DEFAULT_MODE, unpublish};
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

    /// Sets no name: the volume belongs to its pod.
    fn identify(volume: &Volume, _id: &mut Identity) -> Result<()> {
        Source::read(volume).map(drop)
    }

    fn publish(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        let files = FileSet::for_pod(pod);
        source.keys.show(volume, Object::open(volume, pod, &source.name), &files)?;
        files.show_in_folder(volume, pod, target)
    }

    fn unpublish(target: &MountTarget) -> Result<()> {
        unpublish(target)
    }
}

export_plugin!(ConfigMap);
