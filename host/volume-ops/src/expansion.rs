//! Growing a volume to the size that its PersistentVolume asks for: while pods use it, and while it
//! is published. The plugin is called only when the size was raised ([`super::volume_sizes`]).

use std::sync::Arc;

use tracing::{instrument, warn};
use volhost_core::{Operation, OperationKind};
use volhost_kernel::{Kernel, KernelError};
use volhost_model::view::EventKind;
use volhost_model::{Failure, FailureClass};
use volhost_runtime::{Attachment, Call, CallError, Capability, ErrorCase, Plugin, Target};

use super::block_mapping::BlockMapping;
use super::failures::kernel_failure;
use super::findings::Findings;
use super::node_folders::{NodeFolders, VolumeRef};
use super::plugin_calls::PluginCalls;
use super::steps::Steps;
use super::volume_sizes::{RefusedSize, VolumeSizes};

/// The step, as the kubelet's messages name it.
const STEP: &str = "NodeExpandVolume";
/// The reason of an event on a volume that does not grow.
const RESIZE_FAILED: &str = "VolumeResizeFailed";

/// Describes a size that the volume can never have.
fn for_good(why: &str) -> String {
    format!("{why}; it is not tried again before spec.capacity.storage of the PersistentVolume changes")
}

fn keeps_its_size(why: &str) -> String {
    format!("the volume is mounted with the size it has: {why}")
}

/// Grows volumes.
#[derive(Debug)]
pub(super) struct Expansion {
    folders: NodeFolders,
    plugins: PluginCalls,
    sizes: Arc<VolumeSizes>,
    blocks: Arc<BlockMapping>,
}

impl Expansion {
    pub(super) fn new(
        folders: NodeFolders,
        plugins: PluginCalls,
        sizes: Arc<VolumeSizes>,
        blocks: Arc<BlockMapping>,
    ) -> Self {
        Self { folders, plugins, sizes, blocks }
    }

    /// Grows a volume that pods use. `attachment` finds the device of an attached volume.
    pub(super) fn expand(
        &self,
        operation: &Operation,
        call: &Call,
        to: u64,
        found: &mut Findings,
        attachment: impl FnOnce(&Arc<Plugin>) -> Result<Option<Attachment>, Failure>,
    ) -> Result<(), Failure> {
        let known = self.sizes.of(&operation.volume);
        if let Some(refused) = known.as_ref().and_then(|known| known.refused.as_ref()).filter(|one| one.bytes == to) {
            found.refused_size = Some(to);
            return Err(Failure::new(FailureClass::Final, STEP, for_good(&refused.why)));
        }
        // A restarted host knows the size that the volume was mounted with, not what it has grown
        // to since.
        if let Some(known) = known.as_ref().filter(|known| known.bytes >= to) {
            found.size = Some(known.bytes);
            return Ok(());
        }
        let plugin = self.plugins.ready(operation, STEP)?;
        let attached = attachment(&plugin)?;
        match self.grow(operation, call, &plugin, attached.as_ref(), to)? {
            Ok(size) => {
                found.size = Some(size);
                self.note_size(operation, size.max(to), None);
                Ok(())
            }
            Err(error) => {
                let message = self.refused(operation, &error, known.map(|known| known.bytes), to, found);
                Err(Failure::new(error.class(), STEP, message.unwrap_or_else(|| error.message())))
            }
        }
    }

