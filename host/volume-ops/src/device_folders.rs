//! Where the device of one volume is: its folders, made and removed.
//!
//! A CSI driver's device is where the kubelet has it, see [`volhost_model::csi_layout`]. One that
//! an earlier version staged elsewhere stays there, and so does one whose name in the kubelet's
//! folders another volume has.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use tracing::warn;
use volhost_kernel::{Directory, Entry, Kernel, KernelError};
use volhost_model::csi_layout;
use volhost_model::names::{PluginName, UniqueVolumeName};
use volhost_runtime::DevicePlaces;

use super::layout::DevicePaths;
use super::node_folders::{NodeFolders, VolumeRef};
use super::volume_data;

/// The folders of one volume's device.
#[derive(Debug)]
pub struct DeviceFolders<'a> {
    folders: &'a NodeFolders,
    volume: VolumeRef<'a>,
    paths: DevicePaths,
    /// Nothing of the device was in the kubelet's folders before.
    is_new: bool,
}

impl<'a> DeviceFolders<'a> {
    /// Returns where the volume's device is, or would be if it were not in the kubelet's folders.
    pub(super) fn of(folders: &'a NodeFolders, volume: VolumeRef<'a>) -> Self {
        let paths = match folders.device_names().of(volume.volume) {
            Some(name) => DevicePaths::of_kubelet(&name),
            None => DevicePaths::new(volume.plugin, volume.volume),
        };
        Self { folders, volume, paths, is_new: false }
    }

    /// Chooses where a device is that is about to be staged, and makes what the kubelet has there
    /// before it calls the driver.
    ///
    /// # Errors
    /// The kernel's error. Nothing is left then that [`forget`](Self::forget) would remove.
    pub(super) fn begin(folders: &'a NodeFolders, volume: VolumeRef<'a>, node: &str) -> Result<Self, KernelError> {
        let names = folders.device_names();
        let is_new = names.of(volume.volume).is_none()
            && csi_layout::driver_and_handle(volume.plugin, volume.name()).is_some()
            && !is_at_own_paths(folders, volume.plugin, volume.volume)?
            && names.take(volume.volume, volume.spec_name);
        let device = Self { is_new, ..Self::of(folders, volume) };
        if let Err(error) = device.make(node) {
            if is_new {
                device.forget();
            }
            return Err(error);
        }
        Ok(device)
    }

    /// Names the volume before anything of it is there: what a crash leaves is found by that name.
    fn make(&self, node: &str) -> Result<(), KernelError> {
        let Some(kubelet) = &self.paths.kubelet else { return Ok(()) };
        let (Some(driver_and_handle), Some(name)) = (
            csi_layout::driver_and_handle(self.volume.plugin, self.volume.name()),
            self.folders.device_names().of(self.volume.volume),
        ) else {
            return Ok(());
        };
        let data = self.folders.make_volume_folder(&kubelet.data)?;
        let named = volume_data::named_in(self.kernel(), &data, self.volume.plugin);
        if !named.is_ok_and(|named| named.as_ref() == Some(self.volume.volume)) {
            volume_data::write_of_device(self.kernel(), &data, driver_and_handle, &name, node)?;
        }
        self.folders.make_volume_folder(&kubelet.staging).map(drop)
    }

    fn kernel(&self) -> &dyn Kernel {
        self.folders.kernel().as_ref()
    }

    /// Returns whether the device was in the kubelet's folders before: without a record, too, it may
    /// be staged.
    pub(super) fn may_be_staged(&self) -> bool {
        self.paths.kubelet.is_some() && !self.is_new
    }

