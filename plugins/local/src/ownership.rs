//! A pod's `fsGroup` on a volume that several pods may have: the first one's counts.

use volhost_plugin_sdk::prelude::*;

/// The event's reason, as the kubelet spells it.
const SHARED_EVENT: &str = "AlreadyMountedVolume";

/// Gives the files to the pod's group, unless another pod has them: then a group that is not theirs
/// is told.
pub(crate) fn give(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
    let Some(group) = pod.fs_group().filter(|_| !volume.read_only()) else {
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
