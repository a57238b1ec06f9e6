//! Who else has a volume that is mounted for the node: asked of the kernel, and only when a plugin wants to know.

use std::path::PathBuf;
use std::sync::Arc;

use volhost_core::Operation;
use volhost_kernel::{Directory, Kernel, KernelError};
use volhost_model::{Failure, FailureClass};
use volhost_runtime::Sharers;

use super::layout;
use super::volume_ops::{VolumeOps, kernel_failure};

/// The pods that show the node's mount of one volume.
#[derive(Debug)]
struct OtherPods {
    kernel: Arc<dyn Kernel>,
    root: Directory,
    /// The node's own mount, and the mount of the pod that asks, below the root.
    node: PathBuf,
    own: PathBuf,
}

impl Sharers for OtherPods {
    fn other_pods(&self) -> Result<u32, KernelError> {
        let all = self.kernel.mounts_below(&self.root)?;
        let Some(node) = all.iter().find(|mount| mount.point == self.node) else { return Ok(0) };
        let same = all
            .iter()
            .filter(|mount| mount.source == node.source && mount.root == node.root && mount.fs_type == node.fs_type);
        let volumes = same.filter(|mount| is_volume(&mount.point) && mount.point != self.own);
        Ok(u32::try_from(volumes.count()).unwrap_or(u32::MAX))
    }
}

/// `pods/UID/volumes/PLUGIN/NAME`: not what is mounted inside one, or for a sub-path.
fn is_volume(point: &std::path::Path) -> bool {
    let mut parts = point.iter();
    let (pods, _uid, volumes) = (parts.next(), parts.next(), parts.next());
    pods.is_some_and(|part| part == layout::PODS)
        && volumes.is_some_and(|part| part == layout::VOLUMES)
        && parts.count() == 2
}

impl VolumeOps {
    /// Who else has the operation's volume, if it is mounted for the node.
    pub(super) fn sharers(&self, operation: &Operation) -> Result<Option<Arc<dyn Sharers>>, Failure> {
        let (Some(pod), true) = (&operation.pod_uid, operation.stageable) else {
            return Ok(None);
        };
        let root = self
            .kernel
            .try_clone(&self.root)
            .map_err(|error| kernel_failure("OpenFolder", FailureClass::Transient, &error))?;
        let node = layout::mount_folder(&operation.plugin, &operation.volume).join(layout::GLOBAL_MOUNT);
        let own = layout::plugin_folder(pod, &operation.plugin).join(operation.spec_name.as_str());
        Ok(Some(Arc::new(OtherPods { kernel: self.kernel.clone(), root, node, own })))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::is_volume;

    #[test]
    fn only_pods_volumes_count() {
        for (point, counts) in [
            ("pods/uid/volumes/a~b/data", true),
            ("pods/uid/volumes/a~b/data/inner", false),
            ("pods/uid/volume-subpaths/data/main/0", false),
            ("plugins/a/b/mounts/data/globalmount", false),
            ("pods/uid/volumes/a~b", false),
        ] {
            assert_eq!(is_volume(Path::new(point)), counts, "{point}");
        }
    }
}
