//! Calls of the plugin's functions, each watched.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use volhost_kernel::BlockDevice;
use volhost_model::{Pod, VolumeSpec};
use volhost_runtime::{
    Attachment, Call, CallError, DevicePlaces, Environment, Identified, Measured, NodeFacts, PluginInfo,
};

use super::Bench;
use super::places::folder_name;
use crate::ladder::{Ladder, Rung};
use crate::verdict::{Called, Verdict, fail};
use crate::watch::{Plan, Watch};

/// How long a plugin's own code may run: the daemon's default.
const PLUGIN_TIME: Duration = Duration::from_secs(10);

impl Bench {
    /// Creates a call that is watched so.
    fn call(&self, watch: &Arc<Watch>, ladder: Option<&Ladder>) -> Call {
        let environment = Environment::default()
            .with_node(Arc::new(self.case.node()))
            .with_objects(self.objects.clone())
            .with_drivers(self.surroundings.drivers.clone())
            .with_driver_programs(self.surroundings.programs.clone())
            .with_fuse_servers(Arc::new(self.fuse_servers.clone()));
        let attached_as = |attached_as| Attachment { attached_as, metadata: BTreeMap::new(), device: None };
        let call = Call::new(Arc::new(environment), PLUGIN_TIME)
            .with_sink(watch.clone())
            .with_host_calls(watch.clone())
            .with_attachment(self.attached_as().map(attached_as).as_ref());
        match ladder.filter(|ladder| ladder.spec.is_block()) {
            None => call,
            Some(ladder) => call.with_device_places(DevicePlaces {
                root: Arc::clone(&self.root),
                folder: self.plugin_folder("driverDevices").join(folder_name(&ladder.name)),
            }),
        }
    }

    pub(super) fn watched<T>(
        &self,
        plan: Plan,
        ladder: Option<&Ladder>,
        call: impl FnOnce(&Call) -> Result<T, CallError>,
    ) -> Called<T> {
        let watch = Arc::new(Watch::new(plan));
        let result = call(&self.call(&watch, ladder));
        Called { result, calls: watch.calls(), lines: watch.lines() }
    }

    /// `describe`, on a node with these facts.
    pub(crate) fn describe(&self, node: NodeFacts) -> Called<PluginInfo> {
        self.watched(Plan::Watch, None, |call| self.plugin.describe(&call.clone().with_node(Arc::new(node))))
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

    /// `stage-device`, for its device; none if each pod has a device of its own.
    pub(crate) fn device(&self, ladder: &Ladder) -> Verdict<Called<Option<Arc<BlockDevice>>>> {
        let attached = self.attached(ladder)?;
        Ok(self
            .watched(Plan::Watch, Some(ladder), |call| self.plugin.stage_device(call, &ladder.spec, attached.as_ref())))
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
