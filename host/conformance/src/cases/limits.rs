//! What a plugin uses up.

use crate::bench::Bench;
use crate::verdict::{Called, Verdict, fail};
use crate::watch::Plan;

/// More host calls than this in one call are too many for any volume: the host allows a hundred times as many.
const HOST_CALLS: usize = 1000;
/// Log lines and events of one call: the host drops those beyond twice as many.
const LINES: usize = 100;

/// Goes all the way up and down, and looks at each call.
fn each(bench: &Bench, check: impl Fn(&str, &Called) -> Verdict) -> Verdict {
    let (ladder, pod) = (bench.ladder()?, bench.pod("a")?);
    for rung in ladder.rungs.clone() {
        check(rung.up(), &bench.up(&ladder, rung, &pod, Plan::Watch)?)?;
    }
    for rung in ladder.rungs.iter().rev() {
        check(rung.down(), &bench.down(&ladder, *rung, &pod, Plan::Watch)?)?;
    }
    Ok(())
}

/// L1: host calls.
pub(super) fn host_calls(bench: &Bench) -> Verdict {
    each(bench, |function, called| match called.calls.len() {
        many if many > HOST_CALLS => fail(function, format!("{HOST_CALLS} host calls at most"), format!("{many}")),
        _ => Ok(()),
    })
}

/// L1: log lines and events.
pub(super) fn lines(bench: &Bench) -> Verdict {
    each(bench, |function, called| match called.lines.len() {
        many if many > LINES => fail(function, format!("{LINES} log lines and events at most"), format!("{many}")),
        _ => Ok(()),
    })
}

/// L1: memory, time, handles, answers: the host ends a call that uses more than it may.
pub(super) fn memory_and_time(bench: &Bench) -> Verdict {
    each(bench, |function, called| match &called.result {
        Err(error) => fail(function, "ok within the limits that every plugin has", error.message()),
        Ok(()) => Ok(()),
    })
}
