//! A pod's `fsGroup` on a volume that several pods may share: the first one's counts.

use volhost_plugin_sdk::prelude::*;

/// The event's reason, in the kubelet's spelling.
const SHARED_EVENT: &str = "AlreadyMountedVolume";

/// Gives the files to the pod's group. If another pod uses them, it emits an event instead when
/// their group is another.
pub(crate) fn give(read_only: bool, pod: &Pod, target: &MountTarget) -> Result<()> {
    let Some(group) = pod.fs_group().filter(|_| !read_only) else {
        return Ok(());
    };
    if target.other_pods()? == 0 {
        return target.apply_fs_group(pod, false);
    }
    let theirs = target.group()?;
    if theirs != group {
        events::warning(
            SHARED_EVENT,
            format_args!(
                "The requested fsGroup is {group}, but the volume {} has GID {theirs}. The volume may not be shareable.",
                target.spec_name()
            ),
        );
    }
    Ok(())
}
