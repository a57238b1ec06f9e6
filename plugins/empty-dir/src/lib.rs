//! `emptyDir`: a folder that lives as long as its pod.
//!
//! # Fields
//!
//! | field | value | meaning |
//! |---|---|---|
//! | `medium` | absent or `""` | a folder below the host's root folder, on whatever disk that is |
//! | | `Memory` | a memory file system of the pod's own |
//! | | `HugePages-SIZE`, such as `HugePages-2Mi` | memory in huge pages of that size, for which a container must ask |
//! | | `HugePages` | the same, of the one size that the pod's containers ask for |
//! | `sizeLimit` | a quantity such as `64Mi`; absent or 0 means no limit | the most the volume may hold |
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
//! A `HugePages` volume is a hugetlbfs of its own, which holds the lesser of `sizeLimit` and what the pod's containers may use in pages of
//! this size. No page is taken before a container uses it.
//!
//! # A limit on disk
//!
//! Where the root folder lies on a btrfs whose quotas are on (`btrfs quota enable`), the file system itself enforces `sizeLimit`: a
//! write beyond it fails with "disk quota exceeded". Elsewhere the host measures the volume every 10 seconds, less often if that takes
//! long, and the pod gets the event `ExceedsSizeLimit` once it holds more; nothing stops it from growing. That is
//! also so for a volume that was made before quotas were turned on.
//!
//! # Grants
//!
//! `quotas` for a limit on disk, `huge-pages` for such a medium.
//!
//! # What happens when it is repeated
//!
//! Setting up keeps what is in the folder. Tearing down unmounts, or deletes the folder with all that is in it; that is
//! what `emptyDir` means. A volume that stands there in another shape than asked for is never converted: `conflict`.

#![forbid(unsafe_code)]

mod huge_pages;
mod memory;
mod source;
#[cfg(test)]
mod tests;

use source::{Medium, Source};
use volhost_plugin_sdk::prelude::*;

/// The plugin `kubernetes.io/empty-dir`.
#[derive(Debug)]
pub struct EmptyDir;
/// The lesser of what the volume and the pod may hold, in bytes; none if neither is limited.
fn limit_on_disk(source: &Source, pod: &Pod) -> Option<u64> {
    [source.size_limit, pod.ephemeral_storage_limit()].into_iter().flatten().filter(|bytes| *bytes > 0).min()
}


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
            Medium::Disk => set_up_on_disk(limit_on_disk(&source, pod), pod, target),
            Medium::Memory => memory::set_up(&source, pod, target),
            Medium::HugePages(size) => huge_pages::set_up(&source, size, pod, target),
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

fn set_up_on_disk(limit: Option<u64>, pod: &Pod, target: &MountTarget) -> Result<()> {
    let Some(limit) = limit else {
        return make_folder(pod, target);
    };
    let group = pod.fs_group();
    match quotas::make_limited_folder(target, mode(group), group, limit) {
        // Something stands there that has no quota, or nothing here can have one.
        Err(Error::Unsupported(_) | Error::Conflict(_)) => {
            make_folder(pod, target)?;
            quotas::watch_size(target, limit);
            Ok(())
        }
        done => done,
    }
}

fn make_folder(pod: &Pod, target: &MountTarget) -> Result<()> {
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
