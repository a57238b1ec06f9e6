//! The folders of one node's volumes, opened, made and removed by handle (rule R6).
//!
//! [`layout`] names the paths. This module turns them into places: where a volume is staged, and
//! where it is published for a pod.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::warn;
use volhost_core::Operation;
use volhost_kernel::{Directory, Entry, ErrorKind, Kernel, KernelError, MountId, MountInfo};
use volhost_model::csi_layout;
use volhost_model::names::{PluginName, PodUid, SpecName, UniqueVolumeName};
use volhost_runtime::{FolderKind, NeededPlace, Place, PrivateFolder};

use super::device_folders::DeviceFolders;
use super::device_names::DeviceNames;
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
}

/// Where a volume is published for a pod.
#[derive(Debug)]
pub struct PublishFolder {
    /// The folder and the target's name in it.
    pub place: Place,
    /// The target is in a folder of the volume's own: see [`csi_layout`].
    is_in_folder: bool,
}

impl PublishFolder {
    /// Returns the folder of a volume that is published at its name in the folder of its plugin.
    pub(super) fn at_folder(of_plugin: Directory, spec_name: &SpecName) -> Self {
        Self { place: Place { parent: of_plugin, name: spec_name.as_str().into() }, is_in_folder: false }
    }

    /// Returns whether the target is in a folder of the volume's own.
    pub(super) fn is_in_folder(&self) -> bool {
        self.is_in_folder
    }
}

/// The root folder of one node's volumes. Cloning it gives another handle to the same folder.
#[derive(Debug, Clone)]
pub struct NodeFolders {
    kernel: Arc<dyn Kernel>,
    root: Arc<Directory>,
    pods: Arc<KeptOpen<PodFolders>>,
    devices: Arc<DeviceNames>,
}

impl NodeFolders {
    /// Creates the folders below `root`. Nothing is made on disk yet.
    pub fn new(kernel: Arc<dyn Kernel>, root: Arc<Directory>) -> Self {
        Self { kernel, root, pods: Arc::default(), devices: Arc::default() }
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

    /// Returns the mount at the path below the root; none if something else is there, or nothing.
    pub(super) fn mount_at(&self, path: &Path) -> Result<Option<MountId>, KernelError> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
        let Some(folder) = self.open(folder)? else { return Ok(None) };
        match self.kernel.entry(&folder, name)? {
            Entry::Mount(id) => Ok(Some(id)),
            _ => Ok(None),
        }
    }

    /// Lists the mounts below the root.
    pub(super) fn mounts(&self) -> Result<Vec<MountInfo>, KernelError> {
        self.kernel.mounts_below(&self.root)
    }

    /// Lists the ids of the mounts below the root, and of others; none if this kernel gives an id
    /// to several mounts, one after another.
    pub(super) fn mount_ids(&self) -> Result<Option<Vec<MountId>>, KernelError> {
        self.kernel.ids_below(&self.root)
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

    /// Returns the folder of a volume's staging mount, below the root. A volume that an earlier
    /// version staged elsewhere stays there.
    ///
    /// # Errors
    /// The kernel's error.
    pub(super) fn staging_folder(&self, volume: VolumeRef<'_>) -> Result<PathBuf, KernelError> {
        if let Some(earlier) = layout::earlier_mount_folder(volume.plugin, volume.volume)
            && self.open(&earlier)?.is_some()
        {
            return Ok(earlier);
        }
        Ok(layout::mount_folder(volume.plugin, volume.volume))
    }

    /// Removes the folder of a volume's staging mount, if nothing is mounted there.
    pub fn forget_staging(&self, volume: VolumeRef<'_>) {
        match self.staging_folder(volume) {
            Ok(folder) => self.forget_staging_folder(&folder),
            Err(error) => warn!(volume = %volume.volume, %error, "the staging folder could not be removed"),
        }
    }

    /// Removes the folder of a staging mount, if nothing is mounted there.
    pub(super) fn forget_staging_folder(&self, path: &Path) {
        let name = OsStr::new(layout::GLOBAL_MOUNT);
        let removed = self.open(path).and_then(|folder| {
            let Some(folder) = folder else { return Ok(()) };
            match self.kernel.entry(&folder, name)? {
                Entry::Folder => self.remove_if_empty(&folder, name)?,
                Entry::Absent => {}
                _ => return Ok(()),
            }
            // The file names the volume as long as anything is there.
            if self.kernel.entry(&folder, name)? == Entry::Absent {
                self.kernel.remove_file(&folder, OsStr::new(csi_layout::VOLUME_DATA))?;
            }
            Ok(())
        });
        if let Err(error) = removed {
            warn!(folder = %path.display(), %error, "a staging folder could not be removed");
        }
        self.forget_volume_folder(path, name);
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
        let path = self.staging_folder(volume)?;
        Ok(self.open(&path)?.map(|folder| self.staging_in(volume, folder, &path)))
    }

    /// Makes the folder that the volume is staged in.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn make_staging(&self, volume: VolumeRef<'_>) -> Result<StagingPlace, KernelError> {
        let path = self.staging_folder(volume)?;
        let folder = self.make_volume_folder(&path)?;
        Ok(self.staging_in(volume, folder, &path))
    }

