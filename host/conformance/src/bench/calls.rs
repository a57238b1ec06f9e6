//! Calls of the plugin's functions, each watched.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use volhost_kernel::BlockDevice;
use volhost_model::{Pod, VolumeSpec};
use volhost_runtime::{
    Attachment, CallContext, CallError, DevicePlaces, Identified, KeyedObject, Measured, NodeFacts, PluginInfo,
    Progress,
};

use super::Bench;
use super::places::folder_name;
use crate::ladder::{Ladder, Rung};
use crate::verdict::{Called, Verdict, fail};
use crate::watch::{Plan, Watch};

/// How long a plugin's own code may run: the daemon's default.
const PLUGIN_TIME: Duration = Duration::from_secs(10);

impl Bench {
    /// What surrounds a call that is watched so.
    fn context(&self, watch: &Arc<Watch>, ladder: Option<&Ladder>) -> CallContext {
        CallContext {
            node: Arc::new(self.case.node()),
            objects: self.objects.clone(),
            drivers: self.surroundings.drivers.clone(),
            programs: self.surroundings.programs.clone(),
            helpers: Arc::new(self.helpers.clone()),
            sink: watch.clone(),
            deadline: PLUGIN_TIME,
            progress: Arc::new(Progress::default()),
            cancellation: Arc::default(),
            account: Arc::default(),
            device_places: ladder.filter(|ladder| ladder.spec.is_block()).map(|ladder| DevicePlaces {
                root: Arc::clone(&self.root),
                folder: self.plugin_folder("driverDevices").join(folder_name(&ladder.name)),
            }),
            attached_as: self.attached_as(),
            attachment_metadata: Default::default(),
            mount_group: None,
            host_calls: Some(watch.clone()),
            secrets: KeyedObject::default(),
            provisioning: None,
        }
    }

    pub(super) fn watched<T>(
        &self,
        plan: Plan,
        ladder: Option<&Ladder>,
        call: impl FnOnce(&CallContext) -> Result<T, CallError>,
    ) -> Called<T> {
        let watch = Arc::new(Watch::new(plan));
        let result = call(&self.context(&watch, ladder));
        Called { result, calls: watch.calls(), lines: watch.lines() }
    }

    /// `describe`, on a node with these facts.
    pub(crate) fn describe(&self, node: NodeFacts) -> Called<PluginInfo> {
        self.watched(Plan::Watch, None, |call| {
            self.plugin.describe(&CallContext { node: Arc::new(node), ..call.clone() })
        })
    }

    /// `identify`.
    pub(crate) fn identify(&self, spec: &Arc<VolumeSpec>) -> Called<Identified> {
        self.watched(Plan::Watch, None, |call| self.plugin.identify(call, spec))
    }

    /// `are-attached`.
    pub(crate) fn are_attached(&self, names: &[String]) -> Called<Vec<bool>> {
        self.watched(Plan::Watch, None, |call| self.plugin.are_attached(call, names))
    }

    /// `wait-for-attach`, of a volume that is attached.
    pub(crate) fn attachment(&self, ladder: &Ladder) -> Result<Option<Attachment>, CallError> {
        let Some(attached_as) = self.attached_as().filter(|_| ladder.has(Rung::Attach)) else { return Ok(None) };
        let mut attached = Attachment { attached_as, metadata: Default::default(), device: None };
        attached.device = self.wait_for_attach(ladder, &attached).result?;
        Ok(Some(attached))
    }

    /// `wait-for-attach`, of a volume that is or was attached so.
    pub(crate) fn wait_for_attach(&self, ladder: &Ladder, attached: &Attachment) -> Called<Option<Arc<BlockDevice>>> {
        self.watched(Plan::Watch, Some(ladder), |call| self.plugin.wait_for_attach(call, &ladder.spec, attached))
    }

    /// `set-up-device`, for its device; none if each pod has a device of its own.
    pub(crate) fn device(&self, ladder: &Ladder) -> Verdict<Called<Option<Arc<BlockDevice>>>> {
        let attached = self.attached(ladder)?;
        Ok(self.watched(Plan::Watch, Some(ladder), |call| {
            self.plugin.set_up_device(call, &ladder.spec, attached.as_ref())
        }))
    }

    /// `expand`, of a volume that is up.
    pub(crate) fn expand(&self, ladder: &Ladder, pod: &Pod, to: u64, plan: Plan) -> Verdict<Called<u64>> {
        let attached = self.attached(ladder)?;
        let target = match ladder.rungs.last() {
            Some(Rung::Pod) if ladder.has(Rung::Node) => Some(self.node_target(ladder)?),
            Some(Rung::Pod) => Some(self.pod_target(ladder, pod)?),
            _ => None,
        };
        Ok(self
            .watched(plan, Some(ladder), |call| self.plugin.expand(call, &ladder.spec, attached.as_ref(), target, to)))
    }

    /// `measure`; of a pod's mount, or without one.
    pub(crate) fn measure(&self, ladder: &Ladder, pod: Option<&Pod>) -> Verdict<Called<Measured>> {
        let target = pod.map(|pod| self.pod_target(ladder, pod)).transpose()?;
        Ok(self.watched(Plan::Watch, Some(ladder), |call| self.plugin.measure(call, &ladder.name, target)))
    }

    /// The same, which has to be ok.
    pub(super) fn attached(&self, ladder: &Ladder) -> Verdict<Option<Attachment>> {
        let found = self.attachment(ladder);
        found.or_else(|error| fail("wait-for-attach of a volume that is attached", "its device", error.message()))
    }

    /// What the volume is attached as.
    pub(crate) fn attached_as(&self) -> Option<String> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
