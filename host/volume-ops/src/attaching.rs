//! VolumeAttacher a volume to the node, and detaching it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tracing::{instrument, warn};
use volhost_core::Operation;
use volhost_kernel::Kernel;
use volhost_model::names::{PluginName, UniqueVolumeName};
use volhost_model::{Failure, FailureClass, VolumeSpec};
use volhost_runtime::{Attachment, Call, CallError, Capability, ErrorCase, Plugin, ProvisioningCall};

use super::attachment_metadata::AttachmentMetadata;
use super::device_record::DeviceRecord;
use super::device_records::DeviceRecords;
use super::failures::{kernel_failure, step_failure};
use super::findings::Findings;
use super::layout;
use super::node_folders::{NodeFolders, VolumeRef};
use super::other_node::{OtherNodes, multi_attach};
use super::plugin_calls::{PluginCalls, not_loaded};
use super::steps::{StepError, Steps};

/// The code by which a plugin says that as many volumes are attached to the node as the storage
/// allows: gRPC's.
const NO_PLACE: &str = "RESOURCE_EXHAUSTED";
/// The field of a PersistentVolume's source that refers to the secret which attaches and detaches
/// it, as Kubernetes has it.
const PUBLISH_SECRET: &str = "controllerPublishSecretRef";
/// How long a plugin's own code may take to say which of its volumes are attached.
const VERIFY_TIME: Duration = Duration::from_secs(5);

/// Attaches and detaches volumes, and finds the devices of attached ones.
#[derive(Debug)]
pub(super) struct VolumeAttacher {
    folders: NodeFolders,
    plugins: PluginCalls,
    records: DeviceRecords,
    metadata: AttachmentMetadata,
    other_nodes: OtherNodes,
}

impl VolumeAttacher {
    pub(super) fn new(
        folders: NodeFolders,
        plugins: PluginCalls,
        records: DeviceRecords,
        other_nodes: OtherNodes,
    ) -> Self {
        Self { folders, plugins, records, metadata: AttachmentMetadata::default(), other_nodes }
    }

    /// Replaces everything that controllers report about attached volumes.
    pub(super) fn set_metadata(&self, all: BTreeMap<UniqueVolumeName, BTreeMap<String, String>>) {
        self.metadata.set(all);
    }

    fn kernel(&self) -> &dyn Kernel {
        self.folders.kernel().as_ref()
    }

    /// Attaches the volume. Its record comes first: without one, a crash would leave the volume
    /// attached for ever. An attempt that certainly failed leaves no record of its own, or the next
    /// start would detach what was never attached.
    pub(super) fn attach(&self, operation: &Operation, call: &Call, found: &mut Findings) -> Result<(), Failure> {
        const STEP: &str = "AttachVolume.Attach";
        let Some(spec) = &operation.spec else {
            return Err(Failure::new(FailureClass::Transient, STEP, "what the volume is, is not known"));
        };
        let plugin = self.plugins.ready(operation, STEP)?;
        let before = self.records.read(operation);
        self.records.update(operation, &plugin, |record| record.attachable = true);
        let outcome = self.attach_recorded(operation, call, found, (spec, &plugin));
        if outcome.as_ref().is_err_and(|failure| failure.class != FailureClass::Uncertain) && before.is_none() {
            self.records.restore(operation, None);
        }
        outcome
    }

    fn attach_recorded(
        &self,
        operation: &Operation,
        call: &Call,
        found: &mut Findings,
        (spec, plugin): (&Arc<VolumeSpec>, &Arc<Plugin>),
    ) -> Result<(), Failure> {
        let name = layout::volume_name(&operation.plugin, &operation.volume);
        let attach = || {
            let outcome = Steps::new(self.kernel(), plugin, call).attach(spec, Some(name));
            self.plugins.note_step(operation, call, &outcome);
            outcome
        };
        let mut outcome = attach();
        if is_conflict(&outcome) && !spec.allows_multi_attach() {
            found.other_node = self.other_nodes.find(operation, call, plugin);
            if let Some(node) = found.other_node.clone().filter(|node| self.other_nodes.is_out_of_service(node)) {
                self.other_nodes.detach_from(operation, call, plugin, &node)?;
                found.other_node = None;
                outcome = attach();
            }
        }
        let attached_as = outcome.map_err(|error| attach_failure(spec, &error, found.other_node.as_deref()))?;
        self.records.update(operation, plugin, |record| record.attached_as = Some(attached_as.clone()));
        found.device_path = Some(attached_as);
        Ok(())
    }

