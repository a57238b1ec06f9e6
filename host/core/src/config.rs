//! The machine's settings.

use crate::event::Time;

/// The default wait for a pod's volumes: 2 min 3 s, the kubelet's figure,
/// a second more than the longest back-off, so that at least one more try falls into the wait.
pub const WAIT_DEFAULT: Time = 123_000_000;

/// The machine's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Config {
    /// The host attaches volumes itself. Otherwise a controller does, and the host waits for its
    /// report.
    pub host_attaches: bool,
}

impl Config {
    /// With the host attaching volumes itself, or not.
    #[must_use]
    pub const fn with_host_attaches(mut self, host_attaches: bool) -> Self {
        self.host_attaches = host_attaches;
        self
    }
}
