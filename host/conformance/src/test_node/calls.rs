//! Calls of the plugin's functions, each watched.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use volhost_kernel::BlockDevice;
use volhost_model::{Pod, VolumeSpec};
use volhost_runtime::{Attachment, Call, CallError, Environment, Identified, Measured, NodeFacts, PluginInfo};

use super::TestNode;
use crate::lifecycle::{Lifecycle, LifecycleStep};
use crate::verdict::{CallResult, Verdict, fail};
use crate::watch::{CallWatch, HostCallPlan};

/// How long a plugin's own code may run: the daemon's default.
const PLUGIN_TIME: Duration = Duration::from_secs(10);

impl TestNode {
    /// Creates a call that is watched so.
    fn call(&self, watch: &Arc<CallWatch>, lifecycle: Option<&Lifecycle>) -> Call {
        let environment = Environment::default()
            .with_node(Arc::new(self.case.node()))
            .with_objects(self.objects.clone())
            .with_drivers(self.services.drivers.clone())
            .with_driver_programs(self.services.programs.clone())
            .with_fuse_servers(Arc::new(self.fuse_servers.clone()))
            .with_iscsi(self.services.iscsi.clone())
            .with_fc(self.services.fc.clone())
            .with_images(self.images.clone());
        let attached_as = |attached_as| Attachment { attached_as, metadata: BTreeMap::new(), device: None };
        let call = Call::new(Arc::new(environment), PLUGIN_TIME)
            .with_sink(watch.clone())
            .with_host_calls(watch.clone())
            .with_attachment(self.attached_as().map(attached_as).as_ref());
        match lifecycle.filter(|lifecycle| lifecycle.spec.is_block()) {
            None => call,
            Some(lifecycle) => call.with_device_places(self.folders.device(lifecycle.volume()).places()),
        }
    }

    pub(super) fn watched<T>(
        &self,
        plan: HostCallPlan,
        lifecycle: Option<&Lifecycle>,
        call: impl FnOnce(&Call) -> Result<T, CallError>,
    ) -> CallResult<T> {
        let watch = Arc::new(CallWatch::new(plan));
        let result = call(&self.call(&watch, lifecycle));
        CallResult { result, calls: watch.calls(), lines: watch.lines() }
    }

    /// `describe`, on a node with these facts.
    pub(crate) fn describe(&self, node: NodeFacts) -> CallResult<PluginInfo> {
        self.watched(HostCallPlan::Watch, None, |call| self.plugin.describe(&call.clone().with_node(Arc::new(node))))
    }

    /// `identify`.
    pub(crate) fn identify(&self, spec: &Arc<VolumeSpec>) -> CallResult<Identified> {
        self.watched(HostCallPlan::Watch, None, |call| self.plugin.identify(call, spec))
    }

    /// `are-attached`.
    pub(crate) fn are_attached(&self, names: &[String]) -> CallResult<Vec<bool>> {
        self.watched(HostCallPlan::Watch, None, |call| self.plugin.are_attached(call, names))
    }

    /// `wait-for-attach`, of a volume that is attached.
    pub(crate) fn attachment(&self, lifecycle: &Lifecycle) -> Result<Option<Attachment>, CallError> {
        let Some(attached_as) = self.attached_as().filter(|_| lifecycle.has(LifecycleStep::Attach)) else {
            return Ok(None);
        };
        self.wait_for_attach(lifecycle, attached_as).result.map(Some)
    }

    /// `wait-for-attach`, of a volume that is or was attached so.
    pub(crate) fn wait_for_attach(&self, lifecycle: &Lifecycle, attached_as: String) -> CallResult<Attachment> {
        self.watched(HostCallPlan::Watch, Some(lifecycle), |call| {
            self.steps(call).wait_for_attach(&lifecycle.spec, attached_as, BTreeMap::new())
        })
    }

    /// `stage-device`, for its device; none if each pod has a device of its own.
    pub(crate) fn device(&self, lifecycle: &Lifecycle) -> Verdict<CallResult<Option<Arc<BlockDevice>>>> {
        let attached = self.attached(lifecycle)?;
        Ok(self.watched(HostCallPlan::Watch, Some(lifecycle), |call| {
            self.steps(call).stage_device(&lifecycle.spec, attached.as_ref())
        }))
    }

    /// `expand`, of a volume that is up.
    pub(crate) fn expand(
        &self,
        lifecycle: &Lifecycle,
        pod: &Pod,
        to: u64,
        plan: HostCallPlan,
    ) -> Verdict<CallResult<u64>> {
        let attached = self.attached(lifecycle)?;
        let target = match lifecycle.steps.last() {
            Some(LifecycleStep::Publish) if lifecycle.has(LifecycleStep::Stage) => {
                Some(self.staging_target(lifecycle)?)
            }
            Some(LifecycleStep::Publish) => Some(self.publish_target(lifecycle, pod)?),
            _ => None,
        };
        Ok(self.watched(plan, Some(lifecycle), |call| {
            self.steps(call).expand(&lifecycle.spec, attached.as_ref(), target, to)
        }))
    }

    /// `measure`; of a pod's mount, or without one.
    pub(crate) fn measure(&self, lifecycle: &Lifecycle, pod: Option<&Pod>) -> Verdict<CallResult<Measured>> {
        let target = pod.map(|pod| self.publish_target(lifecycle, pod)).transpose()?;
        Ok(self
            .watched(HostCallPlan::Watch, Some(lifecycle), |call| self.steps(call).measure(&lifecycle.name, target))
            .map(Option::unwrap_or_default))
    }

    /// The same, which has to be ok.
    pub(super) fn attached(&self, lifecycle: &Lifecycle) -> Verdict<Option<Attachment>> {
        let found = self.attachment(lifecycle);
        found.or_else(|error| fail("wait-for-attach of a volume that is attached", "its device", error.message()))
    }

    /// What the volume is attached as.
    pub(crate) fn attached_as(&self) -> Option<String> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
