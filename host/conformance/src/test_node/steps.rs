//! Brings a volume up and down step by step, with the steps that the daemon and the CSI driver use.

use std::sync::{Arc, PoisonError};

use volhost_kernel::KernelError;
use volhost_model::Pod;
use volhost_runtime::{Call, Target};
use volhost_volume_ops::places::{PublishPlace, StagingPlace};
use volhost_volume_ops::steps::{StepError, Steps};

use super::{ROOT, TestNode};
use crate::lifecycle::{Lifecycle, LifecycleStep};
use crate::storage;
use crate::verdict::{CallResult, Verdict, fail};
use crate::watch::HostCallPlan;

impl TestNode {
    /// Takes the step. The volume is at the step before.
    pub(crate) fn advance(
        &self,
        lifecycle: &Lifecycle,
        step: LifecycleStep,
        pod: &Arc<Pod>,
        plan: HostCallPlan,
    ) -> Verdict<CallResult> {
        let spec = &lifecycle.spec;
        if step == LifecycleStep::Attach {
            let called = self.stepped(plan, lifecycle, |steps| steps.attach(spec, lifecycle.own_name()))?;
            if let Ok(attached_as) = &called.result {
                *self.attached.lock().unwrap_or_else(PoisonError::into_inner) = Some(attached_as.clone());
            }
            return Ok(called.map(drop));
        }
        let attached = self.attached(lifecycle)?;
        let attached = attached.as_ref();
        Ok(match step {
            LifecycleStep::Stage => {
                let place = self.staging(lifecycle)?;
                self.stepped(plan, lifecycle, |steps| steps.stage(spec, attached, &place))?.map(drop)
            }
            LifecycleStep::StageDevice => {
                self.watched(plan, Some(lifecycle), |call| self.steps(call).stage_device(spec, attached)).map(drop)
            }
            LifecycleStep::MapDevice => {
                let device = self.device(lifecycle)?.or_fail("stage-device of a device that is staged")?;
                self.watched(plan, Some(lifecycle), |call| self.steps(call).map_device(spec, pod, device.as_ref()))
                    .map(drop)
            }
            LifecycleStep::Publish | LifecycleStep::Attach => {
                let place = self.publish_place(lifecycle, pod)?;
                self.stepped(plan, lifecycle, |steps| steps.publish(spec, pod, &place, false))?.map(drop)
            }
        })
    }

    /// Undoes the step.
    pub(crate) fn roll_back(
        &self,
        lifecycle: &Lifecycle,
        step: LifecycleStep,
        pod: &Arc<Pod>,
        plan: HostCallPlan,
    ) -> Verdict<CallResult> {
        let name = lifecycle.name.as_str();
        let removed = |error: KernelError| fail("removed what the volume keeps", "ok", error.to_string());
        let called = match step {
            LifecycleStep::Attach => {
                let called = self.stepped(plan, lifecycle, |steps| steps.detach(name))?;
                if called.result.is_ok() {
                    *self.attached.lock().unwrap_or_else(PoisonError::into_inner) = None;
                }
                called
            }
            LifecycleStep::Stage => {
                let place = self.staging(lifecycle)?;
                let called = self.stepped(plan, lifecycle, |steps| steps.unstage(name, &place))?;
                if called.result.is_ok() {
                    place.note.remove(&*self.kernel).or_else(removed)?;
                }
                called
            }
            LifecycleStep::StageDevice => self.stepped(plan, lifecycle, |steps| steps.unstage_device(name))?,
            LifecycleStep::MapDevice => self.stepped(plan, lifecycle, |steps| steps.unmap_device(name, &pod.uid))?,
            LifecycleStep::Publish => {
                let place = self.publish_place(lifecycle, pod)?;
                let called = self.stepped(plan, lifecycle, |steps| steps.unpublish(&place, false))?;
                if called.result.is_ok() {
                    place.remove_private(&*self.kernel).or_else(removed)?;
                }
                called
            }
        };
        self.remove_empty_folders(lifecycle, pod)?;
        Ok(called)
    }

    /// Takes every step before this one.
    pub(crate) fn bring_up_below(&self, lifecycle: &Lifecycle, step: LifecycleStep, pod: &Arc<Pod>) -> Verdict {
        for lower in lifecycle.below(step) {
            self.advance(lifecycle, lower, pod, HostCallPlan::Watch)?.or_fail(lower.up())?;
        }
        Ok(())
    }

