//! `volhost run`, `csi-serve`, `controller`, `plugin-controller`, `csi-probe`, `node-agent`: this
//! process becomes the program beside it that does it.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::CliError;

/// The program that mounts. It is installed in the folder of `volhost`.
const DAEMON: &str = "volhostd";
/// The program that speaks to a cluster's API server. It is installed there, too.
const CONTROLLER: &str = "volhost-controller";

/// Becomes `volhostd` with this process's own arguments, which it reads as they are.
///
/// Returns only why that failed.
pub(super) fn become_daemon() -> CliError {
    become_program(DAEMON)
}

/// The same for `volhost-controller`.
pub(super) fn become_controller() -> CliError {
    become_program(CONTROLLER)
}

fn become_program(name: &str) -> CliError {
    match program(name) {
        Ok(program) => {
            let source = Command::new(&program).args(std::env::args_os().skip(1)).exec();
            CliError::NoProgram { program, source }
        }
        Err(error) => error,
    }
}

/// The path of `volhostd`.
///
/// # Errors
/// The folder of this program is unknown.
pub(super) fn daemon_program() -> Result<PathBuf, CliError> {
    program(DAEMON)
}

fn program(name: &str) -> Result<PathBuf, CliError> {
    let own = std::env::current_exe().map_err(CliError::Runtime)?;
    beside(&own, name).ok_or_else(|| CliError::NoProgram {
        program: PathBuf::from(name),
        source: io::Error::other(format!("{} is in no folder", own.display())),
    })
}

fn beside(own: &Path, name: &str) -> Option<PathBuf> {
    own.parent().map(|folder| folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_for_beside_this_one_alone() {
        assert_eq!(beside(Path::new("/usr/bin/volhost"), DAEMON), Some(PathBuf::from("/usr/bin/volhostd")));
        assert_eq!(beside(Path::new("/"), CONTROLLER), None);
    }
}
