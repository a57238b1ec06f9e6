//! Finds what a kubelet left. Changes nothing, enters no mount, follows no link.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use volhost_kernel::{Directory, Entry, ErrorKind, Kernel, KernelError, MountInfo};
use volhost_model::csi_layout::{self, MOUNT};
use volhost_model::names::{PluginName, PodUid, SpecName};
use volhost_volume_ops::layout;
use volhost_volume_ops::volume_data::VolumeData;

use crate::found::{Fate, Findings};

/// The file by which the kubelet marks a finished emptyDir.
const READY: &str = "ready";
/// The plugins of the kubelet's whose volumes volhost serves under the same name, at the same place.
const SERVED: [&str; 9] = [
    "kubernetes.io/configmap",
    csi_layout::PLUGIN,
    "kubernetes.io/downward-api",
    "kubernetes.io/empty-dir",
    "kubernetes.io/host-path",
    "kubernetes.io/local-volume",
    "kubernetes.io/nfs",
    "kubernetes.io/projected",
    "kubernetes.io/secret",
];
pub(crate) const KEPT: &str = "volhost run keeps it for its pod, and removes it when the pod is gone";
pub(crate) const UNSTAGED: &str = "volhost run unstages it when no pod has the volume";
pub(crate) const NO_NAME: &str = "its name is not valid; the kubelet did not make it";

/// Looks through a kubelet's root folder.
///
/// # Errors
/// The kernel's error when the folder itself, or the mount table, cannot be read. What cannot be
/// read below is a finding of its own.
pub fn look(kernel: &dyn Kernel, root: &Directory) -> Result<Findings, KernelError> {
    let looking = Looking { kernel, root, mounts: kernel.mounts_below(root)? };
    let mut found = Findings::default();
    looking.pods(&mut found);
    looking.staged(&mut found);
    looking.staged_devices(&mut found);
    looking.other_mounts(&mut found);
    found.sort();
    Ok(found)
}

pub(crate) struct Looking<'a> {
    kernel: &'a dyn Kernel,
    root: &'a Directory,
    pub(crate) mounts: Vec<MountInfo>,
}

