//! What every step guarantees: repeat, undo, and both after a crash at every host call.

use std::sync::Arc;

use volhost_kernel::MountId;
use volhost_model::Pod;

use crate::lifecycle::{Lifecycle, LifecycleStep};
use crate::look::{NodeSnapshot, TargetView};
use crate::test_node::TestNode;
use crate::verdict::{Verdict, fail};
use crate::watch::HostCall;
use crate::watch::HostCallPlan;

/// A step that was taken and undone without a disturbance.
pub(super) struct UndisturbedStep {
    pub(super) lifecycle: Lifecycle,
    pub(super) step: LifecycleStep,
    pub(super) pod: Arc<Pod>,
    /// What was at the target.
    target: Option<TargetView>,
    /// The host calls of the step.
    pub(super) up: Vec<HostCall>,
    /// The host calls of its undo.
    pub(super) down: Vec<HostCall>,
    /// The node before, on the step below.
    before: NodeSnapshot,
    /// The node after.
    after: NodeSnapshot,
}

impl UndisturbedStep {
    pub(super) fn take(test_node: &TestNode, step: LifecycleStep) -> Verdict<Self> {
        let (lifecycle, pod) = (test_node.lifecycle_to(step)?, test_node.pod("a")?);
        test_node.fresh(&lifecycle, step, &pod)?;
        let before = test_node.snapshot()?;
        let called = test_node.advance(&lifecycle, step, &pod, HostCallPlan::Watch)?;
        let up = called.calls.clone();
        called.or_fail(step.up())?;
        let target = test_node.target(&lifecycle, step, &pod)?.map(|(found, _)| found);
        let called = test_node.roll_back(&lifecycle, step, &pod, HostCallPlan::Watch)?;
        let down = called.calls.clone();
        called.or_fail(step.down())?;
        if test_node.is_up(&lifecycle, step, &pod)? == Some(true) {
            return fail(step.down(), "the volume is not up any more", "it is");
        }
        let after = test_node.snapshot()?;
        Ok(Self { lifecycle, step, pod, target, up, down, before, after })
    }

    /// The volume on the step below, after whatever was tried before. Where storage is made use of
    /// for the first time, it is made anew.
    pub(super) fn begin(&self, test_node: &TestNode) -> Verdict {
        match self.step {
            LifecycleStep::Attach | LifecycleStep::Stage => test_node.fresh(&self.lifecycle, self.step, &self.pod),
            LifecycleStep::Publish | LifecycleStep::StageDevice | LifecycleStep::MapDevice => self
                .go_down(test_node, HostCallPlan::Watch)?
                .or_fail(&format!("{} after what was tried before", self.step.down())),
        }
    }

    pub(super) fn go_up(&self, test_node: &TestNode, plan: HostCallPlan) -> Verdict<crate::verdict::CallResult> {
        test_node.advance(&self.lifecycle, self.step, &self.pod, plan)
    }

    pub(super) fn go_down(&self, test_node: &TestNode, plan: HostCallPlan) -> Verdict<crate::verdict::CallResult> {
        test_node.roll_back(&self.lifecycle, self.step, &self.pod, plan)
    }

    /// The volume is up, as it was the first time. Returns the ids of its mounts.
    pub(super) fn check_up(&self, test_node: &TestNode, did: &str) -> Verdict<Vec<MountId>> {
        if test_node.is_up(&self.lifecycle, self.step, &self.pod)? == Some(false) {
            return fail(did, "the volume is up", "it is not");
        }
        match (&self.target, test_node.target(&self.lifecycle, self.step, &self.pod)?) {
            (Some(first), Some((now, mounts))) => match first.difference(&now) {
                Some(difference) => fail(did, "the volume as after an undisturbed call", difference),
                None if mounts.len() > 1 => fail(did, "one mount", format!("{} on one another", mounts.len())),
                None => Ok(mounts),
            },
            _ => Ok(Vec::new()),
        }
    }

