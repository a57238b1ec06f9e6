//! Finds the attached, staged and mapped volumes at the start of the process.
//!
//! The folders' names lead back to the volumes, so a lost record costs only the volume's spec.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use volhost_core::RecoveredDevice;
use volhost_kernel::{Directory, Entry, Kernel};
use volhost_model::names::{PluginName, PodUid, SpecName, UniqueVolumeName};
use volhost_model::{VolumeSpec, csi_layout};

use super::device_folders::is_at_own_paths;
use super::device_record::DeviceRecord;
use super::device_records::DeviceRecords;
use super::expected_mounts::{ExpectedMounts, NodePlace};
use super::kubelet_devices;
use super::layout;
use super::node_folders::{NodeFolders, VolumeRef};
use super::recovered::Recovery;
use super::volume_data;

/// The name shown for a volume whose name in pods' folders is unknown.
const UNKNOWN_NAME: &str = "unknown";

/// What a mount shows: its source, and which folder of that.
pub(super) type MountOrigin = (OsString, PathBuf);

/// One volume that is attached or staged, or may be.
#[derive(Debug)]
pub(super) struct FoundDevice {
    plugin: PluginName,
    unique_name: UniqueVolumeName,
    spec: Option<Arc<VolumeSpec>>,
    pub(super) attachable: bool,
    pub(super) stageable: bool,
    /// What the staging mount shows: the device, and which folder of it.
    source: Option<MountOrigin>,
    /// The name of its device in the kubelet's folders, which is that in pods' folders.
    device_name: Option<SpecName>,
    /// The pods it is mapped for.
    pods: BTreeSet<PodUid>,
}

/// The attached and staged volumes, by name.
#[derive(Debug, Default)]
pub(super) struct FoundDevices(BTreeMap<UniqueVolumeName, FoundDevice>);

impl FoundDevices {
    /// Finds the volume behind a folder of a pod that has no record: by its name there, by what its
    /// mount shows, or by the pod that it is mapped for.
    pub(super) fn behind(
        &self,
        plugin: &PluginName,
        spec_name: &SpecName,
        source: Option<&MountOrigin>,
        mapped_for: Option<&PodUid>,
    ) -> Option<(&UniqueVolumeName, &FoundDevice)> {
        self.0.iter().filter(|(_, found)| found.plugin == *plugin).find(|(_, found)| match &found.spec {
            Some(spec) => spec.name == *spec_name,
            None if found.device_name.is_some() => {
                mapped_for.is_some() && found.device_name.as_ref() == Some(spec_name)
            }
            None => {
                source.is_some_and(|source| found.source.as_ref() == Some(source))
                    || mapped_for.is_some_and(|pod| found.pods.contains(pod))
            }
        })
    }

    pub(super) fn get(&self, volume: &UniqueVolumeName) -> Option<&FoundDevice> {
        self.0.get(volume)
    }

    /// Returns the volumes as events for the state machine.
    pub(super) fn into_events(self) -> Vec<RecoveredDevice> {
        let unknown = SpecName::new(UNKNOWN_NAME).ok();
        self.0
            .into_values()
            .filter_map(|found| {
                let named = found.spec.as_ref().map(|spec| spec.name.clone()).or(found.device_name);
                let spec_name = named.or_else(|| unknown.clone())?;
                Some(RecoveredDevice {
                    plugin: found.plugin,
                    unique_name: found.unique_name,
                    spec_name,
                    spec: found.spec,
                    attachable: found.attachable,
                    stageable: found.stageable,
                })
            })
            .collect()
    }

    fn add_record(&mut self, record: DeviceRecord) {
        let found = FoundDevice {
            plugin: record.plugin,
            unique_name: record.unique_name.clone(),
            spec: Some(Arc::new(record.spec)),
            attachable: record.attachable,
            stageable: record.stageable,
            source: None,
            device_name: None,
            pods: BTreeSet::new(),
        };
        self.0.insert(record.unique_name, found);
    }

