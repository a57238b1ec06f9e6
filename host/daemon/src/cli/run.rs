//! `volhost run`: the daemon.

use std::fs::OpenOptions;
use std::path::PathBuf;

use tracing_subscriber::EnvFilter;
use volhost::config::{self, Environment, LogFilter, LogFormat};

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
    let config = config::load(settings, file, environment)?;
    log(config.log_format, &config.log_level);
    let ready = match &config.ready_file {
        None => None,
        Some(path) => {
            let opened = OpenOptions::new().write(true).create(true).truncate(true).open(path);
            Some(opened.map_err(|source| CliError::File { path: path.clone(), source })?)
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CliError::Runtime)?;
    let ended = runtime.block_on(volhost::run::run(config, ready)).map_err(|error| CliError::Daemon(chain(&error)));
    // A thread that the kernel holds in a hung system call must not keep the process from ending.
    runtime.shutdown_background();
    ended
}

/// To standard error: standard output is for results.
fn log(format: LogFormat, level: &LogFilter) {
    // The text was checked when it was read; should the two ever differ, everything at `info` is the safer side.
    let filter = EnvFilter::try_new(level.as_str()).unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => lines.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init(),
        LogFormat::Json => lines.json().init(),
    }
}
