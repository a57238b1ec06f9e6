//! Finds the devices that a kubelet left: those of CSI drivers' volumes are taken over.

use std::collections::BTreeSet;
use std::path::Path;

use volhost_kernel::MountInfo;
use volhost_model::csi_layout;
use volhost_model::names::SpecName;
use volhost_volume_ops::layout;
use volhost_volume_ops::volume_data::VolumeData;

use crate::found::{Fate, Findings};
use crate::look::{KEPT, Looking, NO_NAME, UNSTAGED};

const NO_DRIVER: &str = "no driver can be asked to take it back; delete its pod while the kubelet runs, then adopt";

impl Looking<'_> {
    /// The devices in the folder of a pod.
    pub(crate) fn devices(&self, path: &Path, found: &mut Findings) {
        for (plugin, name, path) in self.by_plugin(path, found) {
            let what = format!("device {name} of {plugin}");
            if csi_layout::mount_in_folder(&plugin).is_none() {
                let why = "no plugin of volhost's has the device where the kubelet has it; delete its pod while the \
                           kubelet runs, then adopt";
                found.add(path, what, Fate::Blocks, why);
                continue;
            }
            match self.device_data(&name) {
                Ok(data) => {
                    let what = format!("{what}: {} of driver {}", data.volume_handle, data.driver_name);
                    found.add(path, what, Fate::Adopt, KEPT);
                }
                Err(why) => found.add(path, what, Fate::Blocks, format!("{why}; {NO_DRIVER}")),
            }
        }
    }

    /// Reads the file that names the volume of a device; the reason if it names none.
    fn device_data(&self, name: &SpecName) -> Result<VolumeData, String> {
        let no_file = || format!("it has no {}", csi_layout::VOLUME_DATA);
        if !csi_layout::can_name_device(name) {
            return Err("its name is no PersistentVolume's".to_owned());
        }
        let folder = layout::DevicePaths::of_kubelet(name).kubelet.map(|kubelet| kubelet.data).ok_or_else(no_file)?;
        match self.volume_data(&folder) {
            Ok(data) => data.ok_or_else(no_file),
            Err(why) => Err(why),
        }
    }

    /// The devices of CSI drivers' volumes, in the folders that the node has once for all pods.
    pub(crate) fn staged_devices(&self, found: &mut Findings) {
        let all = layout::kubelet_devices();
        let mut names = BTreeSet::new();
        for folder in [all.clone(), all.join(csi_layout::STAGED_DEVICES), all.join(csi_layout::PUBLISHED_DEVICES)] {
            names.extend(self.names(&folder, found));
        }
        names.retain(|name| name != csi_layout::STAGED_DEVICES && name != csi_layout::PUBLISHED_DEVICES);
        for name in names {
            let path = all.join(&name);
            let Some(spec_name) = name.to_str().and_then(|name| SpecName::new(name).ok()) else {
                found.add(path, "not a device's folder", Fate::Leave, NO_NAME);
                continue;
            };
            let paths = layout::DevicePaths::of_kubelet(&spec_name);
            let staging = paths.kubelet.as_ref().map(|kubelet| kubelet.staging.as_path());
            let of_it = [Some(paths.maps.as_path()), Some(paths.driver.as_path()), staging];
            let mounted: Vec<&MountInfo> = self
                .mounts
                .iter()
                .filter(|mount| of_it.iter().flatten().any(|folder| mount.point.starts_with(folder)))
                .collect();
            let what = format!("staged device {spec_name}");
            match self.device_data(&spec_name) {
                Ok(data) => {
                    let what = format!("{what}: {} of driver {}", data.volume_handle, data.driver_name);
                    found.add(path, what, Fate::Adopt, UNSTAGED);
                }
                Err(why) => {
                    for mount in &mounted {
                        found.add(mount.point.clone(), what.clone(), Fate::Blocks, format!("{why}; {NO_DRIVER}"));
                    }
                    if mounted.is_empty() {
                        found.add(path, what, Fate::Leave, format!("{why}; it is skipped"));
                    }
                }
            }
        }
    }
}
