//! The steps that bring one volume up and down: attach, stage, publish, map, expand, measure, and
//! their reverse.
//!
//! ```text
//!            attach ──> wait for the device ──> stage ─────────> publish
//!                                          └──> stage device ──> map device
//! ```
//!
//! Each step calls the plugin and then checks the result itself (rule R1). The daemon's operations,
//! the CSI driver and the conformance suite all run these steps. They differ in the places
//! ([`places`](super::places)), in their records, and in what they do after a failure.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;
use volhost_kernel::{BlockDevice, Directory, Entry, Kernel, KernelError, MountId};
use volhost_model::{FailureClass, Pod, PodUid, VolumeSpec};
use volhost_runtime::{Attachment, Call, CallError, Capability, Function, Measured, Plugin, Target};

use super::places::{PublishPlace, StagingPlace};

/// Why a step failed, and what that says of the volume's state.
#[derive(Debug, Error)]
pub enum StepError {
    /// The plugin failed.
    #[error("{}", .source.message())]
    Plugin {
        /// The plugin's error. Its own class does not take the target into account.
        #[source]
        source: Box<CallError>,
        /// What the error and the check of the target say together.
        class: FailureClass,
        /// The mount at the target is the same as before the call.
        left_mounted: bool,
    },
    /// The host failed to unmount, or could not check the target after the call.
    #[error(transparent)]
    Kernel(KernelError),
}

impl StepError {
    fn plugin(source: CallError, class: FailureClass) -> Self {
        Self::Plugin { source: Box::new(source), class, left_mounted: false }
    }

    /// Returns what the failure says of the volume's state.
    pub fn class(&self) -> FailureClass {
        match self {
            Self::Plugin { class, .. } => *class,
            Self::Kernel(_) => FailureClass::Uncertain,
        }
    }

    /// Returns the plugin's error, if the plugin failed.
    pub fn call_error(&self) -> Option<&CallError> {
        match self {
            Self::Plugin { source, .. } => Some(source),
            Self::Kernel(_) => None,
        }
    }

    /// Returns whether the mount at the target is the same as before the call.
    pub fn left_mounted(&self) -> bool {
        matches!(self, Self::Plugin { left_mounted: true, .. })
    }
}

/// The class of a failed unpublish, unstage or detach. A call that never began (a driver that
/// cannot be reached) has changed nothing. `changed`: the host itself or the plugin has unmounted
/// something.
pub(super) fn undo_class(error: &CallError, changed: bool) -> FailureClass {
    match error.class() {
        FailureClass::Transient if !changed => FailureClass::Transient,
        _ => FailureClass::Uncertain,
    }
}

/// A volume that was staged.
#[derive(Debug)]
pub struct StageOutcome {
    /// The path of its device, if the plugin names one.
    pub device: Option<PathBuf>,
    /// It is a mount; a driver may stage without one.
    pub is_mount: bool,
}

/// A volume that was published.
#[derive(Debug)]
pub struct PublishOutcome {
    /// The mount; none if it is a plain folder.
    pub mount: Option<MountId>,
    /// Beyond this many bytes the pod is notified that the volume is too large.
    pub watched_size: Option<u64>,
}

/// The steps of one plugin's volumes, in one call.
#[derive(Debug, Clone, Copy)]
pub struct Steps<'a> {
    kernel: &'a dyn Kernel,
    plugin: &'a Plugin,
    call: &'a Call,
}

impl<'a> Steps<'a> {
    /// Creates the steps that `plugin` takes in `call`.
    pub fn new(kernel: &'a dyn Kernel, plugin: &'a Plugin, call: &'a Call) -> Self {
        Self { kernel, plugin, call }
    }

    /// Attaches the volume, and checks that the plugin finds it attached; a volume without a `name`
    /// is not checked. Returns what it is attached as.
    ///
    /// # Errors
    /// [`StepError::Plugin`]; uncertain when the plugin finds the volume attached in spite of the
    /// error.
    pub fn attach(&self, spec: &Arc<VolumeSpec>, name: Option<&str>) -> Result<String, StepError> {
        let lied = || CallError::Lied {
            function: Function::Attach,
            found: "it does not find the volume attached to this node".to_owned(),
        };
        let is_attached = || name.and_then(|name| self.is_attached(name));
        match self.plugin.attach(self.call, spec) {
            // A plugin that cannot say is no proof of a lie.
            Ok(attached_as) if is_attached() != Some(false) => Ok(attached_as),
            Ok(_) => {
                let error = lied();
                let class = error.class();
                Err(StepError::plugin(error, class))
            }
            Err(error) => {
                let class = match error.class() {
                    FailureClass::Final | FailureClass::Transient if is_attached() == Some(true) => {
                        FailureClass::Uncertain
                    }
                    class => class,
                };
                Err(StepError::plugin(error, class))
            }
        }
    }