    /// Grows a volume that was just published, if its size was raised since it was last used on
    /// this node. A volume that cannot grow is used with the size it has. The core repeats a growth
    /// that failed for now.
    #[instrument(name = "MountVolume.Expand", level = "debug", skip_all)]
    pub(super) fn expand_while_mounting(
        &self,
        operation: &Operation,
        call: &Call,
        plugin: &Arc<Plugin>,
        attached: Option<&Attachment>,
        found: &mut Findings,
    ) {
        let Some(spec) = operation.spec.as_ref().filter(|spec| !spec.read_only) else { return };
        let capacity = spec.persistent_volume.as_ref().and_then(|pv| pv.capacity);
        let Some(to) = capacity.filter(|_| plugin.exports(Capability::Expander)) else { return };
        let is_refresh = matches!(operation.kind, OperationKind::Mount { remount: true, .. });
        let noted = || self.sizes.of(&operation.volume);
        let known = noted().filter(|known| known.bytes <= to || is_refresh).or_else(|| {
            // Never used on this node, or another volume of this name: it is as large as its claim
            // says, else as its PersistentVolume says.
            let said = spec.persistent_volume.as_ref().and_then(|pv| pv.claim_capacity);
            self.note_size(operation, said.map_or(to, |said| said.min(to)), None);
            noted()
        });
        let Some(known) = known else { return };
        found.size = Some(known.bytes);
        if known.bytes >= to || is_refresh {
            return;
        }
        if let Some(refused) = known.refused.as_ref().filter(|refused| refused.bytes == to) {
            found.refused_size = Some(to);
            call.sink().event(EventKind::Warning, RESIZE_FAILED, &keeps_its_size(&for_good(&refused.why)));
            return;
        }
        match self.grow(operation, call, plugin, attached, to) {
            Ok(Ok(size)) => {
                found.size = Some(size.max(to));
                self.note_size(operation, size.max(to), None);
            }
            Ok(Err(error)) => match self.refused(operation, &error, Some(known.bytes), to, found) {
                Some(why) => call.sink().event(EventKind::Warning, RESIZE_FAILED, &keeps_its_size(&why)),
                None => warn!(volume = %operation.volume, %error, "the volume is mounted before it has grown"),
            },
            Err(failure) => warn!(volume = %operation.volume, %failure, "the volume is mounted before it has grown"),
        }
    }

    /// Treats a refusal to grow as the kubelet does. An infeasible size is never asked for again. A
    /// size that the volume cannot have while it is in use is not asked for before it is published
    /// again. Returns the message for the user; none for a failure that is repeated.
    fn refused(
        &self,
        operation: &Operation,
        error: &CallError,
        bytes: Option<u64>,
        to: u64,
        found: &mut Findings,
    ) -> Option<String> {
        let CallError::Plugin(said) = error else { return None };
        match said.case {
            ErrorCase::InvalidArgument => {
                if let Some(bytes) = bytes {
                    self.note_size(operation, bytes, Some(RefusedSize { bytes: to, why: error.message() }));
                }
                found.refused_size = Some(to);
                Some(for_good(&error.message()))
            }
            ErrorCase::Precondition | ErrorCase::Unsupported => {
                found.refused_size = Some(to);
                Some(format!("{}; it is tried again when the volume is mounted for another pod", error.message()))
            }
            _ => None,
        }
    }

    fn note_size(&self, operation: &Operation, bytes: u64, refused: Option<RefusedSize>) {
        let name = operation.spec.as_ref().and_then(|spec| spec.persistent_volume.as_ref()).map(|pv| pv.name.as_str());
        if let Some(name) = name {
            self.sizes.note(&operation.volume, name, bytes, refused);
        }
    }

    fn grow(
        &self,
        operation: &Operation,
        call: &Call,
        plugin: &Arc<Plugin>,
        attached: Option<&Attachment>,
        to: u64,
    ) -> Result<Result<u64, CallError>, Failure> {
        let Some(spec) = &operation.spec else {
            return Err(Failure::new(FailureClass::Transient, STEP, "what the volume is, is not known"));
        };
        let target = if spec.is_block() { None } else { self.mounted_target(operation)? };
        let call = &if spec.is_block() { self.blocks.with_device_places(operation, call) } else { call.clone() };
        let outcome = Steps::new(self.kernel(), plugin, call).expand(spec, attached, target, to);
        self.plugins.note(operation, call, outcome.as_ref().err());
        Ok(outcome)
    }

    fn kernel(&self) -> &dyn Kernel {
        self.folders.kernel().as_ref()
    }

    /// Returns the staging mount if there is one, else the pod's target. An external driver may
    /// keep a folder where the volume would be staged.
    fn mounted_target(&self, operation: &Operation) -> Result<Option<Target>, Failure> {
        let failed = |error: KernelError| kernel_failure(STEP, FailureClass::Transient, &error);
        let volume = VolumeRef::of(operation);
        if operation.stageable
            && let Some(place) = self.folders.staging(volume).map_err(failed)?
            && (operation.pod_uid.is_none() || place.is_mounted(self.kernel()).map_err(failed)?)
        {
            return Ok(Some(place.target()));
        }
        let Some(pod) = &operation.pod_uid else { return Ok(None) };
        let folder = self.folders.publish_folder(&operation.plugin, &operation.spec_name, pod).map_err(failed)?;
        let Some(folder) = folder else { return Ok(None) };
        let place = self.folders.publish(volume, pod, folder, Vec::new()).map_err(failed)?;
        Ok(Some(place.target()))
    }
}