    /// Asks the plugin whether the volume that a controller reports as attached is.
    pub(super) fn verify(&self, operation: &Operation, call: &Call) -> Result<(), Failure> {
        const STEP: &str = "VerifyControllerAttachedVolume";
        let plugin = self.plugins.ready(operation, STEP)?;
        if !plugin.exports(Capability::Attacher) {
            return Ok(());
        }
        let names = [layout::volume_name(&operation.plugin, &operation.volume).to_owned()];
        let outcome = plugin.are_attached(call, &names);
        self.plugins.note(operation, call, outcome.as_ref().err());
        if matches!(&outcome, Err(CallError::Plugin(said)) if said.case == ErrorCase::Unsupported) {
            // The plugin cannot say: the controller's word counts.
            return Ok(());
        }
        match outcome.map_err(|error| Failure::new(error.class(), STEP, error.message()))?.as_slice() {
            [true] => Ok(()),
            _ => Err(Failure::new(
                FailureClass::Final,
                STEP,
                "the controller reports the volume as attached to this node, but the plugin does not find it here",
            )),
        }
    }

    /// Detaches the volume, unless its device is still used: whatever writes to it would be cut
    /// off. `unstage` unstages a volume that its record calls staged.
    pub(super) fn detach(
        &self,
        operation: &Operation,
        call: &Call,
        unstage: impl FnOnce(&DeviceRecord) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        const STEP: &str = "DetachVolume.Detach";
        const VERIFY_SAFE: &str = "DetachVolume.VerifySafe";
        let record = self.records.read(operation);
        if let Some(path) = record.as_ref().and_then(|record| record.device.as_deref()) {
            check_not_in_use(self.kernel(), VERIFY_SAFE, path)?;
        }
        if let Some(record) = record.as_ref().filter(|record| record.stageable) {
            // The record of an unstage that has ended may be stale; repeating it changes nothing.
            unstage(record)?;
        }
        self.check_not_staged(operation, VERIFY_SAFE)?;
        let plugin = self.plugins.to_unstage(operation).ok_or_else(|| not_loaded(&operation.plugin, STEP))?;
        if plugin.exports(Capability::Attacher) {
            let name = layout::volume_name(&operation.plugin, &operation.volume);
            let call = &with_publish_secret(call, record.as_ref());
            let outcome = Steps::new(self.kernel(), &plugin, call).detach(name);
            self.plugins.note_step(operation, call, &outcome);
            outcome.map_err(|error| step_failure(STEP, &error))?;
        }
        if let Err(error) = self.folders.note(VolumeRef::of(operation)).remove(self.kernel()) {
            warn!(volume = %operation.volume, %error, "the plugin's note about the volume could not be removed");
        }
        self.records.detached(operation);
        Ok(())
    }

    /// Checks that nothing is mounted where the volume is staged, whatever its record says.
    fn check_not_staged(&self, operation: &Operation, step: &str) -> Result<(), Failure> {
        let failed = |error| kernel_failure(step, FailureClass::Uncertain, &error);
        let folder = self.folders.staging_folder(VolumeRef::of(operation)).map_err(failed)?;
        let Some(parent) = self.folders.open(&folder).map_err(failed)? else { return Ok(()) };
        match self.kernel().mount_at(&parent, layout::GLOBAL_MOUNT.as_ref()).map_err(failed)? {
            None => Ok(()),
            Some(mount) => Err(Failure::new(
                FailureClass::Uncertain,
                step,
                format!(
                    "{} is still mounted at {}/{}; unmount it there, and the volume is detached",
                    mount.source.to_string_lossy(),
                    folder.display(),
                    layout::GLOBAL_MOUNT
                ),
            )),
        }
    }

    /// Returns those of the plugin's volumes that it does not find attached to this node. None when
    /// the plugin is not loaded or cannot say.
    pub(super) fn not_attached(&self, plugin: &PluginName, volumes: &[UniqueVolumeName]) -> Vec<UniqueVolumeName> {
        let source = self.plugins.source();
        let Some(loaded) = source.ready(plugin).filter(|loaded| loaded.exports(Capability::Attacher)) else {
            return Vec::new();
        };
        let names: Vec<String> = volumes.iter().map(|name| layout::volume_name(plugin, name).to_owned()).collect();
        match loaded.are_attached(&source.call(VERIFY_TIME), &names) {
            Ok(attached) => {
                let missing = volumes.iter().zip(attached).filter(|(_, attached)| !attached);
                missing.map(|(name, _)| name.clone()).collect()
            }
            Err(CallError::Plugin(said)) if said.case == ErrorCase::Unsupported => Vec::new(),
            Err(error) => {
                warn!(%plugin, error = error.message(), "which of its volumes are attached could not be verified");
                Vec::new()
            }
        }
    }

