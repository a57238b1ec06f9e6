//! `secret`: the keys of a secret as files.
//!
//! # Fields
//!
//! | field | value | meaning |
//! |---|---|---|
//! | `secretName` | required | the secret, of the pod's namespace |
//! | `items` | absent or empty | every key, under its own name |
//! | | a list of `{key, path, mode}` | these keys, each at its path, with its own mode if it has one |
//! | `defaultMode` | 0 to 0777; 0644 when absent | the mode of files without one of their own |
//! | `optional` | `true` or `false`, the default | a missing secret, or key of `items`, leaves its files out |
//!
//! # What the pod gets
//!
//! A memory file system of its own, which only root can write to and whose pages never reach swap; where the kernel can't promise
//! that (before Linux 6.4, or in a user namespace), the pod gets the event `PossibleMemoryBackedVolumesOnDisk`. With `fsGroup` everything
//! in it belongs to that group, which can read it whatever the modes say.
//!
//! When the secret changes, all files change at once: whoever reads through the volume's folder sees the old ones or the new ones. A
//! refresh that fails leaves the files as they are, and the pod gets a warning.
//!
//! # Grants
//!
//! `files` and `secrets`. The plugin sees the keys, never what they hold; the host's log says which secret was used for which pod.

#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use volhost_plugin_sdk::file_set::{DEFAULT_MODE, tear_down};
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

    /// Such a volume has no name of its own: it is its pod's.
    fn identify(volume: &Volume, _id: &mut Identity) -> Result<()> {
        Source::read(volume).map(drop)
    }

    fn set_up(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        let files = FileSet::for_pod(pod);
        source.keys.show(volume, Object::open(volume, pod, &source.name), &files)?;
        files.show_in_memory(volume, pod, target)
    }

    fn tear_down(target: &MountTarget) -> Result<()> {
        tear_down(target)
    }
}

export_plugin!(Secret);