    /// The volume is not up, and nothing is left over.
    pub(super) fn check_down(&self, test_node: &TestNode, did: &str) -> Verdict {
        if test_node.is_up(&self.lifecycle, self.step, &self.pod)? == Some(true) {
            return fail(did, "the volume is not up any more", "it is");
        }
        match self.after.left_over(&test_node.snapshot()?, &self.before) {
            Some(what) => fail(did, "the node as after bringing the volume up and down undisturbed", what),
            None => Ok(()),
        }
    }
}

/// `publish, ended at its host call 3 of 5, mount-target.attach`.
fn ended(function: &str, calls: &[HostCall], at: usize) -> String {
    let name = calls.get(at).map_or("", |call| call.name.as_str());
    format!("{function}, ended where its host call {} of {} would begin, {name}", at + 1, calls.len())
}

/// M2: a second call succeeds and changes nothing.
pub(super) fn up_twice(test_node: &TestNode, step: LifecycleStep) -> Verdict {
    let reference = UndisturbedStep::take(test_node, step)?;
    reference.go_up(test_node, HostCallPlan::Watch)?.or_fail(step.up())?;
    let first = reference.check_up(test_node, step.up())?;
    let attached_as = test_node.attached_as();
    let did = format!("{} on a volume that is up", step.up());
    for _ in 0..2 {
        reference.go_up(test_node, HostCallPlan::Watch)?.or_fail(&did)?;
        let again = reference.check_up(test_node, &did)?;
        if again != first {
            return fail(did, "the mount from before", "another mount in its place");
        }
        if test_node.attached_as() != attached_as {
            return fail(did, format!("{attached_as:?} again"), format!("{:?}", test_node.attached_as()));
        }
    }
    reference.go_down(test_node, HostCallPlan::Watch)?.or_fail(step.down())?;
    reference.check_down(test_node, step.down())
}

/// M4: a second call succeeds.
pub(super) fn down_twice(test_node: &TestNode, step: LifecycleStep) -> Verdict {
    let reference = UndisturbedStep::take(test_node, step)?;
    let did = format!("{} on a volume that is down", step.down());
    for _ in 0..2 {
        reference.go_down(test_node, HostCallPlan::Watch)?.or_fail(&did)?;
        reference.check_down(test_node, &did)?;
    }
    Ok(())
}

/// M4: a volume that was never up is down.
pub(super) fn down_never_taken(test_node: &TestNode, step: LifecycleStep) -> Verdict {
    let (lifecycle, pod) = (test_node.lifecycle_to(step)?, test_node.pod("a")?);
    test_node.make_storage_anew()?;
    let before = test_node.snapshot()?;
    let did = format!("{} on a volume that was never up", step.down());
    test_node.roll_back(&lifecycle, step, &pod, HostCallPlan::Watch)?.or_fail(&did)?;
    match before.left_over(&test_node.snapshot()?, &before) {
        Some(what) => fail(did, "nothing on the node changes", what),
        None => Ok(()),
    }
}

/// M5: up again after down.
pub(super) fn up_after_down(test_node: &TestNode, step: LifecycleStep) -> Verdict {
    let reference = UndisturbedStep::take(test_node, step)?;
    let did = format!("{} after {}", step.up(), step.down());
    reference.go_up(test_node, HostCallPlan::Watch)?.or_fail(&did)?;
    reference.check_up(test_node, &did)?;
    reference.go_down(test_node, HostCallPlan::Watch)?.or_fail(step.down())?;
    reference.check_down(test_node, step.down())
}

/// M16: the same host calls for every pod.
pub(super) fn same_calls(test_node: &TestNode, step: LifecycleStep) -> Verdict {
    let lifecycle = test_node.lifecycle_to(step)?;
    let mut seen: Option<Vec<HostCall>> = None;
    for name in ["a", "b", "a"] {
        let pod = test_node.pod(name)?;
        test_node.fresh(&lifecycle, step, &pod)?;
        let called = test_node.advance(&lifecycle, step, &pod, HostCallPlan::Watch)?;
        let calls = called.calls.clone();
        called.or_fail(step.up())?;
        test_node.bring_down(&lifecycle, &pod)?;
        let before = seen.get_or_insert_with(|| calls.clone());
        if *before != calls {
            let words = |calls: &[HostCall]| calls.iter().map(|call| call.name.as_str()).collect::<Vec<_>>().join(", ");
            return fail(format!("{} for one pod and another", step.up()), words(before), words(&calls));
        }
    }
    Ok(())
}

