//! A volume goes up and down, rung by rung, as the daemon's engine takes it.

use std::sync::{Arc, PoisonError};

use volhost_kernel::KernelError;
use volhost_model::Pod;

use super::{Bench, ROOT};
use crate::ladder::{Ladder, Rung};
use crate::storage;
use crate::verdict::{Called, Verdict, fail};
use crate::watch::Plan;

impl Bench {
    /// Takes the volume up to a rung from the one below it.
    pub(crate) fn up(&self, ladder: &Ladder, rung: Rung, pod: &Arc<Pod>, plan: Plan) -> Verdict<Called> {
        let spec = &ladder.spec;
        if rung == Rung::Attach {
            let called = self.watched(plan, Some(ladder), |call| self.plugin.attach(call, spec));
            if let Ok(attached_as) = &called.result {
                *self.attached.lock().unwrap_or_else(PoisonError::into_inner) = Some(attached_as.clone());
            }
            return Ok(Called { result: called.result.map(|_| ()), calls: called.calls, lines: called.lines });
        }
        let attached = self.attached(ladder)?;
        let attached = attached.as_ref();
        Ok(match rung {
            Rung::Node => {
                let target = self.node_target(ladder)?;
                self.watched(plan, Some(ladder), |call| self.plugin.stage(call, spec, attached, target).map(|_| ()))
            }
            Rung::Device => {
                self.watched(plan, Some(ladder), |call| self.plugin.stage_device(call, spec, attached).map(|_| ()))
            }
            Rung::PodDevice => {
                let device = self.device(ladder)?.or_fail("stage-device of a device that is ready")?;
                self.watched(plan, Some(ladder), |call| {
                    self.plugin.map_device(call, spec, pod, device.as_ref()).map(|_| ())
                })
            }
            Rung::Pod | Rung::Attach => {
                let target = self.pod_target(ladder, pod)?;
                self.watched(plan, Some(ladder), |call| self.plugin.publish(call, spec, pod, target).map(|_| ()))
            }
        })
    }

    /// Takes the volume down from a rung.
    pub(crate) fn down(&self, ladder: &Ladder, rung: Rung, pod: &Arc<Pod>, plan: Plan) -> Verdict<Called> {
        let name = ladder.name.as_str();
        let called = match rung {
            Rung::Attach => self.watched(plan, Some(ladder), |call| self.plugin.detach(call, name)),
            Rung::Node => {
                let target = self.node_target(ladder)?;
                self.watched(plan, Some(ladder), |call| self.plugin.unstage(call, name, target))
            }
            Rung::Device => self.watched(plan, Some(ladder), |call| self.plugin.unstage_device(call, name)),
            Rung::PodDevice => self.watched(plan, Some(ladder), |call| self.plugin.unmap_device(call, name, &pod.uid)),
            Rung::Pod => {
                let target = self.pod_target(ladder, pod)?;
                self.watched(plan, Some(ladder), |call| self.plugin.unpublish(call, target))
            }
        };
        if called.result.is_ok() {
            let removed = |error: KernelError| fail("removed what the volume keeps", "ok", error.to_string());
            match rung {
                Rung::Node => self.node_note(ladder).remove(&*self.kernel).or_else(removed)?,
                Rung::Attach => *self.attached.lock().unwrap_or_else(PoisonError::into_inner) = None,
                Rung::Pod => self.private_folder(ladder, pod).remove(&*self.kernel).or_else(removed)?,
                _ => {}
            }
        }
        self.remove_empty_folders(ladder, pod);
        Ok(called)
    }

    /// Takes the volume up to the rung below this one.
    pub(crate) fn climb_below(&self, ladder: &Ladder, rung: Rung, pod: &Arc<Pod>) -> Verdict {
        for lower in ladder.below(rung) {
            self.up(ladder, lower, pod, Plan::Watch)?.or_fail(lower.up())?;
        }
        Ok(())
    }

    /// Takes the volume all the way up.
    pub(crate) fn climb(&self, ladder: &Ladder, pod: &Arc<Pod>) -> Verdict {
        for rung in &ladder.rungs {
            self.up(ladder, *rung, pod, Plan::Watch)?.or_fail(rung.up())?;
        }
        Ok(())
    }

    /// Takes the volume all the way down. What is down already is taken down once more, which the contract allows.
    pub(crate) fn descend(&self, ladder: &Ladder, pod: &Arc<Pod>) -> Verdict {
        for rung in ladder.rungs.iter().rev() {
            self.down(ladder, *rung, pod, Plan::Watch)?.or_fail(rung.down())?;
        }
        Ok(())
    }

    /// Takes the volume down, makes its storage anew, and takes it up to the rung below this one.
    pub(crate) fn fresh(&self, ladder: &Ladder, rung: Rung, pod: &Arc<Pod>) -> Verdict {
        self.descend(ladder, pod)?;
        self.make_storage_anew()?;
        self.climb_below(ladder, rung, pod)
    }

    /// Makes the volume's storage anew. Nothing of the volume may stand.
    pub(crate) fn make_storage_anew(&self) -> Verdict {
        storage::make_anew(&self.kernel, &self.scratch, ROOT, &self.case.files)
            .or_else(|why| fail("made the volume's storage anew", "ok", why))
    }
}
