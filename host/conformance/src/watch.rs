//! The host calls of one call of the plugin: recorded, and one of them ended at or made to fail.

use std::sync::{Mutex, PoisonError};

use volhost_kernel::Errno;
use volhost_model::view::EventKind;
use volhost_runtime::{CallSink, HostCallVerdict, HostCalls, LogLevel};

/// What is to become of a call's host calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum HostCallPlan {
    /// All are carried out.
    #[default]
    Watch,
    /// The sandbox ends where the host call of this place, from 0, would begin.
    EndAt(usize),
    /// The host call of this place fails so.
    FailAt(usize, Errno),
}

/// A host call that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostCall {
    /// Its name in the contract.
    pub(crate) name: String,
    /// It may change something on the node.
    pub(crate) changes: bool,
}

/// Watches one call: its host calls, and what it says.
#[derive(Debug, Default)]
pub(crate) struct CallWatch {
    plan: HostCallPlan,
    seen: Mutex<Vec<HostCall>>,
    lines: Mutex<Vec<String>>,
}

impl CallWatch {
    pub(crate) fn new(plan: HostCallPlan) -> Self {
        Self { plan, ..Self::default() }
    }

    /// The host calls so far.
    pub(crate) fn calls(&self) -> Vec<HostCall> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The log lines and events so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn say(&self, line: String) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

impl HostCalls for CallWatch {
    fn begins(&self, call: &str, changes: bool) -> HostCallVerdict {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let at = seen.len();
        let name = call.split(' ').next().unwrap_or(call).to_owned();
        seen.push(HostCall { name, changes });
        match self.plan {
            HostCallPlan::EndAt(place) if place == at => HostCallVerdict::End,
            HostCallPlan::FailAt(place, errno) if place == at => HostCallVerdict::Fail(errno),
            _ => HostCallVerdict::Proceed,
        }
    }
}

impl CallSink for CallWatch {
    fn log(&self, _: LogLevel, message: &str) {
        self.say(message.to_owned());
    }

    fn event(&self, _: EventKind, reason: &str, message: &str) {
        self.say(format!("{reason}: {message}"));
    }
}
