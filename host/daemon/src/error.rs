//! Why `volhostd` failed, and the exit code of each failure.

use std::io::{self, Write as _};
use std::path::PathBuf;

use thiserror::Error;
use volhost_config::ConfigError;
use volhost_hardening::HardenError;
use volhost_metrics_listener::listener::MetricsBindError;
use volhost_model::text::error_chain;
use volhost_model::visible::visible_lines;
use volhost_runtime::{LoadError, RuntimeError, TrustedKeysError};
use volhost_telemetry::TelemetryError;

use crate::daemon::DaemonRunError;

/// Failed at the start, or ended early.
const FAILED: u8 = 1;
/// Wrong configuration. clap uses the same code for wrong usage.
const USAGE: u8 = 2;

/// Why the process ended other than by a signal.
#[derive(Debug, Error)]
pub(super) enum DaemonError {
    /// The options cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file cannot be opened, or a path cannot be made absolute.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The kernel's message.
        source: io::Error,
    },
    /// Privileges cannot be given up.
    #[error(transparent)]
    Harden(#[from] HardenError),
    /// The log or the traces cannot be set up.
    #[error(transparent)]
    Telemetry(Box<TelemetryError>),
    /// The threads and timers of the program cannot be set up.
    #[error("cannot start: {0}")]
    Runtime(#[source] io::Error),
    /// The daemon could not start, or ended early.
    #[error(transparent)]
    Run(Box<DaemonRunError>),
    /// The folder of trusted keys cannot be used.
    #[error(transparent)]
    TrustedKeys(#[from] TrustedKeysError),
    /// The plugin runtime cannot be set up.
    #[error(transparent)]
    PluginRuntime(#[from] RuntimeError),
    /// The plugin cannot be loaded.
    #[error(transparent)]
    Plugin(#[from] LoadError),
    /// Metrics cannot be served at the given address.
    #[error(transparent)]
    Metrics(#[from] MetricsBindError),
    /// The driver's socket has no place below the kubelet's folder.
    #[error("--kubelet-dir: the driver's socket below it cannot be used: {0}; give --endpoint")]
    KubeletDir(#[from] volhost_config::CsiEndpointError),
    /// The plugin cannot be a CSI driver.
    #[error(transparent)]
    Driver(Box<volhost_csi_driver::DriverStartError>),
    /// The CSI driver could not be served, or ended early.
    #[error(transparent)]
    Serve(#[from] volhost_csi_driver::DriverServeError),
}

impl From<TelemetryError> for DaemonError {
    fn from(error: TelemetryError) -> Self {
        Self::Telemetry(Box::new(error))
    }
}

impl From<DaemonRunError> for DaemonError {
    fn from(error: DaemonRunError) -> Self {
        Self::Run(Box::new(error))
    }
}

impl From<volhost_csi_driver::DriverStartError> for DaemonError {
    fn from(error: volhost_csi_driver::DriverStartError) -> Self {
        Self::Driver(Box::new(error))
    }
}

impl DaemonError {
    /// The program's exit code.
    pub(super) const fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::KubeletDir(_) => USAGE,
            _ => FAILED,
        }
    }

    /// Prints the error and its causes on standard error, as the command line does.
    pub(super) fn report(&self, colour: bool) {
        let text = error_chain(self);
        let label = if colour { "\u{1b}[31mError:\u{1b}[0m" } else { "Error:" };
        // A reader that has closed standard error does not want the text.
        let _ = writeln!(io::stderr(), "{label} {}", visible_lines(&text));
    }
}
