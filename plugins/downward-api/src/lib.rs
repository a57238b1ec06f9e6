#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use volhost_plugin_sdk::file_set::{DEFAULT_MODE, unpublish};
use volhost_plugin_sdk::prelude::*;
use volhost_plugin_sdk::{FileSet, PodItems};

/// The plugin `kubernetes.io/downward-api`.
#[derive(Debug)]
pub struct DownwardApi;

fn read(volume: &Volume) -> Result<PodItems> {
    volume.known_fields(&["items", "defaultMode"])?;
    PodItems::read(volume, "", volume.mode("defaultMode")?.unwrap_or(DEFAULT_MODE))
}

impl VolumePlugin for DownwardApi {
    fn describe(about: &mut Description) {
        about
            .name("kubernetes.io/downward-api")
            .version(env!("CARGO_PKG_VERSION"))
            .serves("downwardAPI")
            .follows_its_source()
            .read_only();
    }

    /// Sets no name: the volume belongs to its pod.
    fn identify(volume: &Volume, _id: &mut Identity) -> Result<()> {
        read(volume).map(drop)
    }

    fn publish(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        let files = FileSet::for_pod(pod);
        read(volume)?.show(volume, pod, &files)?;
        files.show_in_folder(volume, pod, target)
    }

    fn unpublish(target: &MountTarget) -> Result<()> {
        unpublish(target)
    }
}

export_plugin!(DownwardApi);