impl Looking<'_> {
    /// Returns the names in a folder below the root, sorted; none if it does not exist. What cannot
    /// be read is added to the findings.
    pub(crate) fn names(&self, path: &Path, found: &mut Findings) -> Vec<OsString> {
        match self.kernel.list(self.root, path) {
            Ok((_, mut names)) => {
                names.sort();
                names
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                found.add(path.to_owned(), "cannot be read", Fate::Leave, error.to_string());
                Vec::new()
            }
        }
    }

    fn entry(&self, path: &Path) -> Result<Entry, KernelError> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(Entry::Absent) };
        match self.kernel.walk(self.root, folder) {
            Ok(folder) => self.kernel.entry(&folder, name),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Entry::Absent),
            Err(error) => Err(error),
        }
    }

    /// Returns what is mounted at a path below the root, in words.
    fn mount(&self, path: &Path) -> Option<String> {
        let mount = self.mounts.iter().rev().find(|mount| mount.point == path)?;
        Some(format!("{} of {}", mount.fs_type, mount.source.to_string_lossy()))
    }

    fn pods(&self, found: &mut Findings) {
        for name in self.names(Path::new(layout::PODS), found) {
            let path = Path::new(layout::PODS).join(&name);
            if name.to_str().is_none_or(|name| PodUid::new(name).is_err()) {
                found.add(path, "not a pod's folder", Fate::Leave, NO_NAME);
                continue;
            }
            for kind in self.names(&path, found) {
                let of_kind = path.join(&kind);
                match kind.to_str() {
                    Some(layout::VOLUMES) => self.volumes(&of_kind, found),
                    Some(layout::VOLUME_DEVICES) => self.devices(&of_kind, found),
                    Some(layout::PRIVATE) => self.marks(&of_kind, found),
                    Some(layout::SUB_PATHS) => self.sub_paths(&of_kind, found),
                    _ => found.add(of_kind, "no volume", Fate::Leave, "the kubelet's files for containers"),
                }
            }
        }
    }

    fn volumes(&self, path: &Path, found: &mut Findings) {
        for (plugin, name, path) in self.by_plugin(path, found) {
            let is_csi = csi_layout::mount_in_folder(&plugin).is_some();
            let what = format!("volume {name} of {plugin}");
            if !SERVED.contains(&plugin.as_str()) {
                // A FlexVolume driver's, or of a plugin that volhost lays out in another way.
                let why = "no plugin of volhost's serves it under that name, so nothing would unmount it rightly; \
                           delete its pod while the kubelet runs, then adopt";
                found.add(path, what, Fate::Blocks, why);
                continue;
            }
            match self.entry(&path) {
                Ok(Entry::Folder) if is_csi => self.csi_volume(&path, &what, found),
                Ok(Entry::Mount(_)) => {
                    let mount = self.mount(&path).unwrap_or_default();
                    found.add(path, format!("{what}: {mount}"), Fate::Adopt, KEPT);
                }
                Ok(Entry::Folder) => found.add(path, format!("{what}: a folder"), Fate::Adopt, KEPT),
                Ok(_) => found.add(path, what, Fate::Leave, "it is neither a folder nor a mount"),
                Err(error) => found.add(path, what, Fate::Leave, error.to_string()),
            }
        }
    }

    /// A volume of a CSI driver: its mount and `vol_data.json` in its folder.
    fn csi_volume(&self, path: &Path, what: &str, found: &mut Findings) {
        let mount = path.join(MOUNT);
        let mounted = self.mount(&mount).unwrap_or_else(|| "not mounted".to_owned());
        match self.volume_data(path) {
            Ok(Some(data)) => {
                let what = format!("{what}: {} of driver {}, {mounted}", data.volume_handle, data.driver_name);
                found.add(path.to_owned(), what, Fate::Adopt, KEPT);
            }
            Ok(None) => {
                let what = format!("{what}: {mounted}");
                let why = "it has no vol_data.json: its driver is not asked when it is unmounted";
                found.add(path.to_owned(), what, Fate::Adopt, why);
            }
            Err(why) => {
                let what = format!("{what}: {mounted}");
                let why = format!("{why}; it is skipped: its driver is not asked when it is unmounted");
                found.add(path.to_owned(), what, Fate::Leave, why);
            }
        }
    }

    /// Reads the file that names the volume; the reason if it names none.
    pub(crate) fn volume_data(&self, folder: &Path) -> Result<Option<VolumeData>, String> {
        let folder = self.kernel.walk(self.root, folder).map_err(|error| error.to_string())?;
        let Some(data) = VolumeData::read(self.kernel, &folder).map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let plugin = PluginName::new(csi_layout::PLUGIN).map_err(|error| error.to_string())?;
        data.unique_name(&plugin).map_err(|error| error.to_string())?;
        Ok(Some(data))
    }

    /// The kubelet marks each emptyDir that is finished, also those that it wraps around config maps
    /// and secrets. volhost would take the mark for a part of a volume.
    fn marks(&self, path: &Path, found: &mut Findings) {
        for plugin in self.names(path, found) {
            let of_plugin = path.join(&plugin);
            for name in self.names(&of_plugin, found) {
                let folder = of_plugin.join(&name);
                let names = self.names(&folder, found);
                let is_mark = names.len() == 1 && names.iter().all(|name| name == OsStr::new(READY));
                let mark = folder.join(READY);
                if is_mark && matches!(self.entry(&mark), Ok(Entry::File)) {
                    found.add(mark, "the kubelet's mark of a finished emptyDir", Fate::Clean, "volhost needs none");
                } else {
                    found.add(folder, "no mark that is known", Fate::Leave, "a plugin of the kubelet's keeps it");
                }
            }
        }
    }

    fn sub_paths(&self, path: &Path, found: &mut Findings) {
        for volume in self.names(path, found) {
            let of_volume = path.join(&volume);
            for container in self.names(&of_volume, found) {
                let of_container = of_volume.join(&container);
                for index in self.names(&of_container, found) {
                    let path = of_container.join(&index);
                    let (volume, container) = (volume.to_string_lossy(), container.to_string_lossy());
                    let what = format!("sub-path of volume {volume} for container {container}");
                    let mount = self.mount(&path).unwrap_or_else(|| "not mounted".to_owned());
                    found.add(path, format!("{what}: {mount}"), Fate::Adopt, KEPT);
                }
            }
        }
    }

    /// Returns the volumes below `pods/UID/volumes`: plugin, name and path.
    pub(crate) fn by_plugin(&self, path: &Path, found: &mut Findings) -> Vec<(PluginName, SpecName, PathBuf)> {
        let mut volumes = Vec::new();
        for plugin in self.names(path, found) {
            let of_plugin = path.join(&plugin);
            let Some(plugin) = plugin.to_str().and_then(|name| PluginName::from_escaped(name).ok()) else {
                found.add(of_plugin, "not a plugin's folder", Fate::Leave, NO_NAME);
                continue;
            };
            for name in self.names(&of_plugin, found) {
                let path = of_plugin.join(&name);
                match name.to_str().and_then(|name| SpecName::new(name).ok()) {
                    Some(name) => volumes.push((plugin.clone(), name, path)),
                    None => found.add(path, "not a volume's folder", Fate::Leave, NO_NAME),
                }
            }
        }
        volumes
    }

    /// The staging mounts of CSI drivers' volumes.
    fn staged(&self, found: &mut Findings) {
        let of_csi = Path::new(layout::PLUGINS).join(csi_layout::PLUGIN);
        for driver in self.names(&of_csi, found) {
            let of_driver = of_csi.join(&driver);
            if driver == OsStr::new(layout::VOLUME_DEVICES) {
                continue;
            }
            for digest in self.names(&of_driver, found) {
                let path = of_driver.join(&digest);
                let mounted = self.mount(&path.join(layout::GLOBAL_MOUNT)).unwrap_or_else(|| "not mounted".to_owned());
                let what = format!("staged volume of driver {}: {mounted}", driver.to_string_lossy());
                let why = match self.volume_data(&path) {
                    Ok(Some(data)) if is_at(&data, &path) => {
                        found.add(path, format!("{what}, {}", data.volume_handle), Fate::Adopt, UNSTAGED);
                        continue;
                    }
                    Ok(Some(_)) => "its vol_data.json names another volume".to_owned(),
                    Ok(None) => "it has no vol_data.json".to_owned(),
                    Err(why) => why,
                };
                let why = format!("{why}; it is skipped, and stays until a pod uses that volume again");
                found.add(path, what, Fate::Leave, why);
            }
        }
    }

    /// Mounts below `plugins` that are no staging mounts of CSI drivers: those of the kubelet's own
    /// plugins. volhost would make its folders inside the volume.
    fn other_mounts(&self, found: &mut Findings) {
        let plugins = Path::new(layout::PLUGINS);
        let of_csi = plugins.join(csi_layout::PLUGIN);
        for mount in self.mounts.iter().filter(|mount| mount.point.starts_with(plugins)) {
            if !mount.point.starts_with(&of_csi) {
                let what = format!("{} of {}", mount.fs_type, mount.source.to_string_lossy());
                let why = "a plugin of the kubelet's own has it mounted for the node; delete the pods that use it while the kubelet runs, then adopt";
                found.add(mount.point.clone(), what, Fate::Blocks, why);
            }
        }
    }
}

/// Returns whether the volume is staged in this folder.
fn is_at(data: &VolumeData, path: &Path) -> bool {
    let Ok(plugin) = PluginName::new(csi_layout::PLUGIN) else { return false };
    data.unique_name(&plugin).is_ok_and(|volume| layout::mount_folder(&plugin, &volume) == path)
}
