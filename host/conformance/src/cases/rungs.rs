//! What holds on every rung alike: repeat, undo, and both after a crash at every host call.

use std::sync::Arc;

use volhost_kernel::MountId;
use volhost_model::Pod;

use crate::bench::Bench;
use crate::ladder::{Ladder, Rung};
use crate::look::{Node, Standing};
use crate::verdict::{Verdict, fail};
use crate::watch::HostCall;
use crate::watch::Plan;

/// One way up to a rung and down again, where nothing goes wrong.
pub(super) struct Reference {
    pub(super) ladder: Ladder,
    pub(super) rung: Rung,
    pub(super) pod: Arc<Pod>,
    /// What stood.
    standing: Option<Standing>,
    /// The host calls on the way up.
    pub(super) up: Vec<HostCall>,
    /// The host calls on the way down.
    pub(super) down: Vec<HostCall>,
    /// The node before, on the rung below.
    before: Node,
    /// The node after.
    after: Node,
}

impl Reference {
    pub(super) fn take(bench: &Bench, rung: Rung) -> Verdict<Self> {
        let (ladder, pod) = (bench.ladder_to(rung)?, bench.pod("a")?);
        bench.fresh(&ladder, rung, &pod)?;
        let before = bench.node()?;
        let called = bench.up(&ladder, rung, &pod, Plan::Watch)?;
        let up = called.calls.clone();
        called.or_fail(rung.up())?;
        let standing = bench.standing(&ladder, rung, &pod)?.map(|(standing, _)| standing);
        let called = bench.down(&ladder, rung, &pod, Plan::Watch)?;
        let down = called.calls.clone();
        called.or_fail(rung.down())?;
        if bench.is_up(&ladder, rung, &pod)? == Some(true) {
            return fail(rung.down(), "the volume is not up any more", "it is");
        }
        let after = bench.node()?;
        Ok(Self { ladder, rung, pod, standing, up, down, before, after })
    }

    /// The volume on the rung below, after whatever was tried before. Where storage is made use of for the first time, it is made anew.
    pub(super) fn begin(&self, bench: &Bench) -> Verdict {
        match self.rung {
            Rung::Attach | Rung::Node => bench.fresh(&self.ladder, self.rung, &self.pod),
            Rung::Pod | Rung::Device | Rung::PodDevice => {
                self.go_down(bench, Plan::Watch)?.or_fail(&format!("{} after what was tried before", self.rung.down()))
            }
        }
    }

    pub(super) fn go_up(&self, bench: &Bench, plan: Plan) -> Verdict<crate::verdict::Called> {
        bench.up(&self.ladder, self.rung, &self.pod, plan)
    }

    pub(super) fn go_down(&self, bench: &Bench, plan: Plan) -> Verdict<crate::verdict::Called> {
        bench.down(&self.ladder, self.rung, &self.pod, plan)
    }

    /// The volume is up, as it was the first time. Returns the ids of its mounts.
    pub(super) fn check_up(&self, bench: &Bench, did: &str) -> Verdict<Vec<MountId>> {
        if bench.is_up(&self.ladder, self.rung, &self.pod)? == Some(false) {
            return fail(did, "the volume is up", "it is not");
        }
        match (&self.standing, bench.standing(&self.ladder, self.rung, &self.pod)?) {
            (Some(first), Some((now, mounts))) => match first.difference(&now) {
                Some(difference) => fail(did, "the volume as after an undisturbed call", difference),
                None if mounts.len() > 1 => fail(did, "one mount", format!("{} on one another", mounts.len())),
                None => Ok(mounts),
            },
            _ => Ok(Vec::new()),
        }
    }

