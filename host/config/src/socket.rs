//! The unix socket between daemon and command line.

use std::path::PathBuf;

use super::environment::EnvironmentVariables;

/// The socket on which the daemon listens and to which the command line connects by default.
pub const DEFAULT_SOCKET: &str = "/run/volhost/volhost.sock";

/// The socket: the command line's, the environment's, or the default.
pub fn socket(flag: Option<PathBuf>, environment: &EnvironmentVariables) -> PathBuf {
    flag.or_else(|| environment.get("socket").map(PathBuf::from)).unwrap_or_else(|| PathBuf::from(DEFAULT_SOCKET))
}
