#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod source;
#[cfg(test)]
mod tests;

use source::Source;
use volhost_plugin_sdk::FileSet;
use volhost_plugin_sdk::file_set::unpublish;
use volhost_plugin_sdk::prelude::*;

/// The plugin `kubernetes.io/projected`.
#[derive(Debug)]
pub struct Projected;

/// Adds the files of every source, or reports every source that failed.
fn collect(sources: &[Source], volume: &Volume, pod: &Pod, files: &FileSet) -> Result<()> {
    let mut failed: Option<Error> = None;
    for error in sources.iter().filter_map(|source| source.show(volume, pod, files).err()) {
        failed = Some(match failed {
            None => error,
            // The case of the first one counts; the host retries all together.
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

    /// Sets no name: the volume belongs to its pod.
    fn identify(volume: &Volume, _id: &mut Identity) -> Result<()> {
        Source::read_all(volume).map(drop)
    }

    fn publish(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        let sources = Source::read_all(volume)?;
        let files = FileSet::for_pod(pod);
        collect(&sources, volume, pod, &files)?;
        files.show_in_memory(volume, pod, target)
    }

    fn unpublish(target: &MountTarget) -> Result<()> {
        unpublish(target)
    }
}

export_plugin!(Projected);
