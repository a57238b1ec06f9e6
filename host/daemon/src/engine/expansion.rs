//! Letting a volume grow to the size that its PersistentVolume asks for: while it is used, and while it is mounted.

use std::sync::Arc;

use tracing::{instrument, warn};
use volhost_core::Operation;
use volhost_kernel::Entry;
use volhost_model::view::EventKind;
use volhost_model::{Failure, FailureClass};
use volhost_runtime::{Attachment, CallContext, CallError, Capability, ErrorCase, Plugin, Target};

use super::layout;
use super::operation::{Findings, Workshop, kernel_failure};

/// The step, as the kubelet's messages name it.
const STEP: &str = "NodeExpandVolume";

impl Workshop {
    /// Grows a volume that pods use.
    pub(super) fn expand(
        &self,
        operation: &Operation,
        call: &CallContext,
        to: u64,
        found: &mut Findings,
    ) -> Result<(), Failure> {
        let plugin = self.plugin_for_set_up(operation, STEP)?;
        let attached = self.attachment(operation, call, &plugin, "NodeExpandVolume.WaitForAttach")?;
        let outcome = self.grow(operation, call, &plugin, attached.as_ref(), to)?;
        found.size = Some(outcome.map_err(|error| Failure::new(error.class(), STEP, error.message()))?);
        Ok(())
    }

    /// Brings a volume that is just mounted to its size. A volume that cannot grow while it is in use is mounted all the same.
    #[instrument(name = "MountVolume.Expand", level = "debug", skip_all)]
    pub(super) fn expand_while_mounting(
        &self,
        operation: &Operation,
        call: &CallContext,
        plugin: &Arc<Plugin>,
        attached: Option<&Attachment>,
        found: &mut Findings,
    ) -> Result<(), Failure> {
        let Some(spec) = operation.spec.as_ref().filter(|spec| !spec.read_only) else {
            return Ok(());
        };
        let capacity = spec.persistent_volume.as_ref().and_then(|pv| pv.capacity);
        let Some(to) = capacity.filter(|_| plugin.exports(Capability::Expander)) else {
            return Ok(());
        };
        match self.grow(operation, call, plugin, attached, to)? {
            Ok(size) => found.size = Some(size),
            Err(CallError::Plugin(error)) if matches!(error.case, ErrorCase::Precondition | ErrorCase::Unsupported) => {
                warn!(volume = %operation.volume, %error, "the volume is mounted with the size it has");
                let message = format!("the volume keeps the size it has: {error}");
                call.sink.event(EventKind::Warning, "FileSystemResizeFailed", &message);
            }
            // It stands already, as the kubelet has it too: uncertain, so that it is repeated or undone.
            Err(error) => return Err(Failure::new(FailureClass::Uncertain, STEP, error.message())),
        }
        Ok(())
    }

    fn grow(
        &self,
        operation: &Operation,
        call: &CallContext,
        plugin: &Arc<Plugin>,
        attached: Option<&Attachment>,
        to: u64,
    ) -> Result<Result<u64, CallError>, Failure> {
        let Some(spec) = &operation.spec else {
            return Err(Failure::new(FailureClass::Transient, STEP, "what the volume is, is not known"));
        };
        let target = if spec.is_block() { None } else { self.mounted_target(operation)? };
        let call = &if spec.is_block() { self.about_device(operation, call) } else { call.clone() };
        let outcome = plugin.expand(call, spec, attached, target, to);
        self.note_conduct(operation, call, outcome.as_ref().err());
        Ok(outcome)
    }

    /// Whether a mount stands at the node's place; a driver outside may keep a folder there.
    fn has_node_mount(&self, operation: &Operation) -> Result<bool, Failure> {
        let Some(place) = self.device_mount(operation)? else { return Ok(false) };
        let entry = self.kernel.entry(&place.parent, &place.name);
        let entry = entry.map_err(|error| kernel_failure(STEP, FailureClass::Transient, &error))?;
        Ok(matches!(entry, Entry::Mount(_)))
    }

    /// The node's mount of the volume if it has one, else the pod's.
    fn mounted_target(&self, operation: &Operation) -> Result<Option<Target>, Failure> {
        let on_node = operation.device_mountable && (operation.pod_uid.is_none() || self.has_node_mount(operation)?);
        let folder = match &operation.pod_uid {
            _ if on_node => layout::mount_folder(&operation.plugin, &operation.volume),
            Some(pod) => layout::plugin_folder(pod, &operation.plugin),
            None => return Ok(None),
        };
        let parent =
            self.open_if_there(&folder).map_err(|error| kernel_failure(STEP, FailureClass::Transient, &error))?;
        let Some(parent) = parent else { return Ok(None) };
        if on_node {
            return self.node_target(&parent, operation).map(Some);
        }
        let place = self.place(&parent, operation.spec_name.as_str())?;
        Ok(Some(Target {
            parent: place.parent,
            name: place.name,
            pod_uid: operation.pod_uid.clone(),
            spec_name: operation.spec_name.clone(),
            device_mount: self.device_mount(operation)?,
            private: operation.pod_uid.as_ref().map(|pod| self.private_folder(operation, pod)),
            sharers: None,
            needed: Vec::new(),
        }))
    }
}
