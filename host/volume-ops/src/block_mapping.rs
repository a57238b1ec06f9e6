//! Volumes that containers get as devices: the device is bound for the pod below the plugin's
//! folder, pinned so that its name is not given to another device meanwhile, and linked in the
//! pod's folder.

use std::ffi::OsStr;
use std::sync::Arc;

use tracing::warn;
use volhost_core::{DeviceReport, Operation};
use volhost_kernel::{BlockDevice, Detach, Kernel, KernelError};
use volhost_model::names::PodUid;
use volhost_model::{Failure, FailureClass, Pod, VolumeSpec};
use volhost_runtime::{Attachment, Call, Capability, Plugin};

use super::attaching::check_not_in_use;
use super::device_folders::DeviceFolders;
use super::device_records::DeviceRecords;
use super::failures::{kernel_failure, step_failure};
use super::findings::Findings;
use super::layout;
use super::mount_records::MountRecords;
use super::node_folders::{NodeFolders, VolumeRef};
use super::plugin_calls::PluginCalls;
use super::staging::{VolumeStager, after_restage, after_stage};
use super::steps::Steps;

/// Maps and unmaps devices.
#[derive(Debug)]
pub(super) struct BlockMapping {
    folders: NodeFolders,
    plugins: PluginCalls,
    records: Arc<MountRecords>,
    device_records: DeviceRecords,
}

impl BlockMapping {
    pub(super) fn new(
        folders: NodeFolders,
        plugins: PluginCalls,
        records: Arc<MountRecords>,
        device_records: DeviceRecords,
    ) -> Self {
        Self { folders, plugins, records, device_records }
    }

    fn kernel(&self) -> &dyn Kernel {
        self.folders.kernel().as_ref()
    }

    /// Stages the device, then maps it for the pod.
    pub(super) fn map(
        &self,
        operation: &Operation,
        call: &Call,
        plugin: &Arc<Plugin>,
        attached: Option<&Attachment>,
        (pod, spec): (&Arc<Pod>, &Arc<VolumeSpec>),
        found: &mut Findings,
    ) -> Result<(), Failure> {
        const BEGIN: &str = "MapVolume.MakeFolders";
        let folders = DeviceFolders::begin(&self.folders, VolumeRef::of(operation), &call.environment().node().name)
            .map_err(|error| kernel_failure(BEGIN, FailureClass::Transient, &error))?;
        let call = &call.clone().with_device_places(folders.places()).with_attachment(attached);
        let device = self.stage(operation, call, plugin, attached, (spec, &folders), found)?;
        let outcome = Steps::new(self.kernel(), plugin, call).map_device(spec, pod, device.as_ref());
        self.plugins.note(operation, call, outcome.as_ref().err());
        let device = outcome
            .map_err(|error| Failure::new(FailureClass::Uncertain, "MapVolume.MapPodDevice", error.message()))?;
        self.show(operation, &pod.uid, &device)
            .map_err(|error| kernel_failure("MapVolume.MapBlockVolume", FailureClass::Uncertain, &error))
    }

