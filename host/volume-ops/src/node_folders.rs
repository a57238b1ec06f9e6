//! The folders of one node's volumes, opened, made and removed by handle (rule R6).
//!
//! [`layout`] names the paths. This module turns them into places: where a volume is staged, and
//! where it is published for a pod.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::warn;
use volhost_core::Operation;
use volhost_kernel::{Directory, Entry, ErrorKind, Kernel, KernelError, MountInfo};
use volhost_model::names::{PluginName, PodUid, SpecName, UniqueVolumeName};
use volhost_runtime::{DevicePlaces, NeededPlace, Place, PrivateFolder};

use super::kept_open::KeptOpen;
use super::layout;
use super::other_users::{OtherUsers, PublishTargets};
use super::places::{PublishPlace, StagingPlace};
use super::pod_folders::PodFolders;

/// How often a folder is made again that another volume's cleanup removes meanwhile: as many
/// folders lie above it.
const FOLDER_TRIES: usize = 4;

/// Names one volume on the node.
#[derive(Debug, Clone, Copy)]
pub struct VolumeRef<'a> {
    /// The plugin.
    pub plugin: &'a PluginName,
    /// The unique name.
    pub volume: &'a UniqueVolumeName,
    /// The name in pods' folders.
    pub spec_name: &'a SpecName,
    /// The volume is staged before it is published.
    pub is_staged: bool,
}

impl<'a> VolumeRef<'a> {
    /// Returns the operation's volume.
    pub fn of(operation: &'a Operation) -> Self {
        Self {
            plugin: &operation.plugin,
            volume: &operation.volume,
            spec_name: &operation.spec_name,
            is_staged: operation.stageable,
        }
    }

    /// Returns the plugin's own name for the volume.
    pub fn name(&self) -> &'a str {
        layout::volume_name(self.plugin, self.volume)
    }

    /// Returns the folder of the staging mount, below the root.
    pub(super) fn staging_folder(&self) -> std::path::PathBuf {
        layout::mount_folder(self.plugin, self.volume)
    }
}

/// The root folder of one node's volumes. Cloning it gives another handle to the same folder.
#[derive(Debug, Clone)]
pub struct NodeFolders {
    kernel: Arc<dyn Kernel>,
    root: Arc<Directory>,
    pods: Arc<KeptOpen<PodFolders>>,
}

impl NodeFolders {
    /// Creates the folders below `root`. Nothing is made on disk yet.
    pub fn new(kernel: Arc<dyn Kernel>, root: Arc<Directory>) -> Self {
        Self { kernel, root, pods: Arc::default() }
    }

    /// Returns the kernel primitives.
    pub fn kernel(&self) -> &Arc<dyn Kernel> {
        &self.kernel
    }

    /// Returns the root folder.
    pub fn root(&self) -> &Arc<Directory> {
        &self.root
    }

    /// Opens a folder below the root; none if it does not exist.
    ///
    /// # Errors
    /// The kernel's error for any other cause.
    pub fn open(&self, path: &Path) -> Result<Option<Directory>, KernelError> {
        match self.kernel.walk(&self.root, path) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn is_absent(&self, path: &Path) -> bool {
        matches!(self.open(path), Ok(None))
    }

    pub(super) fn is_mounted(&self, path: &Path) -> bool {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return false };
        let Ok(Some(folder)) = self.open(folder) else { return false };
        matches!(self.kernel.entry(&folder, name), Ok(Entry::Mount(_)))
    }

    /// Lists the mounts below the root.
    pub(super) fn mounts(&self) -> Result<Vec<MountInfo>, KernelError> {
        self.kernel.mounts_below(&self.root)
    }

    /// Lists the points of the mounts below the root.
    pub(super) fn mount_points(&self) -> Result<Vec<PathBuf>, KernelError> {
        self.kernel.points_below(&self.root, None)
    }

    /// Makes a folder below the root.
    pub(super) fn make(&self, path: &Path) -> Result<Directory, KernelError> {
        self.kernel.make_dirs(&self.root, path, layout::FOLDER_MODE)
    }

    /// Makes a volume's folder below its plugin's. The plugin's last other volume may go meanwhile,
    /// and the folders above with it.
    pub(super) fn make_volume_folder(&self, folder: &Path) -> Result<Directory, KernelError> {
        let mut made = self.make(folder);
        for _ in 0..FOLDER_TRIES {
            match made {
                Err(error) if error.kind() == ErrorKind::NotFound => made = self.make(folder),
                _ => break,
            }
        }
        made
    }