    /// Returns whether the device has a folder of its own on the node.
    ///
    /// # Errors
    /// The kernel's error.
    pub(super) fn exists(&self) -> Result<bool, KernelError> {
        let kubelet = self.paths.kubelet.as_ref().map(|kubelet| &kubelet.staging);
        for path in [&self.paths.maps, &self.paths.driver].into_iter().chain(kubelet) {
            if self.folders.open(path)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the places of an external driver.
    pub fn places(&self) -> DevicePlaces {
        let root = Arc::clone(self.folders.root());
        let mut places = DevicePlaces::in_folder(root, self.paths.driver.clone());
        if let Some(kubelet) = &self.paths.kubelet {
            places.prefix = csi_layout::POD_PLACE;
            places.others.insert(csi_layout::STAGING_PLACE, kubelet.staging.clone());
        }
        places
    }

    /// Opens the folder in which the device is bound for pods; none if it does not exist.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn maps(&self) -> Result<Option<Directory>, KernelError> {
        self.folders.open(&self.paths.maps)
    }

    /// Makes the folder in which the device is bound for pods.
    pub(super) fn make_maps(&self) -> Result<Directory, KernelError> {
        self.folders.make_volume_folder(&self.paths.maps)
    }

    /// Returns whether anything but an empty folder is at the driver's places, or may be.
    pub(super) fn has_driver_places(&self) -> bool {
        let is_empty = |(folder, name): &(Directory, OsString)| {
            let inside = self.kernel().walk(folder, Path::new(name)).and_then(|inside| self.kernel().names(&inside));
            inside.is_ok_and(|names| names.is_empty())
        };
        self.driver_places().map_or(true, |places| !places.iter().all(is_empty))
    }

    /// Removes what the driver left at its places. Data stays, and is an error.
    pub(super) fn clear_driver_places(&self) -> Result<(), KernelError> {
        for (folder, name) in self.driver_places()? {
            self.kernel().clear_place(&folder, &name)?;
        }
        Ok(())
    }

    /// Returns the folder and the name in it of each of the driver's places at which something is.
    fn driver_places(&self) -> Result<Vec<(Directory, OsString)>, KernelError> {
        let mut places = Vec::new();
        if let Some(folder) = self.folders.open(&self.paths.driver)? {
            let names = self.kernel().names(&folder)?;
            places.extend(names.into_iter().map(|name| (folder.clone(), name)));
        }
        if let Some(kubelet) = &self.paths.kubelet
            && let (Some(parent), Some(name)) = (kubelet.staging.parent(), kubelet.staging.file_name())
            && let Some(parent) = self.folders.open(parent)?
            && self.kernel().entry(&parent, name)? != Entry::Absent
        {
            places.push((parent, name.to_owned()));
        }
        Ok(places)
    }

    /// Removes the folders of a device that is gone, as far as they are empty. A device of which
    /// anything is left in the kubelet's folders keeps its name there.
    pub fn forget(&self) {
        let remove = |path: &Path| {
            if let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
                self.folders.forget_volume_folder(parent, name);
            }
        };
        remove(&self.paths.maps);
        remove(&self.paths.driver);
        let Some(kubelet) = &self.paths.kubelet else { return };
        remove(&kubelet.staging);
        let mut others = [&self.paths.maps, &self.paths.driver, &kubelet.staging].into_iter();
        if !others.all(|path| self.folders.is_absent(path)) {
            return;
        }
        if let Err(error) = self.remove_data(&kubelet.data) {
            warn!(volume = %self.volume.volume, %error, "the file that names the device could not be removed");
            return;
        }
        remove(&kubelet.data);
        self.folders.device_names().give_back(self.volume.volume);
    }

    fn remove_data(&self, folder: &Path) -> Result<(), KernelError> {
        match self.folders.open(folder)? {
            Some(folder) => self.kernel().remove_file(&folder, OsStr::new(csi_layout::VOLUME_DATA)),
            None => Ok(()),
        }
    }
}

/// Returns whether the volume's device is not in the kubelet's folders: an earlier version staged
/// it, or another volume had its name.
///
/// # Errors
/// The kernel's error.
pub(super) fn is_at_own_paths(
    folders: &NodeFolders,
    plugin: &PluginName,
    volume: &UniqueVolumeName,
) -> Result<bool, KernelError> {
    let own = DevicePaths::new(plugin, volume);
    Ok(folders.open(&own.driver)?.is_some() || folders.open(&own.maps)?.is_some())
}
