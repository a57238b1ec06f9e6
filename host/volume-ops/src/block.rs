//! Volumes that are handed to containers as devices: the device is bound for the pod below the plugin's folder, pinned so that its
//! name is not given to another device meanwhile, and linked in the pod's folder.

use std::ffi::OsStr;
use std::sync::Arc;

use tracing::warn;
use volhost_core::{DeviceReport, Operation};
use volhost_kernel::{BlockDevice, Detach, KernelError};
use volhost_model::names::PodUid;
use volhost_model::{Failure, FailureClass};
use volhost_runtime::{Call, Capability, DevicePlaces};

use super::devices::after_restage;
use super::layout;
use super::records::{Record, Stands};
use super::volume_ops::{Findings, VolumeOps, kernel_failure, tear_down_class};

impl VolumeOps {
    /// Makes the device ready for the node, then maps it for the pod.
    pub(super) fn map(&self, operation: &Operation, call: &Call, found: &mut Findings) -> Result<(), Failure> {
        const STEP: &str = "MapVolume.SetUpDevice";
        let (Some(pod), Some(spec)) = (&operation.pod, &operation.spec) else {
            return Err(Failure::new(FailureClass::Transient, "MapVolume", "the pod's object is not known"));
        };
        let plugin = self.plugin_for_set_up(operation, "MapVolume")?;
        let attached = self.attachment(operation, call, &plugin, "MapVolume.WaitForAttach")?;
        let before = self.device_record(operation);
        self.note_device(operation, &plugin, |record| {
            record.stageable = true;
            record.attachable |= operation.attachable;
        });
        let call = &self.about_device(operation, call).with_attachment(attached.as_ref());
        let outcome = plugin.stage_device(call, spec, attached.as_ref());
        self.note_conduct(operation, call, outcome.as_ref().err());
        let device = outcome.map_err(|error| {
            if before.as_ref().is_some_and(|record| record.stageable) {
                found.device = after_restage(error.class());
                return Failure::new(error.class(), STEP, error.message());
            }
            // What is left at the places of a driver may be its device, whatever the plugin says.
            let class = if self.has_driver_places(operation) { FailureClass::Uncertain } else { error.class() };
            found.device = match class {
                FailureClass::Uncertain => Some(DeviceReport::Uncertain),
                FailureClass::Final => Some(DeviceReport::Unmounted),
                FailureClass::Transient => None,
            };
            if class != FailureClass::Uncertain {
                self.restore_device_record(operation, before.as_ref());
            }
            Failure::new(class, STEP, error.message())
        })?;
        found.device = Some(DeviceReport::Mounted);
        if let Some(path) = device.as_ref().map(|device| device.path().to_string_lossy().into_owned()) {
            self.note_device(operation, &plugin, |record| record.device = Some(path));
        }
        let outcome = plugin.map_device(call, spec, pod, device.as_ref());
        self.note_conduct(operation, call, outcome.as_ref().err());
        let device = outcome
            .map_err(|error| Failure::new(FailureClass::Uncertain, "MapVolume.MapPodDevice", error.message()))?;
        self.map_for_pod(operation, &pod.uid, &device)
            .map_err(|error| kernel_failure("MapVolume.MapBlockVolume", FailureClass::Uncertain, &error))?;
        self.expand_while_mounting(operation, call, &plugin, attached.as_ref(), found);
        let record = Record::new(
            pod.as_ref().clone(),
            operation.plugin.clone(),
            plugin.info().digest.clone(),
            operation.volume.clone(),
            spec.as_ref().clone(),
            Stands::Device,
        );
        self.write_record(&record.on_node(operation.attachable, true));
        Ok(())
    }

    /// The link comes first and goes last: whatever a crash leaves, the pod's folder tells of it.
    fn map_for_pod(&self, operation: &Operation, pod: &PodUid, device: &Arc<BlockDevice>) -> Result<(), KernelError> {
        let link = layout::pod_device_folder(pod, &operation.plugin);
        let make_link = || {
            let links = self.kernel.make_dirs(&self.root, &link, layout::FOLDER_MODE)?;
            self.kernel.link_device(device, &links, OsStr::new(operation.spec_name.as_str()))
        };
        match make_link() {
            // As with mounts: the folders of a pod whose last volume has just gone are removed.
            Err(_) if self.is_absent(&link) => make_link()?,
            outcome => outcome?,
        }
        let folder = layout::map_folder(&operation.plugin, &operation.volume);
        let maps = self.make_volume_folder(&folder)?;
        let name = OsStr::new(pod.as_str());
        self.kernel.map_device(device, &maps, name)?;
        self.kernel.pin_device(&maps, name)?;
        Ok(())
    }

