//! `medium: Memory`.

use volhost_plugin_sdk::prelude::*;

use crate::mode;
use crate::source::Source;

/// The event's reason, in the kubelet's spelling.
const SWAP_EVENT: &str = "PossibleMemoryBackedVolumesOnDisk";

/// Mounts a tmpfs at the target.
pub(crate) fn publish(source: &Source, pod: &Pod, target: &MountTarget) -> Result<()> {
    match target.state()? {
        TargetState::Mounted => return accept(target),
        // A crash leaves the mount point without its mount. This removes it, and refuses if there
        // is data in it.
        TargetState::Plain => target.detach().context(
            "emptyDir.medium is \"Memory\", and there is a plain folder in place of its tmpfs; only an empty one is \
             replaced",
        )?,
        TargetState::Absent => {}
    }
    let mount = create(size(source, pod), pod.fs_group())?;
    target.attach(mount)
}

/// Checks that the existing mount is a tmpfs.
fn accept(target: &MountTarget) -> Result<()> {
    match target.mounted_type()?.as_deref() {
        Some("tmpfs") => Ok(()),
        other => Err(Error::conflict(format!(
            "there is a {} mount in place of the tmpfs of this emptyDir; unmount it, or delete the pod",
            other.unwrap_or("foreign")
        ))),
    }
}

/// The lowest limit of the volume, in bytes; none without a limit.
fn size(source: &Source, pod: &Pod) -> Option<u64> {
    let limits = [source.size_limit, pod.memory_limit(), Some(node::allocatable_memory())];
    limits.into_iter().flatten().filter(|bytes| *bytes > 0).min()
}

fn create(size: Option<u64>, group: Option<u32>) -> Result<DetachedMount> {
    let mut tmpfs = Tmpfs::new().mode(mode(group));
    if let Some(bytes) = size {
        tmpfs = tmpfs.size(bytes);
    }
    if let Some(group) = group {
        tmpfs = tmpfs.group(group);
    }
    match tmpfs.clone().noswap().create() {
        // A kernel or a user namespace without it; another missing option would fail again below.
        Err(Error::Unsupported(why)) => {
            let mount = tmpfs.create()?;
            events::warning(
                SWAP_EVENT,
                format_args!(
                    "this node can't keep the memory of an emptyDir out of swap, so it may reach a disk: {why}"
                ),
            );
            Ok(mount)
        }
        done => done,
    }
}