    /// Removes the folder `name` if it is empty.
    pub(super) fn remove_if_empty(&self, folder: &Directory, name: &OsStr) -> Result<(), KernelError> {
        match self.kernel.remove_empty_dir(folder, name) {
            Ok(()) | Err(KernelError::NotEmpty { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes the folder of a volume that is gone, and the empty folders above it. A folder that
    /// is not empty stays.
    pub(super) fn forget_volume_folder(&self, folder: &Path, inner: &OsStr) {
        let empty = |parent: &Path, name: &OsStr| match self.open(parent) {
            Ok(Some(parent)) => match self.kernel.entry(&parent, name) {
                Ok(Entry::Folder) => self.remove_if_empty(&parent, name),
                _ => Ok(()),
            },
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        let mut removed = empty(folder, inner);
        let mut at = folder;
        while let (Ok(()), Some(parent), Some(name)) = (&removed, at.parent(), at.file_name()) {
            // The folder of all plugins stays.
            if parent.as_os_str().is_empty() {
                break;
            }
            removed = empty(parent, name);
            at = parent;
        }
        if let Err(error) = removed {
            warn!(folder = %folder.display(), %error, "an empty folder could not be removed");
        }
    }

    /// Removes the folder of a volume's staging mount, if nothing is mounted there.
    pub fn forget_staging(&self, volume: VolumeRef<'_>) {
        self.forget_volume_folder(&volume.staging_folder(), OsStr::new(layout::GLOBAL_MOUNT));
    }

    /// Removes the empty folders of a pod that has no volumes any more. A folder that is not empty
    /// stays: a new volume may have come. Returns whether the pod has no folder any more.
    ///
    /// # Errors
    /// The kernel's error for a folder that could not be removed, other than that it is in use.
    pub fn forget_pod(&self, pod: &PodUid) -> Result<bool, KernelError> {
        self.of(pod).closed(|| self.remove_pod_folders(pod))
    }

    fn remove_pod_folders(&self, pod: &PodUid) -> Result<bool, KernelError> {
        let name = OsStr::new(pod.as_str());
        let Some(pods) = self.open(Path::new(layout::PODS))? else { return Ok(true) };
        let of_pod = match self.kernel.walk(&pods, Path::new(name)) {
            Ok(of_pod) => of_pod,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        };
        for kind in [layout::VOLUMES, layout::VOLUME_DEVICES, layout::PRIVATE] {
            let kind = OsStr::new(kind);
            match self.kernel.remove_empty_dir(&of_pod, kind) {
                Ok(()) => continue,
                Err(KernelError::NotEmpty { .. }) => {}
                Err(error) => return Err(error),
            }
            let (folder, plugins) = match self.kernel.list(&of_pod, Path::new(kind)) {
                Ok(listed) => listed,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for plugin in plugins {
                self.remove_if_empty(&folder, &plugin)?;
            }
            drop(folder);
            self.remove_if_empty(&of_pod, kind)?;
        }
        self.remove_if_empty(&of_pod, OsStr::new(layout::SUB_PATHS))?;
        drop(of_pod);
        match self.kernel.remove_empty_dir(&pods, name) {
            Ok(()) => Ok(true),
            Err(KernelError::NotEmpty { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns where the volume is staged; none if its folder does not exist.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn staging(&self, volume: VolumeRef<'_>) -> Result<Option<StagingPlace>, KernelError> {
        let folder = self.open(&volume.staging_folder())?;
        Ok(folder.map(|folder| self.staging_in(volume, folder)))
    }

    /// Makes the folder that the volume is staged in.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn make_staging(&self, volume: VolumeRef<'_>) -> Result<StagingPlace, KernelError> {
        let folder = self.make_volume_folder(&volume.staging_folder())?;
        Ok(self.staging_in(volume, folder))
    }

    fn staging_in(&self, volume: VolumeRef<'_>, folder: Directory) -> StagingPlace {
        StagingPlace {
            folder,
            name: layout::GLOBAL_MOUNT.into(),
            spec_name: volume.spec_name.clone(),
            note: self.note(volume),
        }
    }

    /// Returns the folder with the note that the plugin keeps about a staged volume.
    pub(super) fn note(&self, volume: VolumeRef<'_>) -> PrivateFolder {
        let (parent, name) = layout::note_folder(volume.plugin, volume.volume);
        PrivateFolder { root: Arc::clone(&self.root), parent, name: name.into() }
    }

    /// Returns the volume's staging mount, for a volume that is staged and whose folder exists.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn staging_mount(&self, volume: VolumeRef<'_>) -> Result<Option<Place>, KernelError> {
        if !volume.is_staged {
            return Ok(None);
        }
        let parent = self.open(&volume.staging_folder())?;
        Ok(parent.map(|parent| Place { parent, name: layout::GLOBAL_MOUNT.into() }))
    }

    /// Makes the folder in which the pod's volumes of the plugin are published.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn make_publish_folder(&self, volume: VolumeRef<'_>, pod: &PodUid) -> Result<Directory, KernelError> {
        let path = layout::plugin_folder(pod, volume.plugin);
        match self.of(pod).published(volume.plugin, || self.make(&path).map(Some))? {
            Some(folder) => Ok(folder),
            None => self.make(&path),
        }
    }

    /// Opens the folder in which the pod's volumes of the plugin are published; none if it does not
    /// exist.
    ///
    /// # Errors
    /// The kernel's error.
    pub(super) fn publish_folder(&self, plugin: &PluginName, pod: &PodUid) -> Result<Option<Directory>, KernelError> {
        self.of(pod).published(plugin, || self.open(&layout::plugin_folder(pod, plugin)))
    }

    /// Returns the pod's folders. Those that were opened stay open as long as the returned value
    /// exists.
    pub(super) fn of(&self, pod: &PodUid) -> Arc<PodFolders> {
        self.pods.of(pod)
    }

    /// Returns whether the pod has no sub-paths.
    pub(super) fn has_no_sub_paths(&self, pod: &PodUid) -> Result<bool, KernelError> {
        self.of(pod).has_no_sub_paths(|| Ok(self.open(&layout::sub_paths_folder(pod))?.is_none()))
    }

    /// Returns where the volume is published for the pod, in this open folder.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn publish(
        &self,
        volume: VolumeRef<'_>,
        pod: &PodUid,
        folder: Directory,
        needed: Vec<NeededPlace>,
    ) -> Result<PublishPlace, KernelError> {
        Ok(PublishPlace {
            folder,
            name: volume.spec_name.as_str().into(),
            pod: pod.clone(),
            spec_name: volume.spec_name.clone(),
            staging: self.staging_mount(volume)?,
            private: Some(self.private(volume, pod)),
            other_users: self.other_users(volume, pod),
            needed,
        })
    }

    /// Returns the folder with what the volume keeps on the host besides what the pod sees.
    pub(super) fn private(&self, volume: VolumeRef<'_>, pod: &PodUid) -> PrivateFolder {
        PrivateFolder {
            root: Arc::clone(&self.root),
            parent: layout::private_folder(pod, volume.plugin),
            name: volume.spec_name.as_str().into(),
        }
    }

    /// Returns the places where an external driver stages the volume's device.
    pub fn device_places(&self, volume: VolumeRef<'_>) -> DevicePlaces {
        let folder = layout::driver_folder(volume.plugin, volume.volume);
        DevicePlaces { root: Arc::clone(&self.root), folder }
    }

    /// Removes the folder of the [`device_places`](Self::device_places), if it is empty.
    pub fn forget_device_places(&self, volume: VolumeRef<'_>) {
        let folder = layout::driver_folder(volume.plugin, volume.volume);
        if let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) {
            self.forget_volume_folder(parent, name);
        }
    }

    fn other_users(&self, volume: VolumeRef<'_>, pod: &PodUid) -> Option<Arc<OtherUsers>> {
        volume.is_staged.then(|| {
            let staging = volume.staging_folder().join(layout::GLOBAL_MOUNT);
            let own = layout::plugin_folder(pod, volume.plugin).join(volume.spec_name.as_str());
            let folders = (Arc::clone(&self.kernel), Arc::clone(&self.root));
            Arc::new(OtherUsers::new(folders.0, folders.1, staging, own, PublishTargets::OfPods))
        })
    }
}
