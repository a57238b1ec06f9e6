//! Why the agent could not start.

use std::io;

use thiserror::Error;

/// Why the agent could not start.
#[derive(Debug, Error)]
pub enum AgentError {
    /// The log cannot be set up.
    #[error(transparent)]
    Telemetry(#[from] volhost_telemetry::TelemetryError),
    /// The machine has no name.
    #[error(transparent)]
    Config(#[from] volhost_config::ConfigError),
    /// There is no runtime or no signal handler.
    #[error("cannot start threads: {0}")]
    Runtime(#[source] io::Error),
    /// The kernel does not end the agent with the daemon.
    #[error("the end of the daemon cannot be noticed: {0}")]
    Parent(#[source] io::Error),
    /// There is no client of an API server.
    #[error(transparent)]
    Connection(#[from] volhost_cluster_client::ConnectionError),
}

impl AgentError {
    /// The exit code: 2 for what the operator has to change, otherwise 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Connection(_) => 2,
            Self::Telemetry(_) | Self::Runtime(_) | Self::Parent(_) => 1,
        }
    }
}
