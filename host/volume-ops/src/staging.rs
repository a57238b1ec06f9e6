//! VolumeStager a volume on the node before its first pod uses it, and unstaging it after the last
//! one.

use std::path::Path;
use std::sync::Arc;

use tracing::{instrument, warn};
use volhost_core::{DeviceReport, Operation};
use volhost_kernel::{Detach, Kernel, KernelError, MountInfo};
use volhost_model::{Failure, FailureClass, VolumeSpec};
use volhost_runtime::{Attachment, Call, Capability, Plugin};

use super::attaching::check_not_in_use;
use super::device_records::DeviceRecords;
use super::expected_mounts::{ExpectedMounts, NodePlace, VolumePlace};
use super::failures::{kernel_failure, step_failure};
use super::findings::Findings;
use super::layout;
use super::node_folders::{NodeFolders, VolumeRef};
use super::places::StagingPlace;
use super::plugin_calls::PluginCalls;
use super::steps::Steps;

/// How many of the mounts that keep a device from being unstaged a message names.
const NAMED: usize = 3;

/// Stages and unstages volumes.
#[derive(Debug)]
pub(super) struct VolumeStager {
    folders: NodeFolders,
    plugins: PluginCalls,
    records: DeviceRecords,
    expected: Arc<ExpectedMounts>,
}

impl VolumeStager {
    pub(super) fn new(
        folders: NodeFolders,
        plugins: PluginCalls,
        records: DeviceRecords,
        expected: Arc<ExpectedMounts>,
    ) -> Self {
        Self { folders, plugins, records, expected }
    }

    fn kernel(&self) -> &dyn Kernel {
        self.folders.kernel().as_ref()
    }

    /// Stages the volume. The plugin is not called for a volume that was staged when the operation
    /// began and whose staging mount exists: neither another pod nor a refresh changes what the node
    /// has.
    #[instrument(name = "MountVolume.MountDevice", level = "debug", skip_all)]
    pub(super) fn stage(
        &self,
        operation: &Operation,
        call: &Call,
        plugin: &Arc<Plugin>,
        attached: Option<&Attachment>,
        found: &mut Findings,
    ) -> Result<(), Failure> {
        let Some(spec) = &operation.spec else { return Ok(()) };
        let before = self.records.read(operation);
        let was_staged = before.as_ref().is_some_and(|record| record.stageable);
        self.records.update(operation, plugin, |record| {
            record.stageable = true;
            record.spec.selinux_label.clone_from(&spec.selinux_label);
            record.attachable |= operation.attachable;
        });
        if operation.kind.found_device() && self.is_mounted(operation) {
            return Ok(());
        }
        let outcome = self.stage_recorded(operation, call, (spec, plugin, attached), was_staged, found);
        // Nothing was begun: the next start must not undo it.
        if outcome.is_err() && found.device.is_none() && !was_staged {
            self.records.restore(operation, before.as_ref());
        }
        outcome
    }

    /// Whether the staging mount exists. A driver may stage without one: it is asked again.
    fn is_mounted(&self, operation: &Operation) -> bool {
        let place = self.folders.staging(VolumeRef::of(operation));
        place.is_ok_and(|place| place.is_some_and(|place| place.is_mounted(self.kernel()).unwrap_or_default()))
    }

