//! Tables of cases, and rollouts over simulated nodes.

use super::*;

const NEW: &str = "new";
const OLD: &str = "old";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn report(revision: &str, state: PluginState) -> PlanReport {
    PlanReport { revision: revision.to_owned(), state, ..PlanReport::default() }
}

/// A live node that is to have a revision since second 0.
fn node(name: &str, assigned: Option<&str>, report: Option<PlanReport>) -> PlanNode {
    let assigned = assigned.map(|revision| (revision.to_owned(), at(0)));
    PlanNode { name: name.to_owned(), is_live: true, assigned, report }
}

fn ready(name: &str, revision: &str) -> PlanNode {
    node(name, Some(revision), Some(report(revision, PluginState::Ready)))
}

const ONE: MaxUnavailable = MaxUnavailable::Nodes(1);

fn input(nodes: &[PlanNode]) -> PlanInput<'_> {
    PlanInput {
        wanted: NEW,
        current: Some(OLD),
        failed: None,
        paused: false,
        max_unavailable: &ONE,
        deadline: Duration::from_secs(600),
        now: at(60),
        nodes,
    }
}

fn assigned(plan: &Plan) -> Vec<(&str, Target)> {
    plan.assign.iter().map(|(node, target)| (node.as_str(), *target)).collect()
}

#[test]
fn one_node_after_the_other_gets_the_new_revision() {
    let mut nodes = vec![ready("a", OLD), ready("b", OLD)];
    assert_eq!(assigned(&plan(&input(&nodes))), [("a", Target::Wanted)]);
    nodes[0] = node("a", Some(NEW), Some(report(OLD, PluginState::Ready)));
    assert_eq!(assigned(&plan(&input(&nodes))), []);
    nodes[0] = ready("a", NEW);
    let next = plan(&input(&nodes));
    assert_eq!(assigned(&next), [("b", Target::Wanted)]);
    assert!(!next.is_complete);
    nodes[1] = ready("b", NEW);
    assert!(plan(&input(&nodes)).is_complete);
}

#[test]
fn as_many_nodes_as_may_be_unavailable_load_at_once() {
    let nodes: Vec<PlanNode> = ["a", "b", "c", "d", "e"].map(|name| ready(name, OLD)).into();
    for (most, count) in
        [(MaxUnavailable::Nodes(2), 2), (MaxUnavailable::Part("50%".into()), 3), (MaxUnavailable::Nodes(9), 5)]
    {
        let plan = plan(&PlanInput { max_unavailable: &most, ..input(&nodes) });
        assert_eq!(plan.assign.len(), count, "{most:?}");
    }
}

#[test]
fn a_node_that_has_nothing_to_lose_is_not_waited_for() {
    let broken = node("b", Some(OLD), Some(report(OLD, PluginState::Failed)));
    let nodes = [ready("a", OLD), broken];
    assert_eq!(assigned(&plan(&input(&nodes))), [("b", Target::Wanted)], "and a waits for it");
}

#[test]
fn a_failure_brings_every_updated_node_back() {
    let failed = PlanReport { reason: "Refused".into(), message: "no".into(), ..report(NEW, PluginState::Failed) };
    let nodes = [ready("a", NEW), node("b", Some(NEW), Some(failed)), ready("c", OLD)];
    let first = plan(&input(&nodes));
    let failure = first.failure.clone().unwrap();
    assert_eq!((failure.node.as_str(), failure.reason.as_str(), failure.message.as_str()), ("b", "Refused", "no"));
    assert_eq!(assigned(&first), [("b", Target::Current)], "a is ready, and b is not");
    let nodes = [ready("a", NEW), ready("b", OLD), ready("c", OLD)];
    let back = PlanInput { failed: Some(&failure), ..input(&nodes) };
    assert_eq!(assigned(&plan(&back)), [("a", Target::Current)]);
    let paused = PlanInput { paused: true, ..back };
    assert_eq!(assigned(&plan(&paused)), [("a", Target::Current)], "a pause keeps no failed revision");
    let nodes = [ready("a", OLD), ready("b", OLD), ready("c", OLD)];
    let done = plan(&PlanInput { failed: Some(&failure), ..input(&nodes) });
    assert!(done.assign.is_empty() && !done.is_complete);
    // The spec asks for another revision.
    let next = plan(&PlanInput { failed: Some(&failure), wanted: "newer", ..input(&nodes) });
    assert_eq!((assigned(&next), next.failure.is_none()), (vec![("a", Target::Wanted)], true));
}

#[test]
fn a_first_rollout_that_fails_stops() {
    let nodes = [ready("a", NEW), node("b", Some(NEW), Some(report(NEW, PluginState::Failed))), node("c", None, None)];
    let stopped = plan(&PlanInput { current: None, ..input(&nodes) });
    assert!(stopped.failure.is_some() && stopped.assign.is_empty(), "{stopped:?}");
}