    /// Detaches the volume, and checks that the plugin no longer finds it attached.
    ///
    /// # Errors
    /// [`StepError::Plugin`].
    pub fn detach(&self, name: &str) -> Result<(), StepError> {
        let lied = || CallError::Lied {
            function: Function::Detach,
            found: "it still finds the volume attached to this node".to_owned(),
        };
        let outcome = self.plugin.detach(self.call, name);
        let outcome = outcome.and_then(|()| if self.is_attached(name) == Some(true) { Err(lied()) } else { Ok(()) });
        outcome.map_err(|error| {
            let class = undo_class(&error, false);
            StepError::plugin(error, class)
        })
    }

    /// Returns whether the plugin finds the volume attached to this node; none if it cannot say.
    pub fn is_attached(&self, name: &str) -> Option<bool> {
        match self.plugin.are_attached(self.call, &[name.to_owned()]).as_deref() {
            Ok([attached]) => Some(*attached),
            _ => None,
        }
    }

    /// Finds the device of an attached volume.
    ///
    /// # Errors
    /// The plugin's error. Nothing was staged or published, and nothing was undone.
    pub fn wait_for_attach(
        &self,
        spec: &Arc<VolumeSpec>,
        attached_as: String,
        metadata: BTreeMap<String, String>,
    ) -> Result<Attachment, CallError> {
        let mut attached = Attachment { attached_as, metadata, device: None };
        if self.plugin.exports(Capability::Attacher) {
            attached.device = self.plugin.wait_for_attach(self.call, spec, &attached)?;
        }
        Ok(attached)
    }

    /// Stages the volume. A volume that is staged already stays as it is.
    ///
    /// # Errors
    /// [`StepError::Plugin`] with the plugin's own class.
    pub fn stage(
        &self,
        spec: &Arc<VolumeSpec>,
        attached: Option<&Attachment>,
        place: &StagingPlace,
    ) -> Result<StageOutcome, StepError> {
        let target = place.target();
        let device = self.plugin.stage(self.call, spec, attached, target).map_err(|error| {
            let class = error.class();
            StepError::plugin(error, class)
        })?;
        Ok(StageOutcome { device, is_mount: place.is_mounted(self.kernel).unwrap_or(false) })
    }

    /// Unstages the volume. A plugin that stages nothing is not asked: the host unmounts.
    ///
    /// # Errors
    /// [`StepError`].
    pub fn unstage(&self, name: &str, place: &StagingPlace) -> Result<(), StepError> {
        if !self.plugin.exports(Capability::Stager) {
            return place.unmount(self.kernel).map_err(StepError::Kernel);
        }
        let is_mounted = || place.is_mounted(self.kernel).unwrap_or(false);
        let was_mounted = is_mounted();
        let target = place.target();
        self.plugin.unstage(self.call, name, target).map_err(|error| {
            // "Not begun" counts only while the kernel shows the same as before.
            let changed = was_mounted && !is_mounted();
            let class = undo_class(&error, changed);
            StepError::Plugin { source: Box::new(error), class, left_mounted: was_mounted && !changed }
        })
    }

    /// Publishes the volume for the pod, and checks the target. A volume that is published already
    /// stays as it is. `is_refresh`: it is published, and its content is refreshed.
    ///
    /// # Errors
    /// [`StepError::Plugin`]; uncertain when the target contains something in spite of the plugin's error.
    pub fn publish(
        &self,
        spec: &Arc<VolumeSpec>,
        pod: &Arc<Pod>,
        place: &PublishPlace,
        is_refresh: bool,
    ) -> Result<PublishOutcome, StepError> {
        let target = place.target();
        let refreshing = is_refresh.then(|| self.call.clone().with_refresh());
        let call = refreshing.as_ref().unwrap_or(self.call);
        let outcome = self.plugin.publish(call, spec, pod, target).map_err(|error| {
            let class = if is_refresh || self.is_free(place) { error.class() } else { FailureClass::Uncertain };
            StepError::plugin(error, class)
        })?;
        Ok(PublishOutcome { mount: outcome.mount, watched_size: outcome.watched_size })
    }

