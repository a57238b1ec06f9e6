//! Why the controller could not start, or ended early.

use std::io;

use thiserror::Error;
use volhost_cluster_client::ConnectionError;
use volhost_metrics_listener::listener::MetricsBindError;

use crate::driver::DriverError;
use crate::driver_object::UnfitObject;
use crate::lease::LeaseLost;

/// Why the controller could not start, or ended early.
#[derive(Debug, Error)]
pub(crate) enum ControllerError {
    /// The log cannot be set up.
    #[error(transparent)]
    Telemetry(#[from] volhost_telemetry::TelemetryError),
    /// The machine has no name.
    #[error(transparent)]
    Config(#[from] volhost_config::ConfigError),
    /// The kernel gives no random name.
    #[error("cannot make a name of its own for the Lease: /proc/sys/kernel/random/uuid: {0}; is /proc mounted?")]
    Random(#[source] io::Error),
    /// There is no runtime or no signal handler.
    #[error("cannot start threads: {0}")]
    Runtime(#[source] io::Error),
    /// Its address for metrics is not free.
    #[error(transparent)]
    Metrics(#[from] MetricsBindError),
    /// There is no client of an API server.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The driver answers wrongly.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The CSIDriver object.
    #[error(transparent)]
    Object(#[from] UnfitObject),
    /// Another replica may work now.
    #[error(transparent)]
    Lease(#[from] LeaseLost),
    /// A watch has ended, which only a defect of this program can cause.
    #[error("a watch of the API server ended, which it never should; start the controller again and report this")]
    Watch,
}

impl ControllerError {
    /// The exit code: 2 for what the operator has to change, otherwise 1.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Connection(_) | Self::Object(_) | Self::Metrics(_) => 2,
            _ => 1,
        }
    }
}
