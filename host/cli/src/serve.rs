//! `volhost run` and `volhost csi-serve`: this process becomes `volhostd`, the program beside it.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::CliError;

/// The program that mounts. It is installed in the folder of `volhost`.
const PROGRAM: &str = "volhostd";

/// Becomes `volhostd` with this process's own arguments, which it reads as they are.
///
/// Returns only why that failed.
pub(super) fn become_daemon() -> CliError {
    match daemon_program() {
        Ok(program) => {
            let source = Command::new(&program).args(std::env::args_os().skip(1)).exec();
            CliError::NoDaemon { program, source }
        }
        Err(error) => error,
    }
}

/// The path of `volhostd`.
///
/// # Errors
/// The folder of this program is unknown.
pub(super) fn daemon_program() -> Result<PathBuf, CliError> {
    let own = std::env::current_exe().map_err(CliError::Runtime)?;
    beside(&own).ok_or_else(|| CliError::NoDaemon {
        program: PathBuf::from(PROGRAM),
        source: io::Error::other(format!("{} is in no folder", own.display())),
    })
}

fn beside(own: &Path) -> Option<PathBuf> {
    own.parent().map(|folder| folder.join(PROGRAM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemon_is_looked_for_beside_this_program_alone() {
        assert_eq!(beside(Path::new("/usr/bin/volhost")), Some(PathBuf::from("/usr/bin/volhostd")));
        assert_eq!(beside(Path::new("/")), None);
    }
}
