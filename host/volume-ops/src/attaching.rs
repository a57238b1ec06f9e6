//! Attaching a volume to the node, and detaching it.

use std::sync::Arc;
use std::time::Duration;

use tracing::{instrument, warn};
use volhost_core::Operation;
use volhost_model::names::{PluginName, UniqueVolumeName};
use volhost_model::{Failure, FailureClass, VolumeSpec};
use volhost_runtime::{Attachment, Call, CallError, Capability, ErrorCase, Function, Plugin, ProvisioningCall};

use super::device_records::DeviceRecord;
use super::elsewhere::multi_attach;
use super::layout;
use super::volume_ops::{Findings, VolumeOps, kernel_failure, not_loaded, tear_down_class};

/// The code by which a plugin says that as many volumes are attached to the node as the storage allows: gRPC's.
const NO_PLACE: &str = "RESOURCE_EXHAUSTED";
/// The field of a PersistentVolume's source that refers to the secret which attaches and detaches it, as Kubernetes has it.
const PUBLISH_SECRET: &str = "controllerPublishSecretRef";
/// How long a plugin's own code may take to say which of its volumes are attached.
const VERIFY_TIME: Duration = Duration::from_secs(5);

impl VolumeOps {
    /// Attaches the volume. Its record comes first: an attachment that nobody remembers would never be undone. An attempt that has failed
    /// for certain leaves no record of its own, else the next start would detach what was never attached.
    pub(super) fn attach(&self, operation: &Operation, call: &Call, found: &mut Findings) -> Result<(), Failure> {
        const STEP: &str = "AttachVolume.Attach";
        let Some(spec) = &operation.spec else {
            return Err(Failure::new(FailureClass::Transient, STEP, "what the volume is, is not known"));
        };
        let plugin = self.plugin_for_set_up(operation, STEP)?;
        let before = self.device_record(operation);
        self.note_device(operation, &plugin, |record| record.attachable = true);
        let outcome = self.attach_recorded(operation, call, found, (spec, &plugin));
        if outcome.as_ref().is_err_and(|failure| failure.class != FailureClass::Uncertain) && before.is_none() {
            self.restore_device_record(operation, None);
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
        const STEP: &str = "AttachVolume.Attach";
        let name = layout::volume_name(&operation.plugin, &operation.volume);
        let attach = || {
            let outcome = plugin.attach(call, spec);
            let outcome = outcome.and_then(|attached_as| attached(plugin, call, name).map(|()| attached_as));
            self.note_conduct(operation, call, outcome.as_ref().err());
            outcome
        };
        let mut outcome = attach();
        if is_conflict(&outcome) && !spec.allows_multi_attach() {
            found.elsewhere = self.node_that_has(operation, call, plugin);
            if let Some(node) = &found.elsewhere
                && self.nodes_out_of_service.contains(node)
            {
                self.take_from(operation, call, plugin, node)?;
                found.elsewhere = None;
                outcome = attach();
            }
        }
        let attached_as = outcome.map_err(|error| {
            let message = match &error {
                CallError::Plugin(said) if said.case == ErrorCase::Other(NO_PLACE.to_owned()) => {
                    format!(
                        "attach limit exceeded: the storage has no place for another volume on this node: {}",
                        said.message
                    )
                }
                CallError::Plugin(said) if said.case == ErrorCase::Conflict && !spec.allows_multi_attach() => {
                    multi_attach(&spec.name, &said.message, found.elsewhere.as_deref())
                }
                error => error.message(),
            };
            // An error is no proof that nothing was attached.
            let is_attached = || matches!(plugin.are_attached(call, &[name.to_owned()]).as_deref(), Ok([true]));
            let class = match error.class() {
                FailureClass::Final | FailureClass::Transient if is_attached() => FailureClass::Uncertain,
                class => class,
            };
            Failure::new(class, STEP, message)
        })?;
        self.note_device(operation, plugin, |record| record.attached_as = Some(attached_as.clone()));
        found.device_path = Some(attached_as);
        Ok(())
    }

    /// Asks the plugin whether the volume that a controller reports as attached is.
    pub(super) fn verify_attached(&self, operation: &Operation, call: &Call) -> Result<(), Failure> {
        const STEP: &str = "VerifyControllerAttachedVolume";
        let plugin = self.plugin_for_set_up(operation, STEP)?;
        if !plugin.exports(Capability::Attacher) {
            return Ok(());
        }
        let names = [layout::volume_name(&operation.plugin, &operation.volume).to_owned()];
        let outcome = plugin.are_attached(call, &names);
        self.note_conduct(operation, call, outcome.as_ref().err());
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

    /// Detaches the volume, unless its device is still used: what writes to it would be cut off.
    pub(super) fn detach(&self, operation: &Operation, call: &Call) -> Result<(), Failure> {
        const STEP: &str = "DetachVolume.Detach";
        let record = self.device_record(operation);
        if let Some(path) = record.as_ref().and_then(|record| record.device.as_deref()) {
            self.check_not_in_use("DetachVolume.VerifySafe", path)?;
        }
        if let Some(record) = record.as_ref().filter(|record| record.stageable) {
            // The record of an unstage that has ended may be stale; repeating it changes nothing.
            if record.spec.is_block() {
                self.unmap_device(operation, call)?;
            } else {
                self.unmount_device(operation, call)?;
            }
        }
        self.check_not_staged(operation, "DetachVolume.VerifySafe")?;
        let plugin = self.tear_down_plugin(operation, None).ok_or_else(|| not_loaded(&operation.plugin, STEP))?;
        if plugin.exports(Capability::Attacher) {
            let name = layout::volume_name(&operation.plugin, &operation.volume);
            let call = &with_publish_secret(call, record.as_ref());
            let outcome = plugin.detach(call, name).and_then(|()| detached(&plugin, call, name));
            self.note_conduct(operation, call, outcome.as_ref().err());
            outcome.map_err(|error| Failure::new(tear_down_class(&error, false), STEP, error.message()))?;
        }
        self.forget_note(operation);
        if let Err(error) = self.records.remove_device(&operation.volume) {
            warn!(volume = %operation.volume, %error, "the volume is detached, but its record could not be removed");
        }
        Ok(())
    }

    /// Nothing may be mounted at the volume's place on the node when it is detached, whatever is
    /// known of it.
    fn check_not_staged(&self, operation: &Operation, step: &str) -> Result<(), Failure> {
        let failed = |error| kernel_failure(step, FailureClass::Uncertain, &error);
        let folder = layout::mount_folder(&operation.plugin, &operation.volume);
        let Some(parent) = self.open_if_there(&folder).map_err(failed)? else { return Ok(()) };
        match self.kernel.mount_at(&parent, layout::GLOBAL_MOUNT.as_ref()).map_err(failed)? {
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

    /// Those of the plugin's volumes that it does not find attached to this node. A plugin that is not there, or cannot say, leaves all as
    /// they are.
    pub fn not_attached(&self, plugin: &PluginName, volumes: &[UniqueVolumeName]) -> Vec<UniqueVolumeName> {
        let Some(loaded) = self.plugins.ready(plugin).filter(|loaded| loaded.exports(Capability::Attacher)) else {
            return Vec::new();
        };
        let names: Vec<String> = volumes.iter().map(|name| layout::volume_name(plugin, name).to_owned()).collect();
        match loaded.are_attached(&self.plugins.call(VERIFY_TIME), &names) {
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

    /// What is known of the attached volume, its device found; none for a volume that needs no attachment.
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
        let recorded = || self.device_record(operation).and_then(|record| record.attached_as);
        let Some(attached_as) = operation.device_path.clone().or_else(recorded) else {
            if !plugin.exports(Capability::Attacher) {
                // Taken for attached only because its record was lost.
                return Ok(None);
            }
            return Err(Failure::new(
                FailureClass::Transient,
                step,
                "nothing says as what the volume is attached; it is attached again",
            ));
        };
        let metadata = self.attachment_metadata.of(&operation.volume);
        let mut attached = Attachment { attached_as, metadata, device: None };
        if plugin.exports(Capability::Attacher) {
            let outcome = plugin.wait_for_attach(call, spec, &attached);
            self.note_conduct(operation, call, outcome.as_ref().err());
            attached.device = outcome.map_err(|error| {
                // Nothing was set up and nothing taken away: what may stand since an earlier try may stand still.
                let class = match error.class() {
                    FailureClass::Final => FailureClass::Transient,
                    class => class,
                };
                Failure::new(class, step, error.message())
            })?;
        }
        if let Some(device) = &attached.device {
            let path = device.path().to_string_lossy().into_owned();
            self.note_device(operation, plugin, |record| record.device = Some(path));
        }
        Ok(Some(attached))
    }

    /// The record of the volume on the node, if there is one that can be used.
    pub(super) fn device_record(&self, operation: &Operation) -> Option<DeviceRecord> {
        self.records.read_device(&operation.volume).unwrap_or_else(|error| {
            warn!(volume = %operation.volume, %error, "what is recorded of the volume cannot be used");
            None
        })
    }

    /// Changes the record of the volume on the node, or begins it. Writes only what is new.
    pub(super) fn note_device(&self, operation: &Operation, plugin: &Plugin, change: impl FnOnce(&mut DeviceRecord)) {
        let Some(spec) = &operation.spec else { return };
        let before = self.device_record(operation);
        let mut record = before.clone().unwrap_or_else(|| {
            DeviceRecord::new(
                operation.plugin.clone(),
                plugin.info().digest.clone(),
                operation.volume.clone(),
                spec.as_ref().clone(),
            )
        });
        change(&mut record);
        if before.as_ref() == Some(&record) {
            return;
        }
        if let Err(error) = self.records.write_device(&record) {
            warn!(volume = %operation.volume, %error, "what the node has of the volume could not be recorded");
        }
    }

    /// Puts the record of the volume on the node back as it was before an attempt that changed nothing.
    pub(super) fn restore_device_record(&self, operation: &Operation, before: Option<&DeviceRecord>) {
        let restored = match before {
            Some(before) => self.records.write_device(before),
            None => self.records.remove_device(&operation.volume),
        };
        if let Err(error) = restored {
            warn!(volume = %operation.volume, %error, "the record of what the node has of the volume could not be put back");
        }
    }

    /// Whether nobody has the device at this path for itself. A device that has gone is used by nobody.
    pub(super) fn check_not_in_use(&self, step: &str, path: &str) -> Result<(), Failure> {
        let Ok(device) = self.kernel.open_block_device(path.as_ref()) else {
            return Ok(());
        };
        match self.kernel.device_in_use(&device) {
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
}

/// Creates a call that detaches a volume, with the secret that the volume was attached with.
fn with_publish_secret(call: &Call, record: Option<&DeviceRecord>) -> Call {
    let spec = record.map(|record| &record.spec).filter(|spec| spec.persistent_volume.is_some());
    let part = |part: &str| spec?.parameter(&format!("{PUBLISH_SECRET}.{part}")).filter(|text| !text.is_empty());
    let Some(secret) = part("namespace").zip(part("name")) else { return call.clone() };
    let provisioning = ProvisioningCall { secret: Some(secret), ..ProvisioningCall::default() };
    call.clone().with_provisioning(provisioning)
}

/// The plugin says that the volume is somebody else's.
fn is_conflict<T>(outcome: &Result<T, CallError>) -> bool {
    matches!(outcome, Err(CallError::Plugin(said)) if said.case == ErrorCase::Conflict)
}

/// The plugin's word against its own: what it calls attached it must find attached. That it cannot say is no proof of a lie.
fn attached(plugin: &Plugin, call: &Call, name: &str) -> Result<(), CallError> {
    match plugin.are_attached(call, &[name.to_owned()]).as_deref() {
        Ok([false]) => Err(CallError::Lied {
            function: Function::Attach,
            found: "it does not find the volume attached to this node".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// The plugin's word against its own: what it calls detached it must not find attached. That it cannot say is no proof of a lie.
fn detached(plugin: &Plugin, call: &Call, name: &str) -> Result<(), CallError> {
    match plugin.are_attached(call, &[name.to_owned()]).as_deref() {
        Ok([true]) => Err(CallError::Lied {
            function: Function::Detach,
            found: "it still finds the volume attached to this node".to_owned(),
        }),
        _ => Ok(()),
    }
}