    /// Returns the entry of a volume whose folder was found. Without a record it may be attached:
    /// detaching a volume that is not attached does no harm.
    fn of_folder(&mut self, plugin: &PluginName, volume: UniqueVolumeName) -> &mut FoundDevice {
        let found = self.0.entry(volume.clone()).or_insert_with(|| FoundDevice {
            plugin: plugin.clone(),
            unique_name: volume,
            spec: None,
            attachable: true,
            stageable: true,
            source: None,
            device_name: None,
            pods: BTreeSet::new(),
        });
        found.stageable = true;
        found
    }
}

/// Looks through the folders of staged and mapped volumes.
#[derive(Debug)]
pub(super) struct DeviceScan {
    folders: NodeFolders,
    records: DeviceRecords,
    expected: Arc<ExpectedMounts>,
}

impl DeviceScan {
    pub(super) fn new(folders: NodeFolders, records: DeviceRecords, expected: Arc<ExpectedMounts>) -> Self {
        Self { folders, records, expected }
    }

    pub(super) fn records(&self) -> &DeviceRecords {
        &self.records
    }

    fn kernel(&self) -> &dyn Kernel {
        self.folders.kernel().as_ref()
    }

    /// Reads the records, and looks through `plugins/*/*/mounts/*`, `plugins/*/*/volumeDevices/*`
    /// and `plugins/*/*/driverDevices/*`. Removes empty folders of volumes without a record, which
    /// a restart of the machine leaves.
    pub(super) fn recover(&self, found: &mut Recovery) -> FoundDevices {
        let mut devices = FoundDevices::default();
        match self.records.all() {
            Ok((records, problems)) => {
                found.problems.extend(problems.iter().map(|error| ("records".to_owned(), error.to_string())));
                for record in records {
                    found.digests.insert(record.digest.clone());
                    devices.add_record(record);
                }
            }
            Err(error) => found.problems.push(("records".to_owned(), error.to_string())),
        }
        for (vendor, of_vendor) in self.folders_in(Path::new(layout::PLUGINS), found) {
            for (name, of_plugin) in self.folders_in(&of_vendor, found) {
                let Ok(plugin) = PluginName::new(format!("{}/{}", vendor.display(), name.display())) else {
                    found.problems.push((
                        of_plugin.display().to_string(),
                        "its name is no plugin's; the host did not make it".to_owned(),
                    ));
                    continue;
                };
                self.recover_mounts(&plugin, &of_plugin.join(layout::MOUNTS), &mut devices, found);
                self.recover_maps(&plugin, &of_plugin.join(layout::VOLUME_DEVICES), &mut devices, found);
                self.recover_driver_places(&plugin, &of_plugin.join(layout::DRIVER_DEVICES), &mut devices, found);
                if csi_layout::mount_in_folder(&plugin).is_some() {
                    self.recover_of_drivers(&plugin, &of_plugin, &mut devices, found);
                    self.recover_kubelet_devices(&plugin, &mut devices, found);
                }
            }
        }
        devices
    }

    fn recover_mounts(&self, plugin: &PluginName, path: &Path, devices: &mut FoundDevices, found: &mut Recovery) {
        let name = OsStr::new(layout::GLOBAL_MOUNT);
        for (volume, path) in self.volumes_in(plugin, path, found) {
            let looked = self
                .kernel()
                .walk(self.folders.root(), &path)
                .and_then(|folder| Ok((self.kernel().entry(&folder, name)?, self.kernel().mount_at(&folder, name)?)));
            match looked {
                Ok((Entry::Mount(_), mount)) => {
                    self.expected.add_staged(NodePlace { plugin: plugin.clone(), volume: volume.clone() });
                    devices.of_folder(plugin, volume).source = mount.map(|mount| (mount.source, mount.root));
                }
                Ok(_) if !devices.0.contains_key(&volume) => self.folders.forget_volume_folder(&path, name),
                Ok(_) => {}
                Err(error) => found.problems.push((path.display().to_string(), error.to_string())),
            }
        }
    }