#[test]
fn time_counts_from_the_last_progress_and_not_while_a_grant_is_awaited() {
    let of = |report: Option<PlanReport>, now| {
        let nodes = [node("a", Some(NEW), report)];
        let plan = plan(&PlanInput { now: at(now), ..input(&nodes) });
        (plan.failure.map(|failure| failure.reason), plan.due)
    };
    let loading = |since| Some(PlanReport { since: Some(at(since)), ..report(NEW, PluginState::Loading) });
    assert_eq!(of(None, 599), (None, Some(at(600))));
    assert_eq!(of(None, 600), (Some(DEADLINE.to_owned()), None));
    assert_eq!(of(loading(300), 600), (None, Some(at(900))));
    assert_eq!(of(loading(300), 900).0.as_deref(), Some(DEADLINE));
    assert_eq!(of(Some(report(NEW, PluginState::GrantNeeded)), 9000), (None, None));
    assert_eq!(of(Some(report(OLD, PluginState::Ready)), 600).0.as_deref(), Some(DEADLINE), "of another revision");
}

#[test]
fn a_plugin_that_waits_for_a_grant_holds_the_rollout() {
    let nodes = [node("a", Some(NEW), Some(report(NEW, PluginState::GrantNeeded))), ready("b", OLD)];
    let waiting = plan(&input(&nodes));
    assert!(waiting.assign.is_empty() && waiting.failure.is_none());
    // With the grant, it is another revision.
    assert_eq!(assigned(&plan(&PlanInput { wanted: "granted", ..input(&nodes) })), [("a", Target::Wanted)]);
}

#[test]
fn a_new_node_gets_the_current_revision_and_a_first_one_the_wanted() {
    let nodes = [node("a", Some(NEW), None), node("b", None, None), node("c", None, None)];
    assert_eq!(assigned(&plan(&input(&nodes))), [("b", Target::Current), ("c", Target::Current)]);
    let paused = PlanInput { paused: true, ..input(&nodes) };
    assert_eq!(assigned(&plan(&paused)), [("b", Target::Current), ("c", Target::Current)]);
    let first = [node("a", None, None), node("b", None, None)];
    let none = PlanInput { current: None, ..input(&first) };
    assert_eq!(assigned(&plan(&none)), [("a", Target::Wanted)]);
    assert_eq!(assigned(&plan(&PlanInput { paused: true, ..none })), []);
}

#[test]
fn a_node_that_does_not_answer_is_left_alone_and_does_not_count() {
    let dead = PlanNode { is_live: false, ..node("a", Some(NEW), None) };
    let nodes = [dead, ready("b", OLD)];
    let plan = plan(&PlanInput { now: at(10_000), ..input(&nodes) });
    assert_eq!(assigned(&plan), [("b", Target::Wanted)]);
    assert_eq!(plan.failure, None);
}

#[test]
fn what_was_ready_everywhere_is_not_rolled_back_from() {
    let nodes = [node("a", Some(NEW), Some(report(NEW, PluginState::Failed))), ready("b", NEW)];
    let later = plan(&PlanInput { current: Some(NEW), now: at(10_000), ..input(&nodes) });
    assert!(later.failure.is_none() && later.assign.is_empty() && !later.is_complete);
}

/// Numbers that look random, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[test]
fn every_rollout_ends_with_all_nodes_new_or_all_old_and_never_disturbs_too_many() {
    for seed in 1..400 {
        let mut numbers = Numbers(seed * 7919);
        let count = usize::try_from(1 + numbers.below(12)).unwrap();
        let most = MaxUnavailable::Nodes(u32::try_from(1 + numbers.below(4)).unwrap());
        let allowed = most.of(count);
        // A node on which the new revision fails, if there is one.
        let bad = usize::try_from(numbers.below(24)).unwrap();
        let mut nodes: Vec<PlanNode> = (0..count).map(|number| ready(&format!("n{number:02}"), OLD)).collect();
        let mut failed: Option<FailedRevision> = None;
        let mut ended = false;
        for second in 0..10_000 {
            let now = at(second);
            let planned = plan(&PlanInput { max_unavailable: &most, failed: failed.as_ref(), now, ..input(&nodes) });
            failed = planned.failure.clone();
            for (name, target) in &planned.assign {
                let revision = if *target == Target::Wanted { NEW } else { OLD };
                let node = nodes.iter_mut().find(|node| node.name == *name).unwrap();
                node.assigned = Some((revision.to_owned(), now));
            }
            let unready = nodes.iter().filter(|node| !node.is_ready()).count();
            assert!(unready <= allowed, "seed {seed}: {unready} of {allowed}");
            let settled = planned.is_complete
                || planned.failure.is_some() && nodes.iter().all(|node| node.has(OLD) && node.is_ready());
            if planned.assign.is_empty() && settled {
                ended = true;
                break;
            }
            // One node makes progress, or none does.
            let turn = usize::try_from(numbers.below(2 * count as u64)).unwrap();
            if let Some((number, node)) = nodes.iter_mut().enumerate().nth(turn) {
                let (assigned, _) = node.assigned.clone().unwrap();
                let state = match (assigned == NEW && number == bad, numbers.below(3)) {
                    (true, _) => PluginState::Failed,
                    (false, 0) if !node.is_ready() => PluginState::Loading,
                    (false, _) => PluginState::Ready,
                };
                node.report = Some(report(&assigned, state));
            }
        }
        assert!(ended, "seed {seed} does not end: {nodes:#?}");
        let all = |revision: &str| nodes.iter().all(|node| node.has(revision) && node.is_ready());
        assert_eq!((all(NEW), all(OLD)), (bad >= count, bad < count), "seed {seed}");
    }
}
