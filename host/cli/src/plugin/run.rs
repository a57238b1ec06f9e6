//! `volhost plugin run`: a daemon with this plugin alone, in a mount namespace and a folder of its
//! own, and a shell in a volume.

use std::path::{Path, PathBuf};
use std::process::Command;

use tokio::signal::unix::{SignalKind, signal};
use volhost_kernel::namespace::unshare_mounts;
use volhost_plugin_build::Request;
use volhost_plugin_build::toolchain::Search;

use super::build::build;
use super::scratch_daemon::ScratchDaemon;
use super::shell;
use crate::arguments::TryArguments;
use crate::error::CliError;
use crate::output::Output;
use volhost_model::text::error_chain;

/// Mounts, runs the shell, and unmounts and removes everything. The whole process enters a mount
/// namespace of its own, so no thread may exist yet.
pub(super) fn run(arguments: &TryArguments, output: &mut Output) -> Result<(), CliError> {
    let wasm = match &arguments.file {
        Some(file) => file.clone(),
        None => built()?,
    };
    unshare_mounts().map_err(|error| CliError::Failed(error_chain(&error)))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::Runtime)?;
    let daemon = ScratchDaemon::start(Some(&wasm), arguments.config.as_deref())?;
    let mounted = runtime.block_on(async {
        // From here on Ctrl-C ends the wait or the command, and everything is still cleaned up.
        let mut interrupt = signal(SignalKind::interrupt()).map_err(CliError::Runtime)?;
        let mount = async {
            daemon.loaded().await?;
            daemon.mount(&arguments.volume, arguments.timeout.0, output).await
        };
        tokio::select! {
            mounted = mount => mounted,
            _ = interrupt.recv() => Err(CliError::Failed("interrupted".to_owned())),
        }
    });
    let tried = mounted.and_then(|place| {
        output.line(&format!("The volume is mounted at {}; leave the shell to unmount it.", place.display()))?;
        output.flush()?;
        try_volume(arguments, &place, &daemon.socket())
    });
    let drained = runtime.block_on(daemon.drain(output));
    tried.and(daemon.end(drained))
}

/// The crate in the current folder, as a component.
fn built() -> Result<PathBuf, CliError> {
    let request = Request { crates: Vec::new(), manifest: None, out: None, search: Search::default() };
    let plugin = build(&request)?.into_iter().next();
    plugin.map(|plugin| plugin.path).ok_or_else(|| CliError::Failed("nothing was built".to_owned()))
}

/// Runs the command or the shell in the volume's folder. It fails as that fails.
fn try_volume(arguments: &TryArguments, place: &Path, socket: &Path) -> Result<(), CliError> {
    let (program, words) = shell::program(&arguments.command);
    // A volume that is mapped as a device is no folder.
    let folder = if place.is_dir() { place } else { Path::new("/") };
    let status = Command::new(&program)
        .args(words)
        .current_dir(folder)
        .envs(shell::variables(place, socket))
        .status()
        .map_err(|source| CliError::File { path: PathBuf::from(&program), source })?;
    shell::judge(&arguments.command, status)
}