    fn stage_recorded(
        &self,
        operation: &Operation,
        call: &Call,
        (spec, plugin, attached): (&Arc<VolumeSpec>, &Arc<Plugin>, Option<&Attachment>),
        was_staged: bool,
        found: &mut Findings,
    ) -> Result<(), Failure> {
        const STEP: &str = "MountVolume.MountDevice";
        let volume = VolumeRef::of(operation);
        // The plugin was not called: what an earlier try has left is still there.
        let place =
            self.folders.make_staging(volume).map_err(|error| kernel_failure(STEP, FailureClass::Transient, &error))?;
        self.restore_from_pod(operation, &place).map_err(|error| {
            found.device = Some(DeviceReport::Uncertain);
            kernel_failure(STEP, FailureClass::Uncertain, &error)
        })?;
        let outcome = Steps::new(self.kernel(), plugin, call).stage(spec, attached, &place);
        self.plugins.note_step(operation, call, &outcome);
        match outcome {
            Ok(staged) => {
                found.device = Some(DeviceReport::Mounted);
                if staged.is_mount {
                    self.expected.add_staged(NodePlace::of(operation));
                }
                if let Some(device) = staged.device.map(|path| path.to_string_lossy().into_owned()) {
                    // For the check of the device after the unstage.
                    self.records.update(operation, plugin, |record| record.device = Some(device));
                }
                Ok(())
            }
            Err(error) if was_staged => {
                // The volume was staged before, and a driver may stage without a mount. Neither an
                // empty folder nor the plugin's word proves that it no longer is.
                found.device = after_restage(error.class());
                Err(step_failure(STEP, &error))
            }
            Err(error) => {
                drop(place);
                self.folders.forget_staging(volume);
                // What is left there may be mounted, whatever the plugin says.
                let is_gone = self.folders.staging_folder(volume).is_ok_and(|folder| self.folders.is_absent(&folder));
                let class = if is_gone { error.class() } else { FailureClass::Uncertain };
                found.device = after_stage(class);
                if class == FailureClass::Final {
                    self.unstaged(operation);
                }
                Err(Failure::new(class, STEP, error.to_string()))
            }
        }
    }

    /// Restores a staging mount that another process unmounted, from a pod's mount of the volume.
    /// The plugin could not mount a device that is in use.
    fn restore_from_pod(&self, operation: &Operation, place: &StagingPlace) -> Result<(), KernelError> {
        let Some(device) = self.records.read(operation).and_then(|record| record.device) else { return Ok(()) };
        let (kernel, name) = (self.kernel(), place.name.as_os_str());
        if place.is_mounted(kernel)? {
            return Ok(());
        }
        let of_volume =
            |place: &VolumePlace| place.plugin == operation.plugin && place.spec_name == operation.spec_name;
        for published in self.expected.published().into_iter().filter(of_volume) {
            let of_pod = self.folders.place_of(&published.plugin, &published.spec_name, &published.pod)?;
            let Some(of_pod) = of_pod else { continue };
            let shown = kernel.mount_at(&of_pod.parent, &of_pod.name)?;
            if !shown.is_some_and(|mount| shows_all_of(&mount, &device)) {
                continue;
            }
            let root = kernel.walk(&of_pod.parent, Path::new(&of_pod.name))?;
            kernel.attach(kernel.bind(&kernel.source(&root)?, false)?, &place.folder, name)?;
            // The pod's mount may have gone since the check; then the folder below it was bound.
            if kernel.mount_at(&place.folder, name)?.is_some_and(|mount| shows_all_of(&mount, &device)) {
                return Ok(());
            }
            kernel.detach(&place.folder, name, Detach::Normal)?;
        }
        Ok(())
    }

    /// Unstages the volume, once nothing refers to it.
    pub(super) fn unstage(&self, operation: &Operation, call: &Call) -> Result<(), Failure> {
        self.expected.remove_staged(&NodePlace::of(operation));
        let volume = VolumeRef::of(operation);
        let failed = |error: KernelError| kernel_failure("UnmountDevice.OpenFolder", FailureClass::Uncertain, &error);
        let record = self.records.read(operation);
        let place = match self.folders.staging(volume).map_err(failed)? {
            // A driver may stage without a mount. Its plugin has to unstage the volume although
            // another process has removed the folder.
            None if record.as_ref().is_some_and(|record| record.stageable) => {
                Some(self.folders.make_staging(volume).map_err(failed)?)
            }
            place => place,
        };
        let mut device = record.and_then(|record| record.device);
        // Without a record: a plugin that attaches nothing may have bound a folder of the node's
        // own disk.
        let of_device = device.is_some() || self.may_attach(operation);
        if let Some(place) = place {
            let mount = self
                .kernel()
                .mount_at(&place.folder, &place.name)
                .map_err(|error| kernel_failure("UnmountDevice.Look", FailureClass::Uncertain, &error))?;
            if let Some(mount) = mount.filter(|mount| of_device && is_of_device(mount)) {
                self.check_references(&self.folders.staging_folder(volume).map_err(failed)?, &mount)?;
                device = device.or_else(|| Some(mount.source.to_string_lossy().into_owned()));
            }
            self.unmount(operation, call, &place)?;
        }
        if let Some(path) = &device {
            check_not_in_use(self.kernel(), "UnmountDevice.CheckDevice", path)?;
        }
        self.folders.forget_staging(volume);
        self.unstaged(operation);
        Ok(())
    }

