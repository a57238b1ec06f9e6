//! Why the host ends a call: not an error that the plugin sees, but the end of its sandbox.

use thiserror::Error;

/// The reason, carried through wasmtime's error and found again on the other side.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum Abort {
    /// The plugin's own code ran too long.
    #[error("its deadline passed")]
    Deadline,
    /// A limit was reached.
    #[error("it used {what}")]
    Limit {
        /// More than what.
        what: String,
    },
    /// The watcher of its host calls ended it.
    #[error("the host ended it at a host call")]
    Ended,
    /// Its result is no longer wanted.
    #[error("its pod was deleted")]
    Cancelled,
    /// It broke the contract.
    #[error("it broke the contract: {what}")]
    Contract {
        /// How.
        what: String,
    },
}

impl Abort {
    pub(crate) fn limit(what: impl Into<String>) -> Self {
        Self::Limit { what: what.into() }
    }

    pub(crate) fn contract(what: impl Into<String>) -> Self {
        Self::Contract { what: what.into() }
    }
}