    /// The staging mounts of CSI drivers' volumes, in a folder for each driver. The file beside the
    /// mount names the volume: a driver may stage without a mount.
    fn recover_of_drivers(&self, plugin: &PluginName, path: &Path, devices: &mut FoundDevices, found: &mut Recovery) {
        let own = [layout::MOUNTS, layout::VOLUME_DEVICES, layout::DRIVER_DEVICES].map(Path::new);
        let name = OsStr::new(layout::GLOBAL_MOUNT);
        for (driver, of_driver) in self.folders_in(path, found) {
            if own.contains(&driver.as_path()) {
                continue;
            }
            for (_, path) in self.folders_in(&of_driver, found) {
                let looked = self.folders.kernel().walk(self.folders.root(), &path).and_then(|folder| {
                    let is_mounted = matches!(self.kernel().entry(&folder, name)?, Entry::Mount(_));
                    let mount = if is_mounted { self.kernel().mount_at(&folder, name)? } else { None };
                    Ok((folder, mount))
                });
                let (folder, mount) = match looked {
                    Ok(looked) => looked,
                    Err(error) => {
                        found.problems.push((path.display().to_string(), error.to_string()));
                        continue;
                    }
                };
                let named = volume_data::named_in(self.kernel(), &folder, plugin);
                let belongs = |volume: &UniqueVolumeName| layout::mount_folder(plugin, volume) == path;
                let recorded = devices.0.keys().find(|volume| belongs(volume)).cloned();
                let volume = match (&named, recorded) {
                    (_, Some(recorded)) => Some(recorded),
                    (Ok(named), None) => named.clone().filter(belongs),
                    (Err(_), None) => None,
                };
                match (volume, mount) {
                    (Some(volume), Some(mount)) => {
                        self.expected.add_staged(NodePlace { plugin: plugin.clone(), volume: volume.clone() });
                        devices.of_folder(plugin, volume).source = Some((mount.source, mount.root));
                    }
                    (Some(volume), None) => {
                        devices.of_folder(plugin, volume);
                    }
                    (None, None) if matches!(named, Ok(None)) => self.folders.forget_staging_folder(&path),
                    (None, _) => {
                        let why = named.err().map_or_else(
                            || "no record and no file beside it names its volume".to_owned(),
                            |error| error.to_string(),
                        );
                        let text = format!("{why}; it stays until a pod uses that volume again");
                        found.problems.push((path.display().to_string(), text));
                    }
                }
            }
        }
    }

    fn recover_maps(&self, plugin: &PluginName, path: &Path, devices: &mut FoundDevices, found: &mut Recovery) {
        for (volume, path) in self.volumes_in(plugin, path, found) {
            if layout::is_kubelet_device(plugin, &path) {
                continue;
            }
            match self.kernel().walk(self.folders.root(), &path).and_then(|folder| self.kernel().names(&folder)) {
                Ok(names) if names.is_empty() && !devices.0.contains_key(&volume) => self.forget_empty(&path),
                Ok(names) => {
                    let pods = names.iter().filter_map(|name| PodUid::new(name.to_str()?).ok());
                    devices.of_folder(plugin, volume).pods.extend(pods);
                }
                Err(error) => found.problems.push((path.display().to_string(), error.to_string())),
            }
        }
    }

