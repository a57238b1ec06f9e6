//! The calls of what a plugin need not be able to do: attach, mount for the node, map devices,
//! expand. Each is
//! [`CallError::Lacks`] when the plugin does not export it.

use std::path::PathBuf;
use std::sync::Arc;

use volhost_kernel::{BlockDevice, Entry};
use volhost_model::{Pod, PodUid, VolumeSpec};
use wasmtime::component::Resource;

use crate::call::Call;
use crate::call_error::{CallError, Function, PluginError};
use crate::handles::{AttachmentHandle, MountTarget, PodHandle, VolumeHandle};
use crate::host::State;
use crate::plugin::{Plugin, put};
use crate::sandbox::Sandbox;
use crate::target::{Attachment, Target};

/// The longest answer of `attach`, in bytes.
const ATTACHED_AS_BYTES: usize = 4096;
/// The longest name of a node, in bytes: a DNS name's length.
const NODE_BYTES: usize = 253;

/// The functions of an optional interface, or that it is lacking.
macro_rules! guest {
    ($self:ident, $sandbox:ident, $function:expr, $field:ident, $interface:literal) => {{
        let lacks = CallError::Lacks { function: $function, interface: $interface };
        let indices = $self.exports.$field.as_ref().ok_or(lacks)?;
        $sandbox.load(|store, instance| indices.load(store, instance))?
    }};
}

