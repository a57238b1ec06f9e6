//! `emptyDir`: a folder that lives as long as its pod.
//!
//! # Fields
//!
//! | field | value | meaning |
//! |---|---|---|
//! | `medium` | absent or `""` | a folder below the host's root folder, on whatever disk that is |
//! | | `Memory` | a memory file system of the pod's own |
//! | | `HugePages`, `HugePages-SIZE` | not in this version: `unsupported` |
//! | `sizeLimit` | a quantity such as `64Mi`; absent or 0 means no limit | the most a `Memory` volume may hold |
//!
//! # What the pod gets
//!
//! A folder that everybody may write to (mode 0777), whatever the host's umask. With `securityContext.fsGroup` it
//! belongs to that group and passes the group on to what is created in it (mode 02777).
//!
//! A `Memory` volume is a tmpfs of its own. It holds the least of: `sizeLimit`, the sum of the pod's memory limits, and
//! the memory that the node gives to pods; a write beyond that fails with "no space left on device". Its pages are
//! never written to swap (`noswap`); where the kernel can't promise that (before Linux 6.4, or in a user namespace),
//! the volume is made without it and the pod gets the event `PossibleMemoryBackedVolumesOnDisk`.
//!
//! On disk `sizeLimit` is checked for its form and not enforced: a mount has no means to.
//!
//! # What happens when it is repeated
//!
//! Setting up keeps what is in the folder. Tearing down unmounts, or deletes the folder with all that is in it; that is
//! what `emptyDir` means. A volume that stands there in another shape than asked for is never converted: `conflict`.

#![forbid(unsafe_code)]

mod memory;
mod source;
#[cfg(test)]
mod tests;

use source::{Medium, Source};
use volhost_plugin_sdk::prelude::*;

/// The plugin `kubernetes.io/empty-dir`.
#[derive(Debug)]
pub struct EmptyDir;

/// Everybody may do everything: the pod's containers may run as any user.
const MODE: u32 = 0o777;

/// What is created in the folder belongs to the folder's group.
const SETGID: u32 = 0o2000;

/// The mode of the volume's root.
fn mode(group: Option<u32>) -> u32 {
    if group.is_some() { MODE | SETGID } else { MODE }
}

impl VolumePlugin for EmptyDir {
    fn describe(about: &mut Description) {
        about.name("kubernetes.io/empty-dir").version(env!("CARGO_PKG_VERSION")).serves("emptyDir");
    }

    /// Such a volume has no name of its own: it is its pod's.
    fn identify(volume: &Volume, _id: &mut Identity) -> Result<()> {
        Source::read(volume).map(|_| ())
    }

    fn set_up(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        match source.medium {
            Medium::Disk => set_up_on_disk(pod, target),
            Medium::Memory => memory::set_up(&source, pod, target),
        }
    }

    fn tear_down(target: &MountTarget) -> Result<()> {
        match target.state()? {
            TargetState::Absent => Ok(()),
            TargetState::Mounted => target.detach(),
            TargetState::Plain => target.delete_folder(),
        }
    }
}

fn set_up_on_disk(pod: &Pod, target: &MountTarget) -> Result<()> {
    let group = pod.fs_group();
    // Nearly always it just works, so what stands in the way is only asked for when something does.
    target.make_folder(mode(group), group).map_err(|error| match (&error, target.mounted_type()) {
        (Error::Conflict(_), Ok(Some(fs_type))) => Error::conflict(format!(
            "a {fs_type} mount stands where the folder of this emptyDir should be; unmount it, or delete the pod"
        )),
        _ => error,
    })
}

export_plugin!(EmptyDir);
