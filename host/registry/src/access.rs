//! How to reach a registry.

use std::time::Duration;

use crate::credentials::Credentials;

/// How to reach a registry.
#[derive(Debug, Clone)]
pub struct Access {
    /// The login. Without it, requests are anonymous.
    pub credentials: Option<Credentials>,
    /// Use HTTP without TLS. Only to this machine.
    pub plain_http: bool,
    /// How long a registry may be silent: while a connection is opened, and between two pieces of
    /// an answer.
    pub idle_timeout: Duration,
}

impl Default for Access {
    fn default() -> Self {
        Self { credentials: None, plain_http: false, idle_timeout: IDLE_TIMEOUT }
    }
}

/// Longer than a loaded registry takes to look up a manifest, shorter than a user waits for a dead
/// one.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
