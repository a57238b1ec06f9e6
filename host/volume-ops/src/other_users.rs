//! Who else uses a staged volume. The kernel is asked, and only when a plugin wants to know.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use volhost_kernel::{Directory, Kernel, KernelError, MountInfo};
use volhost_model::csi_layout;
use volhost_model::names::PluginName;
use volhost_runtime::OtherPods;

use super::layout;

/// Which mounts below the root are published volumes, by their paths below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublishTargets {
    /// `pods/UID/volumes/PLUGIN/NAME`.
    OfPods,
    /// These paths, to which a container orchestrator had the volume published.
    At(BTreeSet<PathBuf>),
}

impl PublishTargets {
    fn contains(&self, point: &Path) -> bool {
        match self {
            Self::OfPods => is_volume(point),
            Self::At(paths) => paths.contains(point),
        }
    }
}

/// The other pods that use one staged volume.
#[derive(Debug)]
pub struct OtherUsers {
    kernel: Arc<dyn Kernel>,
    root: Arc<Directory>,
    /// The staging mount, below the root.
    staging: PathBuf,
    /// The target of the pod that asks, below the root.
    own: PathBuf,
    targets: PublishTargets,
}

impl OtherUsers {
    /// Creates the users of the volume that is staged at `staging`, other than the one published at
    /// `own`. Both are paths below `root`.
    pub fn new(
        kernel: Arc<dyn Kernel>,
        root: Arc<Directory>,
        staging: PathBuf,
        own: PathBuf,
        targets: PublishTargets,
    ) -> Self {
        Self { kernel, root, staging, own, targets }
    }

    fn count(&self, mounts: &[MountInfo]) -> usize {
        let Some(staged) = mounts.iter().find(|mount| mount.point == self.staging) else { return 0 };
        let shows_it = |mount: &&MountInfo| {
            mount.source == staged.source && mount.root == staged.root && mount.fs_type == staged.fs_type
        };
        let others = mounts.iter().filter(shows_it).filter(|mount| !mount.point.starts_with(&self.own));
        others.filter(|mount| self.targets.contains(&mount.point)).count()
    }
}

impl OtherPods for OtherUsers {
    fn other_pods(&self) -> Result<u32, KernelError> {
        let mounts = self.kernel.mounts_below(&self.root)?;
        Ok(u32::try_from(self.count(&mounts)).unwrap_or(u32::MAX))
    }
}

/// Returns whether the path is a pod's volume, and not a mount inside one or a sub-path.
fn is_volume(point: &Path) -> bool {
    let mut parts = point.iter();
    let (pods, _uid, volumes) = (parts.next(), parts.next(), parts.next());
    if !(pods.is_some_and(|part| part == layout::PODS) && volumes.is_some_and(|part| part == layout::VOLUMES)) {
        return false;
    }
    let plugin = parts.next().and_then(|plugin| PluginName::from_escaped(plugin.to_str()?).ok());
    let (volume, inner) = (parts.next(), parts.next());
    let is_inner = inner.is_none_or(|inner| {
        let named = plugin.as_ref().and_then(csi_layout::mount_in_folder);
        named.is_some_and(|named| inner == named)
    });
    plugin.is_some() && volume.is_some() && is_inner && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use volhost_kernel::MountId;
    use volhost_testing_kernel::InMemoryKernel;

    use super::*;

    fn mount(point: &str, source: &str, root: &str) -> MountInfo {
        MountInfo {
            id: MountId(2),
            parent: MountId(1),
            point: point.into(),
            device: (0, 0),
            fs_type: "ext4".to_owned(),
            source: source.into(),
            root: root.into(),
            options: Vec::new(),
            read_only: false,
        }
    }

    fn users(staging: &str, own: &str, targets: PublishTargets) -> OtherUsers {
        let kernel: Arc<dyn Kernel> = Arc::new(InMemoryKernel::new());
        let root = Arc::new(kernel.open_directory(Path::new("/")).unwrap());
        OtherUsers::new(kernel, root, staging.into(), own.into(), targets)
    }

    #[test]
    fn only_pods_volumes_count() {
        for (point, counts) in [
            ("pods/uid/volumes/a~b/data", true),
            ("pods/uid/volumes/a~b/data/inner", false),
            ("pods/uid/volumes/a~b/data/mount", false),
            ("pods/uid/volumes/kubernetes.io~csi/pv/mount", true),
            ("pods/uid/volumes/kubernetes.io~csi/pv/mount/inner", false),
            ("pods/uid/volumes/kubernetes.io~csi/pv", true),
            ("pods/uid/volume-subpaths/data/main/0", false),
            ("plugins/a/b/mounts/data/globalmount", false),
            ("pods/uid/volumes/a~b", false),
        ] {
            assert_eq!(is_volume(Path::new(point)), counts, "{point}");
        }
    }

    #[test]
    fn the_pods_that_show_the_staging_mount_are_counted_but_for_the_one_that_asks() {
        let staging = "plugins/a/b/mounts/data/globalmount";
        let users = users(staging, "pods/one/volumes/a~b/data", PublishTargets::OfPods);
        let mut mounts = vec![
            mount("pods/one/volumes/a~b/data", "/dev/loop1", "/"),
            mount("pods/two/volumes/a~b/data", "/dev/loop1", "/"),
            mount("pods/two/volume-subpaths/data/main/0", "/dev/loop1", "/"),
            mount("pods/three/volumes/a~b/data", "/dev/loop2", "/"),
            mount("pods/four/volumes/a~b/part", "/dev/loop1", "/part"),
        ];
        assert_eq!(users.count(&mounts), 0, "a volume that is not staged has no users");
        mounts.push(mount(staging, "/dev/loop1", "/"));
        assert_eq!(users.count(&mounts), 1);
    }

    #[test]
    fn of_an_orchestrators_targets_those_that_are_mounted_are_counted() {
        let targets = ["pods/one/mount", "pods/two/mount", "pods/gone/mount"].map(PathBuf::from);
        let users = users("staging/mount", "pods/one/mount", PublishTargets::At(targets.into()));
        let mounts = [
            mount("staging/mount", "/dev/loop1", "/"),
            mount("pods/one/mount", "/dev/loop1", "/"),
            mount("pods/two/mount", "/dev/loop1", "/"),
            mount("pods/stranger/mount", "/dev/loop1", "/"),
        ];
        assert_eq!(users.count(&mounts), 1);
    }
}
