//! `volhost run`: the daemon.

use std::fs::OpenOptions;
use std::path::PathBuf;

use volhost_config::Environment;
use volhost_hardening::{Programs, harden};
use volhost_telemetry::Telemetry;

use super::arguments::RunArguments;
use super::error::{CliError, chain};

/// Reads the options, sets up the log, and runs the daemon until it is told to end.
///
/// # Errors
/// [`CliError::Config`] for the options, [`CliError::Daemon`] when the daemon could not start or ended early.
pub(super) fn run(
    arguments: Box<RunArguments>,
    socket: Option<PathBuf>,
    environment: &Environment,
) -> Result<(), CliError> {
    let RunArguments { config: file, mut settings } = *arguments;
    settings.socket = socket;
    let config = volhost_config::load(settings, file, environment)?;
    let programs = if config.flex_driver_dir.is_some() { Programs::Drivers } else { Programs::Own };
    harden(programs).map_err(|error| CliError::Daemon(error.to_string()))?;
    let telemetry =
        Telemetry::begin(config.log_format, &config.log_level, config.otlp_endpoint.as_ref(), &config.node_name)
            .map_err(|error| CliError::Daemon(chain(&error)))?;
    let ready = match &config.ready_file {
        None => None,
        Some(path) => {
            let opened = OpenOptions::new().write(true).create(true).truncate(true).open(path);
            Some(opened.map_err(|source| CliError::File { path: path.clone(), source })?)
        }
    };
    // One thread for everything that waits: the engine's task, the API and the watchers each do microseconds of work at a time, and
    // handing it from thread to thread costs more than the work. What may block or takes long has threads of its own.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::Runtime)?;
    let ended = runtime.block_on(crate::daemon::run(config, ready)).map_err(|error| CliError::Daemon(chain(&error)));
    // A thread that the kernel holds in a hung system call must not keep the process from ending.
    runtime.shutdown_background();
    telemetry.end();
    ended
}