    /// Returns what is known of the attached volume, its device found; none for a volume that needs
    /// no attachment.
    #[instrument(name = "WaitForAttach", level = "debug", skip_all)]
    pub(super) fn attachment(
        &self,
        operation: &Operation,
        call: &Call,
        plugin: &Arc<Plugin>,
        step: &str,
    ) -> Result<Option<Attachment>, Failure> {
        let Some(spec) = operation.spec.as_ref().filter(|_| operation.attachable) else {
            return Ok(None);
        };
        let recorded = || self.records.read(operation).and_then(|record| record.attached_as);
        let is_attacher = plugin.exports(Capability::Attacher);
        let Some(attached_as) = operation.device_path.clone().or_else(recorded) else {
            if !is_attacher {
                // It counts as attached only because its record was lost.
                return Ok(None);
            }
            return Err(Failure::new(
                FailureClass::Transient,
                step,
                "nothing says as what the volume is attached; it is attached again",
            ));
        };
        let metadata = self.metadata.of(&operation.volume);
        let outcome = Steps::new(self.kernel(), plugin, call).wait_for_attach(spec, attached_as, metadata);
        if is_attacher {
            self.plugins.note(operation, call, outcome.as_ref().err());
        }
        let attached = outcome.map_err(|error| {
            // The step changes nothing: what an earlier try has mounted may still be mounted.
            let class = match error.class() {
                FailureClass::Final => FailureClass::Transient,
                class => class,
            };
            Failure::new(class, step, error.message())
        })?;
        if let Some(device) = &attached.device {
            let path = device.path().to_string_lossy().into_owned();
            self.records.update(operation, plugin, |record| record.device = Some(path));
        }
        Ok(Some(attached))
    }
}

/// Checks that no other holder uses the device at this path. A device that is gone is not used.
pub(super) fn check_not_in_use(kernel: &dyn Kernel, step: &str, path: &str) -> Result<(), Failure> {
    let Ok(device) = kernel.open_block_device(path.as_ref()) else {
        return Ok(());
    };
    match kernel.device_in_use(&device) {
        Ok(false) => Ok(()),
        Ok(true) => Err(Failure::new(
            FailureClass::Uncertain,
            step,
            format!(
                "the device {path} is in use when it was no longer expected to be; `findmnt -S {path}` and `lsof {path}` name by whom, and it is tried again"
            ),
        )),
        Err(error) if error.kind() == volhost_kernel::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(kernel_failure(step, FailureClass::Uncertain, &error)),
    }
}

/// Returns the failure of an attach, in words for the user.
fn attach_failure(spec: &VolumeSpec, error: &StepError, other_node: Option<&str>) -> Failure {
    let message = match error.call_error() {
        Some(CallError::Plugin(said)) if said.case == ErrorCase::Other(NO_PLACE.to_owned()) => {
            format!("attach limit exceeded: the storage has no place for another volume on this node: {}", said.message)
        }
        Some(CallError::Plugin(said)) if said.case == ErrorCase::Conflict && !spec.allows_multi_attach() => {
            multi_attach(&spec.name, &said.message, other_node)
        }
        _ => error.to_string(),
    };
    Failure::new(error.class(), "AttachVolume.Attach", message)
}

/// Creates a call that detaches a volume, with the secret that the volume was attached with.
fn with_publish_secret(call: &Call, record: Option<&DeviceRecord>) -> Call {
    let spec = record.map(|record| &record.spec).filter(|spec| spec.persistent_volume.is_some());
    let part = |part: &str| spec?.parameter(&format!("{PUBLISH_SECRET}.{part}")).filter(|text| !text.is_empty());
    let Some(secret) = part("namespace").zip(part("name")) else { return call.clone() };
    let provisioning = ProvisioningCall { secret: Some(secret), ..ProvisioningCall::default() };
    call.clone().with_provisioning(provisioning)
}

/// Returns whether the plugin says that another node has the volume.
fn is_conflict<T>(outcome: &Result<T, StepError>) -> bool {
    let error = outcome.as_ref().err().and_then(StepError::call_error);
    matches!(error, Some(CallError::Plugin(said)) if said.case == ErrorCase::Conflict)
}