    /// Returns whether the volume's plugin attaches volumes; true if it is unknown.
    fn may_attach(&self, operation: &Operation) -> bool {
        self.plugins.to_unstage(operation).is_none_or(|plugin| plugin.exports(Capability::Attacher))
    }

    fn unmount(&self, operation: &Operation, call: &Call, place: &StagingPlace) -> Result<(), Failure> {
        const STEP: &str = "UnmountDevice";
        let Some(plugin) = self.plugins.to_unstage(operation) else {
            let unmounted = place.unmount(self.kernel());
            return unmounted.map_err(|error| kernel_failure(STEP, FailureClass::Uncertain, &error));
        };
        let name = layout::volume_name(&operation.plugin, &operation.volume);
        let outcome = Steps::new(self.kernel(), &plugin, call).unstage(name, place);
        if plugin.exports(Capability::Stager) {
            self.plugins.note_step(operation, call, &outcome);
        }
        outcome.map_err(|error| {
            if error.left_mounted() {
                self.expected.add_staged(NodePlace::of(operation));
            }
            step_failure(STEP, &error)
        })
    }

    /// Checks that no pod's folder shows the device's file system: what a container still uses must
    /// not vanish below it.
    fn check_references(&self, own: &Path, mount: &MountInfo) -> Result<(), Failure> {
        const STEP: &str = "UnmountDevice.CheckReferences";
        let all = self.folders.mounts().map_err(|error| kernel_failure(STEP, FailureClass::Uncertain, &error))?;
        let others: Vec<String> = all
            .iter()
            .filter(|other| other.source == mount.source && other.fs_type == mount.fs_type)
            .filter(|other| !other.point.starts_with(own))
            .map(|other| other.point.display().to_string())
            .collect();
        if others.is_empty() {
            return Ok(());
        }
        let named = others.get(..NAMED.min(others.len())).unwrap_or_default().join(", ");
        let more = others.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        Err(Failure::new(
            FailureClass::Uncertain,
            STEP,
            format!("the device mount is still mounted by other references: {named}{more}; unmount them"),
        ))
    }

    /// Forgets the staged volume: the plugin's note and the record.
    pub(super) fn unstaged(&self, operation: &Operation) {
        if let Err(error) = self.folders.note(VolumeRef::of(operation)).remove(self.kernel()) {
            warn!(volume = %operation.volume, %error, "the plugin's note about the volume could not be removed");
        }
        self.records.unstaged(operation);
    }
}

/// Returns the device report for a call that failed to stage a volume for the first time.
pub(super) fn after_stage(class: FailureClass) -> Option<DeviceReport> {
    match class {
        FailureClass::Uncertain => Some(DeviceReport::Uncertain),
        FailureClass::Final => Some(DeviceReport::Unmounted),
        FailureClass::Transient => None,
    }
}

/// Returns the device report for a call that failed to stage a volume that was staged before.
pub(super) fn after_restage(class: FailureClass) -> Option<DeviceReport> {
    match class {
        // The driver was not asked.
        FailureClass::Transient => None,
        FailureClass::Final | FailureClass::Uncertain => Some(DeviceReport::Uncertain),
    }
}

/// Returns whether the mount shows the device's whole file system, writable and without id mapping.
fn shows_all_of(mount: &MountInfo, device: &str) -> bool {
    let plain = |option: &String| option != "idmapped";
    !mount.read_only && is_of_device(mount) && mount.source == *device && mount.options.iter().all(plain)
}

/// Returns whether the mount shows a block device's whole file system. Then every other mount of
/// that device refers to the same volume.
fn is_of_device(mount: &MountInfo) -> bool {
    mount.root == Path::new("/") && Path::new(&mount.source).starts_with("/dev")
}
