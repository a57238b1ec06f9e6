//! `downwardAPI`: fields of the pod as files.
//!
//! # Fields
//!
//! | field | value | meaning |
//! |---|---|---|
//! | `items` | a list | the files; without one the volume is empty |
//! | `items.N.path` | a relative path without `..` | where the file lies in the volume |
//! | `items.N.fieldRef.fieldPath` | `metadata.name`, `.namespace`, `.uid`, `.labels`, `.annotations`, `.labels['KEY']`, `.annotations['KEY']` | what it holds |
//! | `items.N.resourceFieldRef` | `{containerName, resource, divisor}` | or this: `limits.cpu`, `requests.memory` and the like of a container, divided and rounded up |
//! | `items.N.mode` | 0 to 0777 | the file's mode |
//! | `defaultMode` | 0 to 0777; 0644 when absent | the mode of files without one of their own |
//!
//! # What the pod gets
//!
//! A folder below the host's root folder, which only root can write to. With `fsGroup` everything in it belongs to that group, which
//! can read it whatever the modes say. When a label or annotation changes, all files change at once.
//!
//! All labels, or annotations, come as one `KEY="VALUE"` a line, sorted, quoted as Go quotes text. A limit that the container lacks is
//! what the node gives to pods.
//!
//! # Grants
//!
//! `files`.

#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use volhost_plugin_sdk::file_set::{DEFAULT_MODE, tear_down};
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

    /// Such a volume has no name of its own: it is its pod's.
    fn identify(volume: &Volume, _id: &mut Identity) -> Result<()> {
        read(volume).map(drop)
    }

    fn set_up(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        let files = FileSet::for_pod(pod);
        read(volume)?.show(volume, pod, &files)?;
        files.show_in_folder(volume, pod, target)
    }

    fn tear_down(target: &MountTarget) -> Result<()> {
        tear_down(target)
    }
}

export_plugin!(DownwardApi);
