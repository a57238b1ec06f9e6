//! Finds the devices that are where the kubelet has those of CSI drivers' volumes.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use volhost_kernel::{Entry, KernelError};
use volhost_model::csi_layout;
use volhost_model::names::{PluginName, PodUid, SpecName, UniqueVolumeName};

use super::layout::{self, DevicePaths};
use super::node_folders::NodeFolders;
use super::volume_data;

/// One device that was found.
#[derive(Debug)]
pub(super) struct KubeletDevice {
    /// Its name in the kubelet's folders.
    pub(super) name: SpecName,
    /// The volume that its `vol_data.json` names.
    pub(super) volume: Option<UniqueVolumeName>,
    /// The pods that it is bound or published for.
    pub(super) pods: BTreeSet<PodUid>,
    /// It is neither staged, nor bound or published for a pod.
    pub(super) is_empty: bool,
}

/// Finds the devices. What cannot be read, and a `vol_data.json` that names no volume, is a problem.
pub(super) fn find(
    folders: &NodeFolders,
    plugin: &PluginName,
    problems: &mut Vec<(String, String)>,
) -> Vec<KubeletDevice> {
    let all = layout::kubelet_devices();
    let mut names = BTreeSet::new();
    for folder in [all.clone(), all.join(csi_layout::STAGED_DEVICES), all.join(csi_layout::PUBLISHED_DEVICES)] {
        for name in names_in(folders, &folder, problems) {
            let path = folder.join(&name);
            if !layout::is_kubelet_device(plugin, &path) {
                continue;
            }
            match name.to_str().and_then(|name| SpecName::new(name).ok()) {
                Some(name) if csi_layout::can_name_device(&name) => drop(names.insert(name)),
                Some(_) => {}
                None => problems.push((path.display().to_string(), "its name is no volume's".to_owned())),
            }
        }
    }
    let mut found = Vec::new();
    for name in names {
        match look(folders, plugin, &name, problems) {
            Ok(device) => found.push(device),
            Err(error) => problems.push((all.join(name.as_str()).display().to_string(), error.to_string())),
        }
    }
    found
}

fn look(
    folders: &NodeFolders,
    plugin: &PluginName,
    name: &SpecName,
    problems: &mut Vec<(String, String)>,
) -> Result<KubeletDevice, KernelError> {
    let kernel = folders.kernel().as_ref();
    let paths = DevicePaths::of_kubelet(name);
    let mut volume = None;
    let mut is_staged = false;
    if let Some(kubelet) = &paths.kubelet {
        if let Some(data) = folders.open(&kubelet.data)? {
            volume = volume_data::named_in(kernel, &data, plugin).unwrap_or_else(|error| {
                problems.push((kubelet.data.display().to_string(), error.to_string()));
                None
            });
        }
        if let (Some(parent), Some(leaf)) = (kubelet.staging.parent(), kubelet.staging.file_name())
            && let Some(parent) = folders.open(parent)?
        {
            is_staged = kernel.entry(&parent, leaf)? != Entry::Absent;
        }
    }
    let mut pods = Vec::new();
    for folder in [&paths.maps, &paths.driver] {
        if let Some(folder) = folders.open(folder)? {
            pods.extend(kernel.names(&folder)?);
        }
    }
    let is_empty = !is_staged && pods.is_empty();
    let pods = pods.iter().filter_map(|pod| PodUid::new(pod.to_str()?).ok()).collect();
    Ok(KubeletDevice { name: name.clone(), volume, pods, is_empty })
}

fn names_in(folders: &NodeFolders, path: &Path, problems: &mut Vec<(String, String)>) -> Vec<OsString> {
    let names = folders.open(path).and_then(|folder| match folder {
        Some(folder) => folders.kernel().names(&folder),
        None => Ok(Vec::new()),
    });
    names.unwrap_or_else(|error| {
        problems.push((path.display().to_string(), error.to_string()));
        Vec::new()
    })
}

/// Removes the empty folders of a device that no file and no record names.
pub(super) fn forget_unnamed(folders: &NodeFolders, name: &SpecName) {
    let paths = DevicePaths::of_kubelet(name);
    let data = paths.kubelet.map(|kubelet| kubelet.data);
    for path in [Some(paths.maps), Some(paths.driver), data].into_iter().flatten() {
        if let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
            folders.forget_volume_folder(parent, name);
        }
    }
}
