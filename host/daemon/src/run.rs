//! `volhostd run`: the daemon.

use std::fs::OpenOptions;
use std::path::PathBuf;

use volhost_config::{EnvironmentVariables, RunArguments};
use volhost_hardening::{Programs, harden};
use volhost_telemetry::Telemetry;

use super::error::DaemonError;

/// Reads the options, sets up the log, and runs the daemon until a signal ends it.
///
/// # Errors
/// [`DaemonError::Config`] for the options; others when the daemon could not start or ended early.
pub(super) fn run(
    arguments: RunArguments,
    socket: Option<PathBuf>,
    environment: &EnvironmentVariables,
) -> Result<(), DaemonError> {
    let RunArguments { config: file, mut settings } = arguments;
    settings.socket = socket;
    let config = volhost_config::load(settings, file, environment)?;
    let programs = if config.flex_driver_dir.is_some() { Programs::Drivers } else { Programs::Own };
    harden(programs)?;
    let telemetry =
        Telemetry::begin(config.log_format, &config.log_level, config.otlp_endpoint.as_ref(), &config.node_name)?;
    let ready = match &config.ready_file {
        None => None,
        Some(path) => {
            let opened = OpenOptions::new().write(true).create(true).truncate(true).open(path);
            Some(opened.map_err(|source| DaemonError::File { path: path.clone(), source })?)
        }
    };
    // One thread for everything that waits: the loop, the API and the watchers each do microseconds
    // of work at a time, and passing it between threads costs more than the work. What may block or
    // takes long has threads of its own.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(DaemonError::Runtime)?;
    let ended = runtime.block_on(crate::daemon::run(config, ready));
    // A thread that the kernel holds in a hung system call must not keep the process from ending.
    runtime.shutdown_background();
    telemetry.end();
    Ok(ended?)
}
