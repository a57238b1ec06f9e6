//! `volhost docker`.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use volhost_docker::PluginSocket;

use super::error::CliError;
use super::output::Output;

/// `docker`.
#[derive(Debug, Args)]
pub(super) struct DockerArguments {
    /// The plugin's socket; its name is the name of the volume driver
    #[arg(long, value_name = "PATH", default_value = "/run/docker/plugins/volhost.sock")]
    listen: PathBuf,
    /// Also write a spec file, for a socket outside /run/docker/plugins
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
}

/// Serves until SIGTERM or SIGINT.
pub(super) async fn run(arguments: &DockerArguments, daemon: &Path, output: &mut Output) -> Result<(), CliError> {
    let socket = PluginSocket::bind(&arguments.listen).map_err(|error| CliError::Failed(error.to_string()))?;
    let written = arguments.spec.as_deref().map(|spec| write_spec(spec, &arguments.listen).map(|()| spec));
    let written = written.transpose()?;
    let mut terminate = signal(SignalKind::terminate()).map_err(CliError::Runtime)?;
    output.line(&format!("serving Docker's volume plugin API at {}", arguments.listen.display()))?;
    output.flush()?;
    tokio::select! {
        () = volhost_docker::serve(&socket, daemon) => {}
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    match written.map(std::fs::remove_file) {
        Some(Err(source)) if source.kind() != io::ErrorKind::NotFound => {
            Err(CliError::File { path: arguments.spec.clone().unwrap_or_default(), source })
        }
        _ => Ok(()),
    }
}

fn write_spec(spec: &Path, socket: &Path) -> Result<(), CliError> {
    let failed = |source| CliError::File { path: spec.to_path_buf(), source };
    let socket = std::path::absolute(socket).map_err(failed)?;
    std::fs::write(spec, format!("unix://{}\n", socket.display())).map_err(failed)
}
