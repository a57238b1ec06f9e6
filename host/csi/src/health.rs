//! Whether a registered driver can be used.

/// The result of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Health {
    /// The driver can be used.
    Healthy,
    /// The driver answers, and is not ready yet.
    NotReady,
    /// The driver does not answer, or reports an error.
    Unhealthy(String),
}
