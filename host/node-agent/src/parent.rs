//! The daemon that has started this agent: the agent ends with it.

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::error::AgentError;

/// Has the kernel end this process with the daemon of this process id, which has started it.
/// Returns whether the daemon still runs.
///
/// # Errors
/// [`AgentError::Parent`].
pub(crate) fn end_with(daemon: i32) -> Result<bool, AgentError> {
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(|errno| AgentError::Parent(errno.into()))?;
    // It may have ended before.
    Ok(getppid().map(Pid::as_raw_pid) == Some(daemon))
}