    fn staging_in(&self, volume: VolumeRef<'_>, folder: Directory, path: &Path) -> StagingPlace {
        let around = (layout::mount_folder(volume.plugin, volume.volume) == path)
            .then(|| csi_layout::driver_and_handle(volume.plugin, volume.name()))
            .flatten();
        let note = match (around, path.parent(), path.file_name()) {
            (Some(_), Some(parent), Some(name)) => PrivateFolder {
                root: Arc::clone(&self.root),
                parent: parent.to_owned(),
                name: name.to_owned(),
                kind: FolderKind::AroundMount,
            },
            _ => self.note(volume),
        };
        StagingPlace { folder, name: layout::GLOBAL_MOUNT.into(), spec_name: volume.spec_name.clone(), note }
    }

    /// Returns the folder with the note that the plugin keeps about a staged volume. That of a CSI
    /// driver's volume is in the folder of its staging mount, and goes with that.
    pub(super) fn note(&self, volume: VolumeRef<'_>) -> PrivateFolder {
        let (parent, name) = layout::note_folder(volume.plugin, volume.volume);
        PrivateFolder { root: Arc::clone(&self.root), parent, name: name.into(), kind: FolderKind::Apart }
    }

    /// Returns the volume's staging mount, for a volume that is staged and whose folder exists.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn staging_mount(&self, volume: VolumeRef<'_>) -> Result<Option<Place>, KernelError> {
        if !volume.is_staged {
            return Ok(None);
        }
        let parent = self.open(&self.staging_folder(volume)?)?;
        Ok(parent.map(|parent| Place { parent, name: layout::GLOBAL_MOUNT.into() }))
    }

    /// Makes the folder in which the volume is published for the pod.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn make_publish_folder(&self, volume: VolumeRef<'_>, pod: &PodUid) -> Result<PublishFolder, KernelError> {
        let path = layout::plugin_folder(pod, volume.plugin);
        let of_plugin = match self.of(pod).published(volume.plugin, || self.make(&path).map(Some))? {
            Some(folder) => folder,
            None => self.make(&path)?,
        };
        let Some(inner) = self.mount_in_folder(volume.plugin, pod, volume.spec_name, &of_plugin)? else {
            return Ok(PublishFolder::at_folder(of_plugin, volume.spec_name));
        };
        let own = Path::new(volume.spec_name.as_str());
        let parent = self.kernel.make_dirs(&of_plugin, own, layout::FOLDER_MODE)?;
        Ok(PublishFolder { place: Place { parent, name: inner.into() }, is_in_folder: true })
    }

    /// Opens the folder in which the volume is published for the pod; none if it does not exist.
    ///
    /// # Errors
    /// The kernel's error.
    pub(super) fn publish_folder(
        &self,
        plugin: &PluginName,
        spec_name: &SpecName,
        pod: &PodUid,
    ) -> Result<Option<PublishFolder>, KernelError> {
        let of_plugin = self.of(pod).published(plugin, || self.open(&layout::plugin_folder(pod, plugin)))?;
        let Some(of_plugin) = of_plugin else { return Ok(None) };
        self.publish_folder_in(of_plugin, plugin, spec_name, pod)
    }

    /// Opens the folder in which the volume is published, in that of its plugin.
    pub(super) fn publish_folder_in(
        &self,
        of_plugin: Directory,
        plugin: &PluginName,
        spec_name: &SpecName,
        pod: &PodUid,
    ) -> Result<Option<PublishFolder>, KernelError> {
        let Some(inner) = self.mount_in_folder(plugin, pod, spec_name, &of_plugin)? else {
            return Ok(Some(PublishFolder::at_folder(of_plugin, spec_name)));
        };
        match self.kernel.walk(&of_plugin, Path::new(spec_name.as_str())) {
            Ok(parent) => {
                let place = Place { parent, name: inner.into() };
                Ok(Some(PublishFolder { place, is_in_folder: true }))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the place where the volume is published for the pod, if its folder exists.
    ///
    /// # Errors
    /// The kernel's error.
    pub(super) fn place_of(
        &self,
        plugin: &PluginName,
        spec_name: &SpecName,
        pod: &PodUid,
    ) -> Result<Option<Place>, KernelError> {
        let Some(of_plugin) = self.open(&layout::plugin_folder(pod, plugin))? else { return Ok(None) };
        let found = self.publish_folder_in(of_plugin, plugin, spec_name, pod)?;
        Ok(found.map(|folder| folder.place))
    }

    /// Returns the place where the volume is published for the pod.
    ///
    /// # Errors
    /// The kernel's error; `NotFound` if its folder does not exist.
    pub fn existing_place(
        &self,
        plugin: &PluginName,
        spec_name: &SpecName,
        pod: &PodUid,
    ) -> Result<Place, KernelError> {
        let of_plugin = self.kernel.walk(&self.root, &layout::plugin_folder(pod, plugin))?;
        if let Some(folder) = self.publish_folder_in(of_plugin.clone(), plugin, spec_name, pod)? {
            return Ok(folder.place);
        }
        let parent = self.kernel.walk(&of_plugin, Path::new(spec_name.as_str()))?;
        Ok(Place { parent, name: csi_layout::MOUNT.into() })
    }

    /// Returns the name of the mount in the volume's own folder; none if the volume is mounted at
    /// that folder itself. What an earlier version published there stays there until it is
    /// unpublished: it is a mount, or its note is apart.
    fn mount_in_folder(
        &self,
        plugin: &PluginName,
        pod: &PodUid,
        spec_name: &SpecName,
        of_plugin: &Directory,
    ) -> Result<Option<&'static str>, KernelError> {
        let Some(inner) = csi_layout::mount_in_folder(plugin) else { return Ok(None) };
        let is_mounted = matches!(self.kernel.entry(of_plugin, OsStr::new(spec_name.as_str()))?, Entry::Mount(_));
        let apart = layout::private_folder(pod, plugin).join(spec_name.as_str());
        Ok(if is_mounted || self.open(&apart)?.is_some() { None } else { Some(inner) })
    }

    /// Removes the folder that was made for a volume of which nothing was published.
    pub(super) fn forget_publish_folder(&self, volume: VolumeRef<'_>, pod: &PodUid) -> Result<(), KernelError> {
        if csi_layout::mount_in_folder(volume.plugin).is_none() {
            return Ok(());
        }
        match self.open(&layout::plugin_folder(pod, volume.plugin))? {
            Some(of_plugin) => self.remove_if_empty(&of_plugin, OsStr::new(volume.spec_name.as_str())),
            None => Ok(()),
        }
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
        folder: PublishFolder,
        needed: Vec<NeededPlace>,
    ) -> Result<PublishPlace, KernelError> {
        let kind = if folder.is_in_folder { FolderKind::AroundMount } else { FolderKind::Apart };
        Ok(PublishPlace {
            folder: folder.place.parent,
            name: folder.place.name,
            pod: pod.clone(),
            spec_name: volume.spec_name.clone(),
            staging: self.staging_mount(volume)?,
            private: Some(self.private(volume, pod, kind)),
            other_users: self.other_users(volume, pod)?,
            needed,
        })
    }

    /// Returns the folder with what the volume keeps on the host besides what the pod sees.
    fn private(&self, volume: VolumeRef<'_>, pod: &PodUid, kind: FolderKind) -> PrivateFolder {
        PrivateFolder {
            root: Arc::clone(&self.root),
            parent: match kind {
                FolderKind::Apart => layout::private_folder(pod, volume.plugin),
                FolderKind::AroundMount => layout::plugin_folder(pod, volume.plugin),
            },
            name: volume.spec_name.as_str().into(),
            kind,
        }
    }

    /// Removes what the volume kept on the host besides what the pod saw. Call it after the
    /// unmount: the mount may have shown it.
    ///
    /// # Errors
    /// The kernel's error.
    pub(super) fn remove_private(&self, volume: VolumeRef<'_>, pod: &PodUid) -> Result<(), KernelError> {
        if csi_layout::mount_in_folder(volume.plugin).is_some() {
            self.private(volume, pod, FolderKind::AroundMount).remove(self.kernel.as_ref())?;
        }
        self.private(volume, pod, FolderKind::Apart).remove(self.kernel.as_ref())
    }

    /// Returns where the volume's device is.
    pub fn device<'a>(&'a self, volume: VolumeRef<'a>) -> DeviceFolders<'a> {
        DeviceFolders::of(self, volume)
    }

    /// Returns the names of the devices that are in the kubelet's folders.
    pub(super) fn device_names(&self) -> &DeviceNames {
        &self.devices
    }

    fn other_users(&self, volume: VolumeRef<'_>, pod: &PodUid) -> Result<Option<Arc<OtherUsers>>, KernelError> {
        if !volume.is_staged {
            return Ok(None);
        }
        let staging = self.staging_folder(volume)?.join(layout::GLOBAL_MOUNT);
        let own = layout::plugin_folder(pod, volume.plugin).join(volume.spec_name.as_str());
        let folders = (Arc::clone(&self.kernel), Arc::clone(&self.root));
        Ok(Some(Arc::new(OtherUsers::new(folders.0, folders.1, staging, own, PublishTargets::OfPods))))
    }
}