    /// Stages the device; none if each pod gets a device of its own.
    fn stage(
        &self,
        operation: &Operation,
        call: &Call,
        plugin: &Arc<Plugin>,
        attached: Option<&Attachment>,
        (spec, folders): (&Arc<VolumeSpec>, &DeviceFolders<'_>),
        found: &mut Findings,
    ) -> Result<Option<Arc<BlockDevice>>, Failure> {
        const STEP: &str = "MapVolume.SetUpDevice";
        let before = self.device_records.read(operation);
        self.device_records.update(operation, plugin, |record| {
            record.stageable = true;
            record.attachable |= operation.attachable;
        });
        let outcome = Steps::new(self.kernel(), plugin, call).stage_device(spec, attached);
        self.plugins.note(operation, call, outcome.as_ref().err());
        let device = outcome.map_err(|error| {
            if folders.may_be_staged() || before.as_ref().is_some_and(|record| record.stageable) {
                found.device = after_restage(error.class());
                return Failure::new(error.class(), STEP, error.message());
            }
            // What is left at the places of a driver may be its device, whatever the plugin says.
            let is_left = folders.has_driver_places() || folders.clear_driver_places().is_err();
            let class = if is_left { FailureClass::Uncertain } else { error.class() };
            found.device = after_stage(class);
            if class != FailureClass::Uncertain {
                folders.forget();
                self.device_records.restore(operation, before.as_ref());
            }
            Failure::new(class, STEP, error.message())
        })?;
        found.device = Some(DeviceReport::Mounted);
        if let Some(path) = device.as_ref().map(|device| device.path().to_string_lossy().into_owned()) {
            self.device_records.update(operation, plugin, |record| record.device = Some(path));
        }
        Ok(device)
    }

    /// The link comes first and goes last: whatever a crash leaves, recovery finds it in the pod's
    /// folder.
    fn show(&self, operation: &Operation, pod: &PodUid, device: &Arc<BlockDevice>) -> Result<(), KernelError> {
        let link = layout::pod_device_folder(pod, &operation.plugin);
        let make_link = || {
            let links = self.folders.make(&link)?;
            self.kernel().link_device(device, &links, OsStr::new(operation.spec_name.as_str()))
        };
        match make_link() {
            // The cleanup after the pod's last other volume may remove the folders meanwhile.
            Err(_) if self.folders.is_absent(&link) => make_link()?,
            outcome => outcome?,
        }
        let maps = self.folders.device(VolumeRef::of(operation)).make_maps()?;
        let name = OsStr::new(pod.as_str());
        self.kernel().map_device(device, &maps, name)?;
        self.kernel().pin_device(&maps, name)?;
        Ok(())
    }

    /// Unmaps the device from the pod.
    pub(super) fn unmap(&self, operation: &Operation, call: &Call) -> Result<(), Failure> {
        const STEP: &str = "UnmapVolume.UnmapBlockVolume";
        let Some(pod) = &operation.pod_uid else {
            return Err(Failure::new(FailureClass::Transient, "UnmapVolume", "no pod is named"));
        };
        let failed = |error: KernelError| kernel_failure(STEP, FailureClass::Uncertain, &error);
        let name = OsStr::new(pod.as_str());
        let folders = self.folders.device(VolumeRef::of(operation));
        if let Some(maps) = folders.maps().map_err(failed)? {
            self.kernel().unpin_device(&maps, name).map_err(failed)?;
            self.kernel().detach(&maps, name, Detach::Normal).map_err(failed)?;
        }
        if let Some(plugin) = self.mapper(self.plugins.to_unpublish(operation, pod)) {
            let volume = layout::volume_name(&operation.plugin, &operation.volume);
            let call = &call.clone().with_device_places(folders.places());
            let outcome = Steps::new(self.kernel(), &plugin, call).unmap_device(volume, pod);
            self.plugins.note_step(operation, call, &outcome);
            outcome.map_err(|error| step_failure("UnmapVolume.UnmapPodDevice", &error))?;
        }
        let links = self.folders.open(&layout::pod_device_folder(pod, &operation.plugin)).map_err(failed)?;
        if let Some(links) = links {
            self.kernel().remove_file(&links, OsStr::new(operation.spec_name.as_str())).map_err(failed)?;
        }
        if let Err(error) = self.records.remove(pod, &operation.plugin, &operation.spec_name) {
            warn!(volume = %operation.volume, %error, "the volume is unmapped, but its record could not be removed");
        }
        Ok(())
    }

    /// Unstages the device, once no pod uses it.
    pub(super) fn unmap_device(
        &self,
        operation: &Operation,
        call: &Call,
        staging: &VolumeStager,
    ) -> Result<(), Failure> {
        const STEP: &str = "UnmapDevice.TearDownDevice";
        let failed = |error: KernelError| kernel_failure("UnmapDevice", FailureClass::Uncertain, &error);
        let folders = self.folders.device(VolumeRef::of(operation));
        if let Some(maps) = folders.maps().map_err(failed)? {
            let pods: Vec<String> = self
                .kernel()
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
        let record = self.device_records.read(operation);
        if let Some(plugin) = self.mapper(self.plugins.to_unstage(operation)) {
            let name = layout::volume_name(&operation.plugin, &operation.volume);
            let call = &call.clone().with_device_places(folders.places());
            let outcome = Steps::new(self.kernel(), &plugin, call).unstage_device(name);
            self.plugins.note_step(operation, call, &outcome);
            outcome.map_err(|error| step_failure(STEP, &error))?;
        }
        folders.clear_driver_places().map_err(failed)?;
        if let Some(path) = record.and_then(|record| record.device) {
            check_not_in_use(self.kernel(), "UnmapDevice.CheckDevice", &path)?;
        }
        folders.forget();
        staging.unstaged(operation);
        Ok(())
    }

    fn mapper(&self, plugin: Option<Arc<Plugin>>) -> Option<Arc<Plugin>> {
        plugin.filter(|plugin| plugin.exports(Capability::BlockMapper))
    }

    /// Creates a call about the operation's device, in which an external driver may have a part.
    pub(super) fn with_device_places(&self, operation: &Operation, call: &Call) -> Call {
        call.clone().with_device_places(self.folders.device(VolumeRef::of(operation)).places())
    }
}