impl Plugin {
    /// Attaches the volume to this node; what it is attached as.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn attach(&self, call: &Call, spec: &Arc<VolumeSpec>) -> Result<String, CallError> {
        const FUNCTION: Function = Function::Attach;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, attacher, "attacher");
        let volume = put(&mut sandbox, FUNCTION, VolumeHandle(Arc::clone(spec)))?;
        let (answer, state) = sandbox.call(|store| guest.call_attach(store, Resource::new_borrow(volume.rep())))?;
        let attached_as = answer.map_err(PluginError::from)?;
        if attached_as.is_empty() || attached_as.len() > ATTACHED_AS_BYTES || attached_as.chars().any(char::is_control)
        {
            let what = format!(
                "it attached the volume as {} bytes that are not 1 to {ATTACHED_AS_BYTES} bytes of text",
                attached_as.len()
            );
            return Err(CallError::BrokeContract { function: FUNCTION, what, changed: state.changed });
        }
        Ok(attached_as)
    }

    /// Detaches the volume of this name. Not attached: done.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn detach(&self, call: &Call, volume_name: &str) -> Result<(), CallError> {
        const FUNCTION: Function = Function::Detach;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, attacher, "attacher");
        let (answer, _) = sandbox.call(|store| guest.call_detach(store, volume_name))?;
        Ok(answer.map_err(PluginError::from)?)
    }

    /// The device of an attached volume; none for storage that has none.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn wait_for_attach(
        &self,
        call: &Call,
        spec: &Arc<VolumeSpec>,
        attached: &Attachment,
    ) -> Result<Option<Arc<BlockDevice>>, CallError> {
        const FUNCTION: Function = Function::WaitForAttach;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, attacher, "attacher");
        let volume = put(&mut sandbox, FUNCTION, VolumeHandle(Arc::clone(spec)))?;
        let attachment = put(&mut sandbox, FUNCTION, AttachmentHandle(attached.clone()))?;
        let (answer, mut state) = sandbox.call(|store| {
            guest.call_wait_for_attach(
                store,
                Resource::new_borrow(volume.rep()),
                Resource::new_borrow(attachment.rep()),
            )
        })?;
        let device = answer.map_err(PluginError::from)?;
        device.map(|device| take_device(&mut state, FUNCTION, device)).transpose()
    }

    /// Which of the volumes of these names are attached, in order.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn are_attached(&self, call: &Call, names: &[String]) -> Result<Vec<bool>, CallError> {
        const FUNCTION: Function = Function::AreAttached;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, attacher, "attacher");
        let (answer, _) = sandbox.call(|store| guest.call_are_attached(store, names))?;
        let attached = answer.map_err(PluginError::from)?;
        if attached.len() != names.len() {
            let what = format!("it answered {} times for {} volumes", attached.len(), names.len());
            return Err(CallError::BrokeContract { function: FUNCTION, what, changed: false });
        }
        Ok(attached)
    }

    /// The other node that has the volume of this name, or may, if there is one.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn attached_to(&self, call: &Call, volume_name: &str) -> Result<Option<String>, CallError> {
        const FUNCTION: Function = Function::AttachedTo;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, other_nodes, "other-nodes");
        let (answer, _) = sandbox.call(|store| guest.call_attached_to(store, volume_name))?;
        let node = answer.map_err(PluginError::from)?;
        let is_name = |node: &str| !node.is_empty() && node.len() <= NODE_BYTES && !node.chars().any(char::is_control);
        if let Some(node) = node.as_deref().filter(|node| !is_name(node)) {
            let what =
                format!("it named a node with {} bytes that are not 1 to {NODE_BYTES} bytes of text", node.len());
            return Err(CallError::BrokeContract { function: FUNCTION, what, changed: false });
        }
        Ok(node)
    }

    /// Takes the volume of this name away from another node, and checks that the plugin does not
    /// find it there any more.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn detach_from(&self, call: &Call, volume_name: &str, node: &str) -> Result<(), CallError> {
        const FUNCTION: Function = Function::DetachFrom;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, other_nodes, "other-nodes");
        let (answer, _) = sandbox.call(|store| guest.call_detach_from(store, volume_name, node))?;
        answer.map_err(PluginError::from)?;
        if self.attached_to(call, volume_name)?.as_deref() == Some(node) {
            let found = format!("it still finds the volume attached to node {node}");
            return Err(CallError::Lied { function: FUNCTION, found });
        }
        Ok(())
    }

    /// Stages the volume, and checks that a mount is at the target. Returns the path of the device
    /// whose file system was mounted now, if one was.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn stage(
        &self,
        call: &Call,
        spec: &Arc<VolumeSpec>,
        attached: Option<&Attachment>,
        target: Target,
    ) -> Result<Option<PathBuf>, CallError> {
        const FUNCTION: Function = Function::Stage;
        let target = Arc::new(target);
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, stager, "stager");
        sandbox.state().selinux_label.clone_from(&spec.selinux_label);
        let volume = put(&mut sandbox, FUNCTION, VolumeHandle(Arc::clone(spec)))?;
        let attachment = put_attachment(&mut sandbox, FUNCTION, attached)?;
        let place = put(&mut sandbox, FUNCTION, MountTarget(Arc::clone(&target)))?;
        let (answer, state) = sandbox.call(|store| {
            guest.call_stage(store, Resource::new_borrow(volume.rep()), attachment, Resource::new_borrow(place.rep()))
        })?;
        answer.map_err(PluginError::from)?;
        match self.look(call, FUNCTION, &target)? {
            Entry::Mount(_) => Ok(state.mounted_device),
            Entry::Folder if state.folder_is_enough => Ok(None),
            _ => Err(CallError::Lied { function: FUNCTION, found: "no mount is at the staging target".to_owned() }),
        }
    }

    /// Takes the node's mount away, and checks that nothing is at the target.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn unstage(&self, call: &Call, volume_name: &str, target: Target) -> Result<(), CallError> {
        const FUNCTION: Function = Function::Unstage;
        let target = Arc::new(target);
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, stager, "stager");
        let place = put(&mut sandbox, FUNCTION, MountTarget(Arc::clone(&target)))?;
        let (answer, _) =
            sandbox.call(|store| guest.call_unstage(store, volume_name, Resource::new_borrow(place.rep())))?;
        answer.map_err(PluginError::from)?;
        self.check_gone(call, FUNCTION, &target)
    }

    /// Stages the volume's device; none if each pod gets a device of its own.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn stage_device(
        &self,
        call: &Call,
        spec: &Arc<VolumeSpec>,
        attached: Option<&Attachment>,
    ) -> Result<Option<Arc<BlockDevice>>, CallError> {
        const FUNCTION: Function = Function::StageDevice;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, block_mapper, "block-mapper");
        let volume = put(&mut sandbox, FUNCTION, VolumeHandle(Arc::clone(spec)))?;
        let attachment = put_attachment(&mut sandbox, FUNCTION, attached)?;
        let (answer, mut state) =
            sandbox.call(|store| guest.call_stage_device(store, Resource::new_borrow(volume.rep()), attachment))?;
        let device = answer.map_err(PluginError::from)?;
        device.map(|device| take_device(&mut state, FUNCTION, device)).transpose()
    }

    /// The device for this pod; the node's own, `device`, if the plugin has no other.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn map_device(
        &self,
        call: &Call,
        spec: &Arc<VolumeSpec>,
        pod: &Arc<Pod>,
        device: Option<&Arc<BlockDevice>>,
    ) -> Result<Arc<BlockDevice>, CallError> {
        const FUNCTION: Function = Function::MapDevice;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, block_mapper, "block-mapper");
        let volume = put(&mut sandbox, FUNCTION, VolumeHandle(Arc::clone(spec)))?;
        let pod = put(&mut sandbox, FUNCTION, PodHandle(Arc::clone(pod)))?;
        let lent = device
            .map(|device| put(&mut sandbox, FUNCTION, crate::handles::BlockDevice(Arc::clone(device))))
            .transpose()?;
        let (answer, mut state) = sandbox.call(|store| {
            guest.call_map_device(
                store,
                Resource::new_borrow(volume.rep()),
                Resource::new_borrow(pod.rep()),
                lent.map(|lent| Resource::new_borrow(lent.rep())),
            )
        })?;
        match (answer.map_err(PluginError::from)?, device) {
            (Some(own), _) => take_device(&mut state, FUNCTION, own),
            (None, Some(device)) => Ok(Arc::clone(device)),
            (None, None) => Err(CallError::BrokeContract {
                function: FUNCTION,
                what: "neither it nor stage-device handed over a device".to_owned(),
                changed: true,
            }),
        }
    }

    /// Takes back what [`Plugin::map_device`] did.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn unmap_device(&self, call: &Call, volume_name: &str, pod: &PodUid) -> Result<(), CallError> {
        const FUNCTION: Function = Function::UnmapDevice;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, block_mapper, "block-mapper");
        let (answer, _) = sandbox.call(|store| guest.call_unmap_device(store, volume_name, pod.as_str()))?;
        Ok(answer.map_err(PluginError::from)?)
    }

    /// Takes back what [`Plugin::stage_device`] did.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn unstage_device(&self, call: &Call, volume_name: &str) -> Result<(), CallError> {
        const FUNCTION: Function = Function::UnstageDevice;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, block_mapper, "block-mapper");
        let (answer, _) = sandbox.call(|store| guest.call_unstage_device(store, volume_name))?;
        Ok(answer.map_err(PluginError::from)?)
    }

    /// Grows the volume to at least `to` bytes; the size it has then. `target` is where it is
    /// mounted, none for a device.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn expand(
        &self,
        call: &Call,
        spec: &Arc<VolumeSpec>,
        attached: Option<&Attachment>,
        target: Option<Target>,
        to: u64,
    ) -> Result<u64, CallError> {
        const FUNCTION: Function = Function::Expand;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, expander, "expander");
        let volume = put(&mut sandbox, FUNCTION, VolumeHandle(Arc::clone(spec)))?;
        let attachment = put_attachment(&mut sandbox, FUNCTION, attached)?;
        let place = match target {
            Some(target) => {
                let place = put(&mut sandbox, FUNCTION, MountTarget(Arc::new(target)))?;
                Some(Resource::new_borrow(place.rep()))
            }
            None => None,
        };
        let (answer, _) = sandbox
            .call(|store| guest.call_expand(store, Resource::new_borrow(volume.rep()), attachment, place, to))?;
        let size = answer.map_err(PluginError::from)?;
        if size < to {
            let found = format!("the size it reports, {size} bytes, is less than the {to} bytes asked for");
            return Err(CallError::Lied { function: FUNCTION, found });
        }
        Ok(size)
    }
}

fn put_attachment(
    sandbox: &mut Sandbox<'_>,
    function: Function,
    attached: Option<&Attachment>,
) -> Result<Option<Resource<AttachmentHandle>>, CallError> {
    let Some(attached) = attached else {
        return Ok(None);
    };
    let handle = put(sandbox, function, AttachmentHandle(attached.clone()))?;
    Ok(Some(Resource::new_borrow(handle.rep())))
}

/// The device that a plugin handed over.
fn take_device(
    state: &mut State,
    function: Function,
    device: Resource<crate::handles::BlockDevice>,
) -> Result<Arc<BlockDevice>, CallError> {
    let changed = state.changed;
    state.table.delete(device).map(|device| device.0).map_err(|error| CallError::BrokeContract {
        function,
        what: format!("it handed over no device: {error}"),
        changed,
    })
}