    /// The volume is not up, and nothing is left over.
    pub(super) fn check_down(&self, bench: &Bench, did: &str) -> Verdict {
        if bench.is_up(&self.ladder, self.rung, &self.pod)? == Some(true) {
            return fail(did, "the volume is not up any more", "it is");
        }
        match self.after.left_over(&bench.node()?, &self.before) {
            Some(what) => fail(did, "the node as after an undisturbed way up and down", what),
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
pub(super) fn up_twice(bench: &Bench, rung: Rung) -> Verdict {
    let reference = Reference::take(bench, rung)?;
    reference.go_up(bench, Plan::Watch)?.or_fail(rung.up())?;
    let first = reference.check_up(bench, rung.up())?;
    let attached_as = bench.attached_as();
    let did = format!("{} on a volume that is up", rung.up());
    for _ in 0..2 {
        reference.go_up(bench, Plan::Watch)?.or_fail(&did)?;
        let again = reference.check_up(bench, &did)?;
        if again != first {
            return fail(did, "the mount that stood there before", "another mount in its place");
        }
        if bench.attached_as() != attached_as {
            return fail(did, format!("{attached_as:?} again"), format!("{:?}", bench.attached_as()));
        }
    }
    reference.go_down(bench, Plan::Watch)?.or_fail(rung.down())?;
    reference.check_down(bench, rung.down())
}

/// M4: a second call succeeds.
pub(super) fn down_twice(bench: &Bench, rung: Rung) -> Verdict {
    let reference = Reference::take(bench, rung)?;
    let did = format!("{} on a volume that is down", rung.down());
    for _ in 0..2 {
        reference.go_down(bench, Plan::Watch)?.or_fail(&did)?;
        reference.check_down(bench, &did)?;
    }
    Ok(())
}

/// M4: a volume that was never up is down.
pub(super) fn down_never_up(bench: &Bench, rung: Rung) -> Verdict {
    let (ladder, pod) = (bench.ladder_to(rung)?, bench.pod("a")?);
    bench.make_storage_anew()?;
    let before = bench.node()?;
    let did = format!("{} on a volume that was never up", rung.down());
    bench.down(&ladder, rung, &pod, Plan::Watch)?.or_fail(&did)?;
    match before.left_over(&bench.node()?, &before) {
        Some(what) => fail(did, "nothing on the node changes", what),
        None => Ok(()),
    }
}

/// M5: up again after down.
pub(super) fn up_after_down(bench: &Bench, rung: Rung) -> Verdict {
    let reference = Reference::take(bench, rung)?;
    let did = format!("{} after {}", rung.up(), rung.down());
    reference.go_up(bench, Plan::Watch)?.or_fail(&did)?;
    reference.check_up(bench, &did)?;
    reference.go_down(bench, Plan::Watch)?.or_fail(rung.down())?;
    reference.check_down(bench, rung.down())
}

/// M16: the same host calls for every pod.
pub(super) fn same_calls(bench: &Bench, rung: Rung) -> Verdict {
    let ladder = bench.ladder_to(rung)?;
    let mut seen: Option<Vec<HostCall>> = None;
    for name in ["a", "b", "a"] {
        let pod = bench.pod(name)?;
        bench.fresh(&ladder, rung, &pod)?;
        let called = bench.up(&ladder, rung, &pod, Plan::Watch)?;
        let calls = called.calls.clone();
        called.or_fail(rung.up())?;
        bench.descend(&ladder, &pod)?;
        let before = seen.get_or_insert_with(|| calls.clone());
        if *before != calls {
            let words = |calls: &[HostCall]| calls.iter().map(|call| call.name.as_str()).collect::<Vec<_>>().join(", ");
            return fail(format!("{} for one pod and another", rung.up()), words(before), words(&calls));
        }
    }
    Ok(())
}

/// M15: a second pod's way up and down leaves nothing that the first one's did not.
pub(super) fn leaves_nothing(bench: &Bench, rung: Rung) -> Verdict {
    let ladder = bench.ladder_to(rung)?;
    let (first, second) = (bench.pod("a")?, bench.pod("b")?);
    let untouched = bench.node()?;
    bench.climb(&ladder, &first)?;
    bench.descend(&ladder, &first)?;
    let after_one = bench.node()?;
    for _ in 0..2 {
        bench.climb(&ladder, &second)?;
        bench.descend(&ladder, &second)?;
    }
    match after_one.left_over(&bench.node()?, &untouched) {
        Some(what) => fail("the whole way up and down, twice for another pod", "nothing more on the node", what),
        None => Ok(()),
    }
}

/// M7: whatever host call it was ended at, a repeat comes to the same.
pub(super) fn up_crash_then_repeat(bench: &Bench, rung: Rung) -> Verdict {
    let reference = Reference::take(bench, rung)?;
    for at in 0..reference.up.len() {
        reference.begin(bench)?;
        let _ = reference.go_up(bench, Plan::EndAt(at))?;
        let did = format!("{}; then repeated", ended(rung.up(), &reference.up, at));
        reference.go_up(bench, Plan::Watch)?.or_fail(&did)?;
        reference.check_up(bench, &did)?;
        let did = format!("{did}; then {}", rung.down());
        reference.go_down(bench, Plan::Watch)?.or_fail(&did)?;
        reference.check_down(bench, &did)?;
    }
    Ok(())
}

/// M8: whatever host call it was ended at, the undo takes it back.
pub(super) fn up_crash_then_undo(bench: &Bench, rung: Rung) -> Verdict {
    let reference = Reference::take(bench, rung)?;
    for at in 0..reference.up.len() {
        reference.begin(bench)?;
        let _ = reference.go_up(bench, Plan::EndAt(at))?;
        let did = format!("{}; then {}", ended(rung.up(), &reference.up, at), rung.down());
        reference.go_down(bench, Plan::Watch)?.or_fail(&did)?;
        reference.check_down(bench, &did)?;
    }
    Ok(())
}

/// M7, on the way down.
pub(super) fn down_crash_then_repeat(bench: &Bench, rung: Rung) -> Verdict {
    let reference = Reference::take(bench, rung)?;
    for at in 0..reference.down.len() {
        reference.begin(bench)?;
        reference.go_up(bench, Plan::Watch)?.or_fail(rung.up())?;
        let _ = reference.go_down(bench, Plan::EndAt(at))?;
        let did = format!("{}; then repeated", ended(rung.down(), &reference.down, at));
        reference.go_down(bench, Plan::Watch)?.or_fail(&did)?;
        reference.check_down(bench, &did)?;
    }
    Ok(())
}

/// M8, on the way down: the volume is wanted again.
pub(super) fn down_crash_then_redo(bench: &Bench, rung: Rung) -> Verdict {
    let reference = Reference::take(bench, rung)?;
    for at in 0..reference.down.len() {
        reference.begin(bench)?;
        reference.go_up(bench, Plan::Watch)?.or_fail(rung.up())?;
        let _ = reference.go_down(bench, Plan::EndAt(at))?;
        let did = format!("{}; then {}", ended(rung.down(), &reference.down, at), rung.up());
        reference.go_up(bench, Plan::Watch)?.or_fail(&did)?;
        reference.check_up(bench, &did)?;
        reference.go_down(bench, Plan::Watch)?.or_fail(rung.down())?;
        reference.check_down(bench, rung.down())?;
    }
    Ok(())
}