/// M15: bringing the volume up and down for a second pod leaves nothing more than for the first.
pub(super) fn leaves_nothing(test_node: &TestNode, step: LifecycleStep) -> Verdict {
    let lifecycle = test_node.lifecycle_to(step)?;
    let (first, second) = (test_node.pod("a")?, test_node.pod("b")?);
    let untouched = test_node.snapshot()?;
    test_node.bring_up(&lifecycle, &first)?;
    test_node.bring_down(&lifecycle, &first)?;
    let after_one = test_node.snapshot()?;
    for _ in 0..2 {
        test_node.bring_up(&lifecycle, &second)?;
        test_node.bring_down(&lifecycle, &second)?;
    }
    // The first pod has to leave no session either.
    match after_one.with_targets_of(&untouched).left_over(&test_node.snapshot()?, &untouched) {
        Some(what) => fail("bringing the volume up and down, twice for another pod", "nothing more on the node", what),
        None => Ok(()),
    }
}

/// M7: whatever host call it was ended at, a repeat comes to the same.
pub(super) fn up_crash_then_repeat(test_node: &TestNode, step: LifecycleStep) -> Verdict {
    let reference = UndisturbedStep::take(test_node, step)?;
    for at in 0..reference.up.len() {
        reference.begin(test_node)?;
        let _ = reference.go_up(test_node, HostCallPlan::EndAt(at))?;
        let did = format!("{}; then repeated", ended(step.up(), &reference.up, at));
        reference.go_up(test_node, HostCallPlan::Watch)?.or_fail(&did)?;
        reference.check_up(test_node, &did)?;
        let did = format!("{did}; then {}", step.down());
        reference.go_down(test_node, HostCallPlan::Watch)?.or_fail(&did)?;
        reference.check_down(test_node, &did)?;
    }
    Ok(())
}

/// M8: whatever host call it was ended at, the undo takes it back.
pub(super) fn up_crash_then_undo(test_node: &TestNode, step: LifecycleStep) -> Verdict {
    let reference = UndisturbedStep::take(test_node, step)?;
    for at in 0..reference.up.len() {
        reference.begin(test_node)?;
        let _ = reference.go_up(test_node, HostCallPlan::EndAt(at))?;
        let did = format!("{}; then {}", ended(step.up(), &reference.up, at), step.down());
        reference.go_down(test_node, HostCallPlan::Watch)?.or_fail(&did)?;
        reference.check_down(test_node, &did)?;
    }
    Ok(())
}

/// M7, when the step is undone.
pub(super) fn down_crash_then_repeat(test_node: &TestNode, step: LifecycleStep) -> Verdict {
    let reference = UndisturbedStep::take(test_node, step)?;
    for at in 0..reference.down.len() {
        reference.begin(test_node)?;
        reference.go_up(test_node, HostCallPlan::Watch)?.or_fail(step.up())?;
        let _ = reference.go_down(test_node, HostCallPlan::EndAt(at))?;
        let did = format!("{}; then repeated", ended(step.down(), &reference.down, at));
        reference.go_down(test_node, HostCallPlan::Watch)?.or_fail(&did)?;
        reference.check_down(test_node, &did)?;
    }
    Ok(())
}

/// M8, when the step is undone: the volume is wanted again.
pub(super) fn down_crash_then_redo(test_node: &TestNode, step: LifecycleStep) -> Verdict {
    let reference = UndisturbedStep::take(test_node, step)?;
    for at in 0..reference.down.len() {
        reference.begin(test_node)?;
        reference.go_up(test_node, HostCallPlan::Watch)?.or_fail(step.up())?;
        let _ = reference.go_down(test_node, HostCallPlan::EndAt(at))?;
        let did = format!("{}; then {}", ended(step.down(), &reference.down, at), step.up());
        reference.go_up(test_node, HostCallPlan::Watch)?.or_fail(&did)?;
        reference.check_up(test_node, &did)?;
        reference.go_down(test_node, HostCallPlan::Watch)?.or_fail(step.down())?;
        reference.check_down(test_node, step.down())?;
    }
    Ok(())
}
