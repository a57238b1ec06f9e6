//! Calls to registered external drivers. The node implements them over the drivers' sockets.

use std::fmt::Debug;
use std::time::Duration;

use thiserror::Error;

/// Why a driver gave no answer that can be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DriverFailure {
    /// Nothing reached it.
    #[error("{0}")]
    NotSent(String),
    /// It was sent, and its result is unknown.
    #[error("{0}")]
    Unanswered(String),
    /// The driver answered with a gRPC status that is not ok.
    #[error("{message} (gRPC code {code})")]
    Status {
        /// Its code.
        code: u32,
        /// Its text.
        message: String,
    },
}

/// The drivers. Called from threads that run calls, many at once.
pub trait Drivers: Send + Sync + Debug {
    /// One unary call; blocks until it is answered, at most for `deadline`. `method` is a full gRPC
    /// path. The request may contain secrets and goes nowhere else.
    ///
    /// # Errors
    /// [`DriverFailure`]
    fn call(&self, driver: &str, method: &str, request: Vec<u8>, deadline: Duration) -> Result<Vec<u8>, DriverFailure>;
    /// Returns the driver's name for this node; none while it is not registered.
    fn node_id(&self, driver: &str) -> Option<String>;
    /// How many volumes may be attached to this node, as far as the driver knows.
    fn volume_limit(&self, _driver: &str) -> Option<u32> {
        None
    }
    /// Notes that the driver's information about this node may have changed. Returns at once.
    fn ask_again(&self, _driver: &str) {}
}

/// No drivers: for calls about no volume.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoDrivers;

impl Drivers for NoDrivers {
    fn call(&self, driver: &str, _: &str, _: Vec<u8>, _: Duration) -> Result<Vec<u8>, DriverFailure> {
        Err(DriverFailure::NotSent(format!("driver {driver} cannot be called here")))
    }

    fn node_id(&self, _: &str) -> Option<String> {
        None
    }
}
