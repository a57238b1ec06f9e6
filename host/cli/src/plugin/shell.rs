//! The shell or the command that an author tries a volume with.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitStatus;

use crate::error::CliError;

/// What to run: the command, or without one the user's shell.
pub(super) fn program(command: &[OsString]) -> (OsString, &[OsString]) {
    match command.split_first() {
        Some((program, words)) => (program.clone(), words),
        None => {
            let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
            (shell.unwrap_or_else(|| OsString::from("/bin/sh")), &[])
        }
    }
}

/// The variables that name the volume, and the daemon to the commands of volhost.
pub(super) fn variables<'a>(volume: &'a Path, socket: &'a Path) -> [(&'static str, &'a Path); 2] {
    [("VOLHOST_SOCKET", socket), ("VOLUME", volume)]
}

/// The outcome for the user: a command's failure is ours. A shell ends with the status of its last
/// command, which is not the plugin's.
///
/// # Errors
/// The command failed.
pub(super) fn judge(command: &[OsString], status: ExitStatus) -> Result<(), CliError> {
    match command.first() {
        Some(program) if !status.success() => {
            Err(CliError::Failed(format!("{} ended with {status}", program.display())))
        }
        _ => Ok(()),
    }
}