    /// Takes the device away from the pod.
    pub(super) fn unmap(&self, operation: &Operation, call: &Call) -> Result<(), Failure> {
        const STEP: &str = "UnmapVolume.UnmapBlockVolume";
        let Some(pod) = &operation.pod_uid else {
            return Err(Failure::new(FailureClass::Transient, "UnmapVolume", "no pod is named"));
        };
        let failed = |error: KernelError| kernel_failure(STEP, FailureClass::Uncertain, &error);
        let name = OsStr::new(pod.as_str());
        let folder = layout::map_folder(&operation.plugin, &operation.volume);
        if let Some(maps) = self.open_if_there(&folder).map_err(failed)? {
            self.kernel.unpin_device(&maps, name).map_err(failed)?;
            self.kernel.detach(&maps, name, Detach::Normal).map_err(failed)?;
        }
        let plugin = self.tear_down_plugin(operation, Some(pod));
        if let Some(plugin) = plugin.filter(|plugin| plugin.exports(Capability::BlockMapper)) {
            let volume = layout::volume_name(&operation.plugin, &operation.volume);
            let call = &self.about_device(operation, call);
            let outcome = plugin.unmap_device(call, volume, pod);
            self.note_conduct(operation, call, outcome.as_ref().err());
            outcome.map_err(|error| {
                Failure::new(FailureClass::Uncertain, "UnmapVolume.UnmapPodDevice", error.message())
            })?;
        }
        if let Some(links) = self.open_if_there(&layout::pod_device_folder(pod, &operation.plugin)).map_err(failed)? {
            self.kernel.remove_file(&links, OsStr::new(operation.spec_name.as_str())).map_err(failed)?;
        }
        if let Err(error) = self.records.remove(pod, &operation.plugin, &operation.spec_name) {
            warn!(volume = %operation.volume, %error, "the volume is gone, but its record could not be removed");
        }
        Ok(())
    }

    /// Takes back what made the device ready for the node, once no pod has it.
    pub(super) fn unmap_device(&self, operation: &Operation, call: &Call) -> Result<(), Failure> {
        const STEP: &str = "UnmapDevice.TearDownDevice";
        let failed = |error: KernelError| kernel_failure("UnmapDevice", FailureClass::Uncertain, &error);
        let folder = layout::map_folder(&operation.plugin, &operation.volume);
        if let Some(maps) = self.open_if_there(&folder).map_err(failed)? {
            let pods: Vec<String> = self
                .kernel
                .names(&maps)
                .map_err(failed)?
                .iter()
                .map(|name| name.to_string_lossy().into_owned())
                .collect();
            if !pods.is_empty() {
                return Err(Failure::new(
                    FailureClass::Uncertain,
                    "UnmapDevice.CheckReferences",
                    format!("the device is still referenced from other Pods: {}", pods.join(", ")),
                ));
            }
        }
        let record = self.device_record(operation);
        let plugin = self.tear_down_plugin(operation, None);
        if let Some(plugin) = plugin.filter(|plugin| plugin.exports(Capability::BlockMapper)) {
            let name = layout::volume_name(&operation.plugin, &operation.volume);
            let call = &self.about_device(operation, call);
            let outcome = plugin.unstage_device(call, name);
            self.note_conduct(operation, call, outcome.as_ref().err());
            outcome.map_err(|error| Failure::new(tear_down_class(&error, false), STEP, error.message()))?;
        }
        self.clear_driver_places(operation).map_err(failed)?;
        if let Some(path) = record.and_then(|record| record.device) {
            self.check_not_in_use("UnmapDevice.CheckDevice", &path)?;
        }
        if let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) {
            self.forget_volume_folder(parent, name);
        }
        self.device_is_gone(operation);
        Ok(())
    }

    /// Creates a call about the operation's device, in which an external driver may have a part.
    pub(super) fn about_device(&self, operation: &Operation, call: &Call) -> Call {
        let folder = layout::driver_folder(&operation.plugin, &operation.volume);
        call.clone().with_device_places(DevicePlaces { root: Arc::clone(&self.root), folder })
    }

    /// Whether anything but an empty folder is at the places that a driver outside was given for
    /// the device.
    fn has_driver_places(&self, operation: &Operation) -> bool {
        let folder = layout::driver_folder(&operation.plugin, &operation.volume);
        let names = self.open_if_there(&folder).and_then(|places| match places {
            Some(places) => Ok(self.kernel.names(&places)?.into_iter().map(|name| folder.join(name)).collect()),
            None => Ok(Vec::new()),
        });
        let is_empty = |place: &std::path::PathBuf| {
            let inside = self.kernel.walk(&self.root, place).and_then(|place| self.kernel.names(&place));
            inside.is_ok_and(|names| names.is_empty())
        };
        names.map_or(true, |places: Vec<_>| !places.iter().all(is_empty))
    }

    /// Removes what a driver outside left at the places that it was given for the device. Data stays, and is an error.
    fn clear_driver_places(&self, operation: &Operation) -> Result<(), KernelError> {
        let folder = layout::driver_folder(&operation.plugin, &operation.volume);
        let Some(places) = self.open_if_there(&folder)? else { return Ok(()) };
        for name in self.kernel.names(&places)? {
            self.kernel.clear_place(&places, &name)?;
        }
        if let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) {
            self.forget_volume_folder(parent, name);
        }
        Ok(())
    }
}