    /// Returns whether nothing is at the target, or only an empty folder that was made for the
    /// mount.
    fn is_free(&self, place: &PublishPlace) -> bool {
        match place.entry(self.kernel) {
            Ok(Entry::Absent) => true,
            Ok(Entry::Folder) => self.is_empty(&place.folder, &place.name),
            Ok(_) | Err(_) => false,
        }
    }

    fn is_empty(&self, folder: &Directory, name: &std::ffi::OsStr) -> bool {
        let names = self.kernel.walk(folder, name.as_ref()).and_then(|folder| self.kernel.names(&folder));
        names.is_ok_and(|names| names.is_empty())
    }

    /// Unpublishes the volume, and checks that nothing is at the target. A volume that is not
    /// published stays so. What the volume kept besides ([`PublishPlace::remove_private`]) stays.
    /// `changed`: the caller has unmounted a part of the volume.
    ///
    /// # Errors
    /// [`StepError`].
    pub fn unpublish(&self, place: &PublishPlace, changed: bool) -> Result<(), StepError> {
        let target = place.target();
        self.plugin.unpublish(self.call, target).map_err(|error| {
            // "Not begun" counts only while the mount exists.
            let changed = changed || !matches!(place.entry(self.kernel), Ok(Entry::Mount(_)));
            let class = undo_class(&error, changed);
            StepError::Plugin { source: Box::new(error), class, left_mounted: !changed }
        })
    }

    /// Stages the volume as a device; none if each pod gets a device of its own.
    ///
    /// # Errors
    /// The plugin's error.
    pub fn stage_device(
        &self,
        spec: &Arc<VolumeSpec>,
        attached: Option<&Attachment>,
    ) -> Result<Option<Arc<BlockDevice>>, CallError> {
        self.plugin.stage_device(self.call, spec, attached)
    }

    /// Maps the staged device for the pod. The caller shows the returned device to the pod.
    ///
    /// # Errors
    /// The plugin's error.
    pub fn map_device(
        &self,
        spec: &Arc<VolumeSpec>,
        pod: &Arc<Pod>,
        device: Option<&Arc<BlockDevice>>,
    ) -> Result<Arc<BlockDevice>, CallError> {
        self.plugin.map_device(self.call, spec, pod, device)
    }

    /// Unmaps the pod's device. A plugin without block devices is not asked.
    ///
    /// # Errors
    /// [`StepError::Plugin`].
    pub fn unmap_device(&self, name: &str, pod: &PodUid) -> Result<(), StepError> {
        if !self.plugin.exports(Capability::BlockMapper) {
            return Ok(());
        }
        let outcome = self.plugin.unmap_device(self.call, name, pod);
        outcome.map_err(|error| StepError::plugin(error, FailureClass::Uncertain))
    }

    /// Unstages the device. A plugin without block devices is not asked.
    ///
    /// # Errors
    /// [`StepError::Plugin`].
    pub fn unstage_device(&self, name: &str) -> Result<(), StepError> {
        if !self.plugin.exports(Capability::BlockMapper) {
            return Ok(());
        }
        self.plugin.unstage_device(self.call, name).map_err(|error| {
            let class = undo_class(&error, false);
            StepError::plugin(error, class)
        })
    }

    /// Grows the volume to at least `to` bytes. Returns its size.
    ///
    /// # Errors
    /// The plugin's error.
    pub fn expand(
        &self,
        spec: &Arc<VolumeSpec>,
        attached: Option<&Attachment>,
        target: Option<Target>,
        to: u64,
    ) -> Result<u64, CallError> {
        self.plugin.expand(self.call, spec, attached, target, to)
    }

    /// Asks the plugin how full the volume is; none if the plugin measures nothing.
    ///
    /// # Errors
    /// The plugin's error.
    pub fn measure(&self, name: &str, target: Option<Target>) -> Result<Option<Measured>, CallError> {
        if !self.plugin.exports(Capability::Stats) {
            return Ok(None);
        }
        self.plugin.measure(self.call, name, target).map(Some)
    }
}