    /// Takes every step.
    pub(crate) fn bring_up(&self, lifecycle: &Lifecycle, pod: &Arc<Pod>) -> Verdict {
        for step in &lifecycle.steps {
            self.advance(lifecycle, *step, pod, HostCallPlan::Watch)?.or_fail(step.up())?;
        }
        Ok(())
    }

    /// Undoes every step. A step that was not taken is undone all the same, which the contract
    /// allows.
    pub(crate) fn bring_down(&self, lifecycle: &Lifecycle, pod: &Arc<Pod>) -> Verdict {
        for step in lifecycle.steps.iter().rev() {
            self.roll_back(lifecycle, *step, pod, HostCallPlan::Watch)?.or_fail(step.down())?;
        }
        Ok(())
    }

    /// Brings the volume down, makes its storage anew, and takes every step before this one.
    pub(crate) fn fresh(&self, lifecycle: &Lifecycle, step: LifecycleStep, pod: &Arc<Pod>) -> Verdict {
        self.bring_down(lifecycle, pod)?;
        self.make_storage_anew()?;
        self.bring_up_below(lifecycle, step, pod)
    }

    /// Makes the volume's storage anew. The volume has to be down.
    pub(crate) fn make_storage_anew(&self) -> Verdict {
        storage::make_anew(&self.kernel, &self.scratch, ROOT, &self.case.files)
            .or_else(|why| fail("made the volume's storage anew", "ok", why.to_string()))
    }

    pub(super) fn steps<'a>(&'a self, call: &'a Call) -> Steps<'a> {
        Steps::new(&*self.kernel, &self.plugin, call)
    }

    /// Takes one watched step. The host's own errors are no answer of the plugin: they end the
    /// case.
    fn stepped<T>(
        &self,
        plan: HostCallPlan,
        lifecycle: &Lifecycle,
        step: impl FnOnce(Steps<'_>) -> Result<T, StepError>,
    ) -> Verdict<CallResult<T>> {
        let mut host_error = None;
        let called = self.watched(plan, Some(lifecycle), |call| match step(self.steps(call)) {
            Ok(done) => Ok(Some(done)),
            Err(StepError::Plugin { source, .. }) => Err(*source),
            Err(StepError::Kernel(error)) => {
                host_error = Some(error);
                Ok(None)
            }
        });
        let result = match (called.result, host_error) {
            (Ok(Some(done)), _) => Ok(done),
            (Err(error), _) => Err(error),
            (Ok(None), error) => {
                let error = error.map_or_else(String::new, |error| error.to_string());
                return fail("opened and checked the volume's target", "ok", error);
            }
        };
        Ok(CallResult { result, calls: called.calls, lines: called.lines })
    }

    /// Makes the folder that the volume is staged in.
    fn staging(&self, lifecycle: &Lifecycle) -> Verdict<StagingPlace> {
        self.folders.make_staging(lifecycle.volume()).or_else(not_made)
    }

    /// Makes the folder that the volume is published in.
    pub(super) fn publish_place(&self, lifecycle: &Lifecycle, pod: &Pod) -> Verdict<PublishPlace> {
        let volume = lifecycle.volume();
        let folder = self.folders.make_publish_folder(volume, &pod.uid).or_else(not_made)?;
        self.folders.publish(volume, &pod.uid, folder, Vec::new()).or_else(not_made)
    }

    pub(super) fn publish_target(&self, lifecycle: &Lifecycle, pod: &Pod) -> Verdict<Target> {
        Ok(self.publish_place(lifecycle, pod)?.target())
    }

    pub(super) fn staging_target(&self, lifecycle: &Lifecycle) -> Verdict<Target> {
        Ok(self.staging(lifecycle)?.target())
    }

    /// Removes the empty folders above the volume's places, as the daemon does.
    fn remove_empty_folders(&self, lifecycle: &Lifecycle, pod: &Pod) -> Verdict {
        self.folders.forget_staging(lifecycle.volume());
        self.folders.device(lifecycle.volume()).forget();
        let forgotten = self.folders.forget_pod(&pod.uid);
        forgotten.map(drop).or_else(|error| fail("removed the pod's empty folders", "ok", error.to_string()))
    }
}

fn not_made<T>(error: KernelError) -> Verdict<T> {
    fail("made the volume's folder", "ok", error.to_string())
}
