//! How a case, or a step of it, goes.

use volhost_runtime::CallError;

use crate::watch::HostCall;

/// Why a case did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CaseStop {
    /// It says nothing of this plugin, or of this volume.
    NotApplicable(String),
    /// The plugin, or the suite, failed.
    Failed(CaseFailure),
}

/// What was done, what was expected, what happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CaseFailure {
    pub(crate) did: String,
    pub(crate) expected: String,
    pub(crate) happened: String,
}

/// How a case, or a step of it, went.
pub(crate) type Verdict<T = ()> = Result<T, CaseStop>;

/// A failure.
pub(crate) fn fail<T>(did: impl Into<String>, expected: impl Into<String>, happened: impl Into<String>) -> Verdict<T> {
    Err(CaseStop::Failed(CaseFailure { did: did.into(), expected: expected.into(), happened: happened.into() }))
}

/// The case says nothing of this volume.
pub(crate) fn not_applicable<T>(why: impl Into<String>) -> Verdict<T> {
    Err(CaseStop::NotApplicable(why.into()))
}

/// The result of a call of the plugin.
#[derive(Debug)]
pub(crate) struct CallResult<T = ()> {
    pub(crate) result: Result<T, CallError>,
    /// The host calls that it made.
    pub(crate) calls: Vec<HostCall>,
    /// Its log lines and events.
    pub(crate) lines: Vec<String>,
}

impl<T> CallResult<T> {
    /// Replaces the value of a result that is ok.
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> CallResult<U> {
        CallResult { result: self.result.map(change), calls: self.calls, lines: self.lines }
    }

    /// The result, which has to be ok.
    pub(crate) fn or_fail(self, did: &str) -> Verdict<T> {
        self.result.or_else(|error| fail(did, "ok", error.message()))
    }
}