    /// The devices of CSI drivers' volumes that are where the kubelet has them. A valid
    /// `vol_data.json` decides which volume it is, and the record if there is none.
    fn recover_kubelet_devices(&self, plugin: &PluginName, devices: &mut FoundDevices, found: &mut Recovery) {
        let recorded = |devices: &FoundDevices, name: &SpecName| {
            let mut all = devices.0.values().filter(|one| one.plugin == *plugin);
            let found = all.find(|one| {
                let is_it = one.spec.as_ref().is_some_and(|spec| spec.is_block() && spec.name == *name);
                is_it && matches!(is_at_own_paths(&self.folders, plugin, &one.unique_name), Ok(false))
            });
            found.map(|one| one.unique_name.clone())
        };
        for device in kubelet_devices::find(&self.folders, plugin, &mut found.problems) {
            let Some(volume) = device.volume.or_else(|| recorded(devices, &device.name)) else {
                if device.is_empty {
                    kubelet_devices::forget_unnamed(&self.folders, &device.name);
                } else {
                    let path = layout::kubelet_devices().join(device.name.as_str());
                    let why = "no record and no vol_data.json names its volume; it stays until a pod uses that volume \
                               again";
                    found.problems.push((path.display().to_string(), why.to_owned()));
                }
                continue;
            };
            if !self.folders.device_names().take(&volume, &device.name) {
                let path = layout::kubelet_devices().join(device.name.as_str());
                let why = format!("{volume} has another folder, too; this one stays");
                found.problems.push((path.display().to_string(), why));
                continue;
            }
            if device.is_empty && devices.get(&volume).is_none_or(|known| !known.stageable) {
                let volume = VolumeRef { plugin, volume: &volume, spec_name: &device.name, is_staged: true };
                self.folders.device(volume).forget();
                continue;
            }
            let found = devices.of_folder(plugin, volume);
            found.pods.extend(device.pods);
            found.device_name = Some(device.name);
        }
    }

    /// An external driver may have staged a device at the place that it was given.
    fn recover_driver_places(
        &self,
        plugin: &PluginName,
        path: &Path,
        devices: &mut FoundDevices,
        found: &mut Recovery,
    ) {
        for (volume, path) in self.volumes_in(plugin, path, found) {
            match self.kernel().walk(self.folders.root(), &path).and_then(|folder| self.kernel().names(&folder)) {
                Ok(names) if names.is_empty() && !devices.0.contains_key(&volume) => self.forget_empty(&path),
                Ok(_) => {
                    devices.of_folder(plugin, volume);
                }
                Err(error) => found.problems.push((path.display().to_string(), error.to_string())),
            }
        }
    }

    fn forget_empty(&self, folder: &Path) {
        if let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) {
            self.folders.forget_volume_folder(parent, name);
        }
    }

    fn volumes_in(&self, plugin: &PluginName, path: &Path, found: &mut Recovery) -> Vec<(UniqueVolumeName, PathBuf)> {
        let mut volumes = Vec::new();
        for (name, path) in self.folders_in(path, found) {
            let folder = name.to_string_lossy();
            let recorded = || {
                // A name too long for a folder is only known from its record.
                let (records, _) = self.records.all().ok()?;
                let mut named = records.into_iter().filter(|record| record.plugin == *plugin);
                named
                    .find(|record| layout::volume_folder(plugin, &record.unique_name) == folder)
                    .map(|record| record.unique_name)
            };
            match layout::volume_of_folder(plugin, &folder).or_else(recorded) {
                Some(volume) => volumes.push((volume, path)),
                None => found.problems.push((
                    path.display().to_string(),
                    "no record names its volume; it stays until a pod uses that volume again".to_owned(),
                )),
            }
        }
        volumes
    }

    fn folders_in(&self, path: &Path, found: &mut Recovery) -> Vec<(PathBuf, PathBuf)> {
        let named = |folder: Directory| self.kernel().names(&folder);
        match self.folders.open(path).and_then(|folder| folder.map_or_else(|| Ok(Vec::new()), named)) {
            Ok(names) => names.into_iter().map(|name| (PathBuf::from(&name), path.join(name))).collect(),
            Err(error) => {
                found.problems.push((path.display().to_string(), error.to_string()));
                Vec::new()
            }
        }
    }
}
