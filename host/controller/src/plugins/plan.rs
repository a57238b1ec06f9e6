//! Which nodes get which revision next: a pure function of what is known.
//!
//! ```text
//!                    every node ready
//!  wanted revision -------------------> current
//!        |
//!        | fails on a node, or makes no progress in time
//!        v
//!  rolled back: its nodes go back to the current revision, until the spec changes
//! ```
//!
//! # Guarantees
//! - A ready plugin is replaced only while fewer than `max_unavailable` nodes are not ready.
//! - A node whose plugin is not ready may get another revision at any time: it has nothing to lose.
//! - A node that is new gets the current revision. It takes part in a rollout afterwards.
//! - A node that does not answer is left alone, and does not count.
//! - A plugin that asks for more than is granted is not a failure: the rollout waits.
//! - Without a current revision there is nothing to go back to: a rollout that fails stops.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use volhost_cluster_client::plugins::{FailedRevision, MaxUnavailable, PluginState};

/// The reason of a revision that was not loaded in time.
const DEADLINE: &str = "ProgressDeadlineExceeded";

/// What a plan is made of.
#[derive(Debug, Clone)]
pub(crate) struct PlanInput<'a> {
    /// The revision that the spec asks for.
    pub(crate) wanted: &'a str,
    /// The last revision that was ready everywhere.
    pub(crate) current: Option<&'a str>,
    /// The revision that failed before.
    pub(crate) failed: Option<&'a FailedRevision>,
    pub(crate) paused: bool,
    pub(crate) max_unavailable: &'a MaxUnavailable,
    pub(crate) deadline: Duration,
    pub(crate) now: Timestamp,
    pub(crate) nodes: &'a [PlanNode],
}

/// A node that is to have the plugin.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlanNode {
    pub(crate) name: String,
    /// It answers: its Node is ready, as far as the cluster knows.
    pub(crate) is_live: bool,
    /// The revision that it is to have, and since when.
    pub(crate) assigned: Option<(String, Timestamp)>,
    /// What it reports.
    pub(crate) report: Option<PlanReport>,
}

/// What a node reports of the plugin.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlanReport {
    pub(crate) revision: String,
    pub(crate) state: PluginState,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) since: Option<Timestamp>,
}

/// Which of the two revisions a node gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// The one that the spec asks for.
    Wanted,
    /// The last that was ready everywhere.
    Current,
}

/// What is to be done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Nodes that get another revision.
    pub(crate) assign: BTreeMap<String, Target>,
    /// Why the wanted revision is not rolled out any further.
    pub(crate) failure: Option<FailedRevision>,
    /// Every node is ready with the wanted revision.
    pub(crate) is_complete: bool,
    /// When a node's time is over, if nothing else happens before.
    pub(crate) due: Option<Timestamp>,
}

impl PlanNode {
    /// Returns whether the node is to have this revision.
    pub(crate) fn has(&self, revision: &str) -> bool {
        self.assigned.as_ref().is_some_and(|(assigned, _)| assigned == revision)
    }

    /// What the node reports of the revision that it is to have.
    pub(crate) fn current_report(&self) -> Option<&PlanReport> {
        let (assigned, _) = self.assigned.as_ref()?;
        self.report.as_ref().filter(|report| report.revision == *assigned)
    }

    /// Returns whether the plugin is ready with the revision that the node is to have.
    pub(crate) fn is_ready(&self) -> bool {
        self.current_report().is_some_and(|report| report.state == PluginState::Ready)
    }

    /// When the node's time to load what it is to have is over; none while it does not count.
    fn deadline(&self, deadline: Duration) -> Option<Timestamp> {
        let (_, assigned) = self.assigned.as_ref()?;
        let since = match self.current_report() {
            None => *assigned,
            Some(report) if report.state == PluginState::Loading => report.since.unwrap_or(*assigned).max(*assigned),
            Some(_) => return None,
        };
        since.checked_add(deadline).ok()
    }
}

/// Decides what is to be done now.
pub(crate) fn plan(input: &PlanInput<'_>) -> Plan {
    let live: Vec<&PlanNode> = input.nodes.iter().filter(|node| node.is_live).collect();
    let is_current = input.current == Some(input.wanted);
    let failure = input.failed.filter(|failed| failed.revision == input.wanted).cloned();
    let failure = failure.or_else(|| if is_current { None } else { failed_on(&live, input) });
    let due = match failure {
        None if !is_current => loading(&live, input.wanted).filter_map(|node| node.deadline(input.deadline)).min(),
        _ => None,
    };
    let is_complete =
        failure.is_none() && !live.is_empty() && live.iter().all(|node| node.has(input.wanted) && node.is_ready());
    Plan { assign: assignments(&live, input, failure.is_some()), failure, is_complete, due }
}

/// The nodes that have the revision and are not ready.
fn loading<'a>(live: &'a [&PlanNode], revision: &'a str) -> impl Iterator<Item = &'a PlanNode> {
    live.iter().copied().filter(move |node| node.has(revision) && !node.is_ready())
}

/// The first node on which the wanted revision has failed.
fn failed_on(live: &[&PlanNode], input: &PlanInput<'_>) -> Option<FailedRevision> {
    loading(live, input.wanted).find_map(|node| {
        let failed = |reason: &str, message: String| FailedRevision {
            revision: input.wanted.to_owned(),
            node: node.name.clone(),
            reason: reason.to_owned(),
            message,
        };
        let report = node.current_report();
        if let Some(report) = report.filter(|report| report.state == PluginState::Failed) {
            return Some(failed(&report.reason, report.message.clone()));
        }
        if node.deadline(input.deadline).is_none_or(|deadline| input.now < deadline) {
            return None;
        }
        let last = match report.map(|report| report.message.as_str()).filter(|message| !message.is_empty()) {
            Some(message) => format!("; its last words: {message}"),
            None => String::new(),
        };
        let seconds = input.deadline.as_secs();
        Some(failed(DEADLINE, format!("the plugin was not ready within {seconds} s{last}")))
    })
}

fn assignments(live: &[&PlanNode], input: &PlanInput<'_>, has_failed: bool) -> BTreeMap<String, Target> {
    let (target, revision) = match (has_failed, input.current) {
        (true, None) => return BTreeMap::new(),
        (true, Some(current)) => (Target::Current, current),
        (false, _) => (Target::Wanted, input.wanted),
    };
    let mut assign = BTreeMap::new();
    let may_advance = has_failed || !input.paused;
    let mut unready = live.iter().filter(|node| node.assigned.is_some() && !node.is_ready()).count();
    let budget = input.max_unavailable.of(live.len());
    for node in live.iter().filter(|node| !node.has(revision)) {
        match (&node.assigned, input.current) {
            // What is known to work is installed at once: no volume depends on the node's yet.
            (None, Some(_)) => {
                assign.insert(node.name.clone(), Target::Current);
            }
            (Some(_), _) if may_advance && !node.is_ready() => {
                assign.insert(node.name.clone(), target);
            }
            (None, None) | (Some(_), _) if may_advance && unready < budget => {
                unready = unready.saturating_add(1);
                assign.insert(node.name.clone(), target);
            }
            _ => {}
        }
    }
    assign
}

#[cfg(test)]
mod tests;
