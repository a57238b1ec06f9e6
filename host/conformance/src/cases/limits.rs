//! What a plugin uses up.

use crate::test_node::TestNode;
use crate::verdict::{CallResult, Verdict, fail};
use crate::watch::HostCallPlan;

/// More host calls than this in one call are too many for any volume: the host allows a hundred
/// times as many.
const HOST_CALLS: usize = 1000;
/// Log lines and events of one call: the host drops those beyond twice as many.
const LINES: usize = 100;

/// Brings the volume up and down, and checks each call.
fn each(test_node: &TestNode, check: impl Fn(&str, &CallResult) -> Verdict) -> Verdict {
    let (lifecycle, pod) = (test_node.lifecycle()?, test_node.pod("a")?);
    for step in lifecycle.steps.clone() {
        check(step.up(), &test_node.advance(&lifecycle, step, &pod, HostCallPlan::Watch)?)?;
    }
    for step in lifecycle.steps.iter().rev() {
        check(step.down(), &test_node.roll_back(&lifecycle, *step, &pod, HostCallPlan::Watch)?)?;
    }
    Ok(())
}

/// L1: host calls.
pub(super) fn host_calls(test_node: &TestNode) -> Verdict {
    each(test_node, |function, called| match called.calls.len() {
        many if many > HOST_CALLS => fail(function, format!("{HOST_CALLS} host calls at most"), format!("{many}")),
        _ => Ok(()),
    })
}

/// L1: log lines and events.
pub(super) fn lines(test_node: &TestNode) -> Verdict {
    each(test_node, |function, called| match called.lines.len() {
        many if many > LINES => fail(function, format!("{LINES} log lines and events at most"), format!("{many}")),
        _ => Ok(()),
    })
}

/// L1: memory, time, handles, answers: the host ends a call that uses more than it may.
pub(super) fn memory_and_time(test_node: &TestNode) -> Verdict {
    each(test_node, |function, called| match &called.result {
        Err(error) => fail(function, "ok within the limits that every plugin has", error.message()),
        Ok(()) => Ok(()),
    })
}
