//! Letting a volume grow to the size that its PersistentVolume asks for: while it is used, and while it is mounted. A plugin is asked
//! only when the size was raised ([`super::volume_sizes`]).

use std::sync::Arc;

use tracing::{instrument, warn};
use volhost_core::{Operation, OperationKind};
use volhost_kernel::Entry;
use volhost_model::view::EventKind;
use volhost_model::{Failure, FailureClass};
use volhost_runtime::{Attachment, Call, CallError, Capability, ErrorCase, Plugin, Target};

use super::layout;
use super::volume_ops::{Findings, VolumeOps, kernel_failure};
use super::volume_sizes::Refused;

/// The step, as the kubelet's messages name it.
const STEP: &str = "NodeExpandVolume";
/// The reason of an event on a volume that does not grow.
const RESIZE_FAILED: &str = "VolumeResizeFailed";

/// What users are told of a size that a volume can never have.
fn for_good(why: &str) -> String {
    format!("{why}; it is not tried again before spec.capacity.storage of the PersistentVolume changes")
}

fn keeps_its_size(why: &str) -> String {
    format!("the volume is mounted with the size it has: {why}")
}

impl VolumeOps {
    /// Grows a volume that pods use.
    pub(super) fn expand(
        &self,
        operation: &Operation,
        call: &Call,
        to: u64,
        found: &mut Findings,
    ) -> Result<(), Failure> {
        let known = self.volume_sizes.of(&operation.volume);
        if let Some(refused) = known.as_ref().and_then(|known| known.refused.as_ref()).filter(|one| one.bytes == to) {
            found.refused_size = Some(to);
            return Err(Failure::new(FailureClass::Final, STEP, for_good(&refused.why)));
        }
        // A restarted host knows the size that the volume was mounted with, not what it has grown to since.
        if let Some(known) = known.as_ref().filter(|known| known.bytes >= to) {
            found.size = Some(known.bytes);
            return Ok(());
        }
        let plugin = self.plugin_for_set_up(operation, STEP)?;
        let attached = self.attachment(operation, call, &plugin, "NodeExpandVolume.WaitForAttach")?;
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

    /// Brings a volume that is just mounted to its size, if that was raised since the volume was used here last. What cannot grow is
    /// mounted all the same, with the size it has; what failed for now is repeated by itself.
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
        let noted = || self.volume_sizes.of(&operation.volume);
        let known = noted().filter(|known| known.bytes <= to || is_refresh).or_else(|| {
            // Never used here, or another volume of this name: it is as large as its claim says, else
            // as its PersistentVolume says.
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

    /// Takes a refusal to grow as the kubelet does: what is infeasible is never asked for again, and what cannot be while the volume is
    /// in use not before it is mounted again. Returns what users are told of it; none for a failure that is repeated.
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
                    self.note_size(operation, bytes, Some(Refused { bytes: to, why: error.message() }));
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

    fn note_size(&self, operation: &Operation, bytes: u64, refused: Option<Refused>) {
        let name = operation.spec.as_ref().and_then(|spec| spec.persistent_volume.as_ref()).map(|pv| pv.name.as_str());
        if let Some(name) = name {
            self.volume_sizes.note(&operation.volume, name, bytes, refused);
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
        let call = &if spec.is_block() { self.about_device(operation, call) } else { call.clone() };
        let outcome = plugin.expand(call, spec, attached, target, to);
        self.note_conduct(operation, call, outcome.as_ref().err());
        Ok(outcome)
    }

    /// Whether a mount stands at the node's place; a driver outside may keep a folder there.
    fn has_node_mount(&self, operation: &Operation) -> Result<bool, Failure> {
        let Some(place) = self.staging_mount(operation)? else { return Ok(false) };
        let entry = self.kernel.entry(&place.parent, &place.name);
        let entry = entry.map_err(|error| kernel_failure(STEP, FailureClass::Transient, &error))?;
        Ok(matches!(entry, Entry::Mount(_)))
    }

    /// The node's mount of the volume if it has one, else the pod's.
    fn mounted_target(&self, operation: &Operation) -> Result<Option<Target>, Failure> {
        let on_node = operation.stageable && (operation.pod_uid.is_none() || self.has_node_mount(operation)?);
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
            staging_mount: self.staging_mount(operation)?,
            private: operation.pod_uid.as_ref().map(|pod| self.private_folder(operation, pod)),
            sharers: None,
            needed: Vec::new(),
        }))
    }
}
