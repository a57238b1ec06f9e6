//! What the machine is told once, at its beginning.

use crate::event::Time;

/// How long a caller waits for a pod's volumes if it does not say: 2 min 3 s, the kubelet's figure, a second more than the longest
/// back-off, so that at least one more try falls into the wait.
pub const WAIT_DEFAULT: Time = 123_000_000;

/// The machine's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Config {
    /// The host attaches volumes itself. Otherwise a controller does, and the host waits for its report.
    pub host_attaches: bool,
    /// A rule to break, so that tests can show that they notice.
    #[cfg(feature = "mutants")]
    #[doc(hidden)]
    pub mutation: Option<Mutation>,
}

/// One broken rule.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// R1: an uncertain mount is taken for absent.
    ForgetUncertain,
    /// R2: what recovery found is taken away before every source has spoken.
    UnmountBeforeSynced,
    /// R3: keys are not looked at.
    IgnoreKeys,
    /// R3: failed keys are tried again at once.
    IgnoreBackoff,
    /// A device is unmounted under its pods.
    DeviceBeforePod,
}

impl crate::Core {
    /// Whether this rule is broken on purpose.
    #[cfg(feature = "mutants")]
    pub(crate) fn mutated(&self, mutation: Mutation) -> bool {
        self.config.mutation == Some(mutation)
    }

    /// Outside tests every rule holds.
    #[cfg(not(feature = "mutants"))]
    #[expect(clippy::unused_self, reason = "the twin for tests reads the settings")]
    pub(crate) const fn mutated(&self, _: Mutation) -> bool {
        false
    }
}
