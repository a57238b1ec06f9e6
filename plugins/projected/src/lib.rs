//! `projected`: several sources in one folder.
//!
//! # Fields
//!
//! | field | value | meaning |
//! |---|---|---|
//! | `sources` | a list | each entry has exactly one of the following |
//! | `sources.N.configMap`, `.secret` | `{name, items, optional}` | as the volumes of these kinds |
//! | `sources.N.downwardAPI` | `{items}` | as that volume |
//! | `sources.N.serviceAccountToken` | `{path, audience, expirationSeconds}` | a token of the pod's service account, 3,600 s unless told, 600 at least |
//! | `sources.N.clusterTrustBundle` | `{path, name, optional}` or `{path, signerName, labelSelector, optional}` | certificates, in PEM, each once |
//! | `defaultMode` | 0 to 0777; 0644 when absent | the mode of files without one of their own |
//!
//! # What the pod gets
//!
//! A memory file system of its own, which only root can write to and whose pages never reach swap; where the kernel can't promise
//! that, the pod gets the event `PossibleMemoryBackedVolumesOnDisk`. Sources are taken in order; a later one's file replaces an
//! earlier one's of the same path. With `fsGroup` everything belongs to that group, which can read it. Tokens and certificates
//! belong to the user that all containers run as; where that or `fsGroup` is known, nobody else can read them (mode 0600, 0640).
//!
//! When a source changes, or a token comes to its end, all files change at once. When any source fails, the files stay as they are, and
//! the pod is told of every source that failed.
//!
//! # Grants
//!
//! `files`, `config-maps`, `secrets`, `service-account-tokens` and `cluster-trust-bundles`. The plugin sees the keys, never what
//! they hold.

#![forbid(unsafe_code)]

mod source;
#[cfg(test)]
mod tests;

use source::Source;
use volhost_plugin_sdk::FileSet;
use volhost_plugin_sdk::file_set::tear_down;
use volhost_plugin_sdk::prelude::*;

/// The plugin `kubernetes.io/projected`.
#[derive(Debug)]
pub struct Projected;

/// Adds the files of every source, or says of all that failed why.
fn collect(sources: &[Source], volume: &Volume, pod: &Pod, files: &FileSet) -> Result<()> {
    let mut failed: Option<Error> = None;
    for error in sources.iter().filter_map(|source| source.show(volume, pod, files).err()) {
        failed = Some(match failed {
            None => error,
            // The first one decides what the host does; all are tried again together.
            Some(first) => first.and(&error),
        });
    }
    failed.map_or(Ok(()), Err)
}

impl VolumePlugin for Projected {
    fn describe(about: &mut Description) {
        about
            .name("kubernetes.io/projected")
            .version(env!("CARGO_PKG_VERSION"))
            .serves("projected")
            .follows_its_source()
            .read_only();
    }

    /// Such a volume has no name of its own: it is its pod's.
    fn identify(volume: &Volume, _id: &mut Identity) -> Result<()> {
        Source::read_all(volume).map(drop)
    }

    fn set_up(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        let sources = Source::read_all(volume)?;
        let files = FileSet::for_pod(pod);
        collect(&sources, volume, pod, &files)?;
        files.show_in_memory(volume, pod, target)
    }

    fn tear_down(target: &MountTarget) -> Result<()> {
        tear_down(target)
    }
}

export_plugin!(Projected);
