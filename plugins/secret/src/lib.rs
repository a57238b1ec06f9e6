#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use volhost_plugin_sdk::file_set::{DEFAULT_MODE, unpublish};
use volhost_plugin_sdk::objects::Secret as Object;
use volhost_plugin_sdk::prelude::*;
use volhost_plugin_sdk::{FileSet, KeySelection};

/// The plugin `kubernetes.io/secret`.
#[derive(Debug)]
pub struct Secret;

/// A checked `secret`.
struct Source {
    name: String,
    keys: KeySelection,
}

impl Source {
    fn read(volume: &Volume) -> Result<Self> {
        volume.known_fields(&["secretName", "items", "defaultMode", "optional"])?;
        let default_mode = volume.mode("defaultMode")?.unwrap_or(DEFAULT_MODE);
        Ok(Self { name: volume.required("secretName")?, keys: KeySelection::read(volume, "", default_mode)? })
    }
}

impl VolumePlugin for Secret {
    fn describe(about: &mut Description) {
        about
            .name("kubernetes.io/secret")
            .version(env!("CARGO_PKG_VERSION"))
            .serves("secret")
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
        files.show_in_memory(volume, pod, target)
    }

    fn unpublish(target: &MountTarget) -> Result<()> {
        unpublish(target)
    }
}

export_plugin!(Secret);
